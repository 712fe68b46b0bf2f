"""Choosing by score, ties broken at random."""

import numpy as np

from glcb._compile import kernel
from glcb._types import Float64, Int64


@kernel
def _keep_best(scores: Float64, ties: Int64) -> int:
    """Write the positions of the largest score; return how many there are."""
    count = 0
    for i in range(scores.size):
        if count == 0 or scores[i] > scores[ties[0]]:
            ties[0] = i
            count = 1
        elif scores[i] == scores[ties[0]]:
            ties[count] = i
            count += 1
    return count


def best_arm(scores: Float64, allowed: list[int] | None, rng: np.random.Generator) -> int:
    """Return the arm with the largest score, out of the ``allowed`` ones if given."""
    candidates = scores if allowed is None else scores[allowed]
    ties = np.empty(candidates.size, np.int64)
    count = _keep_best(candidates, ties)
    best = int(ties[0] if count == 1 else ties[rng.integers(count)])
    return best if allowed is None else allowed[best]
