"""Choice probabilities among many candidates: exploration concentrates on a few.

With ten arms, exploration can try all arms. With thousands, most of it would go to candidates that are
clearly worse and well known. Beyond ``MANY`` candidates, nine tenths of the exploration go to the candidates
with the best scores and the candidates with the largest bonuses, about which least is known.
"""

import numpy as np

from glcb._arrays import Float64
from glcb._types import ExplorationMode
from glcb.explore.probabilities import probabilities

MANY = 100
"""Up to this many candidates, exploration is divided among all of them."""
FEW = 16
"""Number of candidates with the best scores, and with the largest bonuses, that exploration prefers."""
EVEN_PART = 0.1
"""This part of the exploration is divided evenly among all candidates."""


def candidate_probabilities(
    scores: Float64, bonuses: Float64, exploration: float, exploration_mode: ExplorationMode
) -> Float64:
    """Return the probability of each candidate.

    Up to ``MANY`` candidates, and in mode "uniform", this is :func:`probabilities`. With more in mode "gap",
    the best candidate is chosen with probability 1 − ``exploration``. Every other candidate has a
    probability of at least exploration / (10 n), for n candidates.

    Parameters
    ----------
    scores
        Value plus bonus of each candidate.
    bonuses
        The bonus of each candidate.
    exploration
        The share of decisions for exploration.
    exploration_mode
        How this share is divided.

    Examples
    --------
    >>> scores = np.linspace(0, 1, 1000)
    >>> result = candidate_probabilities(scores, np.zeros(1000), 0.1, "gap")
    >>> result[999].round(3), bool(result.min() >= 0.1 / 10_000), result.sum().round(9)
    (np.float64(0.9), True, np.float64(1.0))
    """
    best = scores == scores.max()
    ties = int(best.sum())
    if scores.size <= MANY or exploration_mode == "uniform" or ties == scores.size:
        return probabilities(scores, None, exploration, exploration_mode)
    others = np.flatnonzero(~best)
    few = np.union1d(_largest(scores, others), _largest(bonuses, others))
    gaps = scores.max() - scores[few]
    closeness = gaps.min() / gaps if np.isfinite(gaps).all() else np.ones(few.size)
    result: Float64 = np.zeros(scores.size)
    result[others] = EVEN_PART * exploration / others.size
    preferred = (1 - EVEN_PART) * exploration
    result[few] += preferred * (0.5 / few.size + 0.5 * closeness / closeness.sum())
    result[best] = (1 - result.sum()) / ties
    return result


def _largest(numbers: Float64, indices: np.ndarray) -> np.ndarray:
    """Return the ``FEW`` of ``indices`` with the largest numbers."""
    if indices.size <= FEW:
        return indices
    largest: np.ndarray = indices[np.argpartition(numbers[indices], -FEW)[-FEW:]]
    return largest
