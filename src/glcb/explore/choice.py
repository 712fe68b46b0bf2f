"""Choosing by score, ties broken at random."""

import numpy as np

from glcb._numba.compile import kernel
from glcb._types import Float64


@kernel
def _best(values: Float64, bonuses: Float64) -> tuple[int, int]:
    """Return the first arm with the largest score, and how many have it."""
    best, ties = 0, 0
    largest = -np.inf
    for arm in range(values.size):
        score = values[arm] + bonuses[arm]
        if ties == 0 or score > largest:
            best, ties, largest = arm, 1, score
        elif score == largest:
            ties += 1
    return best, ties


def best_arm(values: Float64, bonuses: Float64, allowed: list[int] | None, rng: np.random.Generator) -> int:
    """Return the arm with the largest score, value plus bonus, out of the ``allowed`` ones if given."""
    if allowed is not None:
        return allowed[best_arm(values[allowed], bonuses[allowed], None, rng)]
    best, ties = _best(values, bonuses)
    if ties > 1:
        scores = values + bonuses
        best = int(np.flatnonzero(scores == scores[best])[rng.integers(ties)])
    return best
