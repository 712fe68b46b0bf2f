"""Choice probabilities: the arm with the best score, except for a share reserved for exploration."""

import numpy as np

from glcb._arrays import Float64
from glcb._numba.compile import kernel
from glcb._types import ExplorationMode

_EVEN_PART = 0.5
"""In mode "gap", this part of the share is divided evenly, so that every arm has a positive probability."""


def probabilities(
    scores: Float64, allowed: list[int] | None, exploration: float, exploration_mode: ExplorationMode
) -> Float64:
    """Return the probability of each arm.

    The arm with the best score, or one of the tied best arms, is chosen with probability
    1 − ``exploration``. Otherwise another arm is chosen, with equal probabilities ("uniform") or with larger
    probabilities for smaller gaps to the best score ("gap"). Each of n arms has a probability of at least
    exploration / (n − 1), or half of that with "gap". An arm is never less likely than an arm with a lower
    score.

    Parameters
    ----------
    scores
        The score of each arm; infinite for arms to be chosen first.
    allowed
        Indices of the eligible arms, or None for all. Other arms have the probability 0.
    exploration
        The share of decisions for exploration, at most ``MAX_EXPLORATION``.
    exploration_mode
        How this share is divided.

    Examples
    --------
    >>> probabilities(np.array([0.9, 0.5, 0.7]), None, 0.1, "uniform")
    array([0.9 , 0.05, 0.05])
    >>> probabilities(np.array([0.9, 0.5, 0.7]), None, 0.12, "gap")
    array([0.88, 0.05, 0.07])
    >>> probabilities(np.array([np.inf, 0.5, np.inf]), None, 0.0, "gap")
    array([0.5, 0. , 0.5])
    """
    by_gap = exploration_mode == "gap"
    if allowed is None:
        result: Float64 = np.empty(scores.size)
        choose_arm(scores, exploration, by_gap, 0.0, result)
        return result
    eligible: Float64 = np.empty(len(allowed))
    choose_arm(scores[allowed], exploration, by_gap, 0.0, eligible)
    result = np.zeros(scores.size)
    result[allowed] = eligible
    return result


@kernel
def _sum(values: Float64) -> float:
    """Return the sum. A sum needs its own loop: see ``glcb._numba.compile``."""
    total = 0.0
    for i in range(values.size):
        total += values[i]
    return total


@kernel
def _write_probabilities(scores: Float64, exploration: float, by_gap: bool, result: Float64) -> None:
    """Write the probability of each arm.

    One of the best arms is selected. With probability ``exploration``, one of the other n − 1 arms replaces
    it. With ``by_gap``, the weights of the other arms are 1 for a tie or the smallest gap, 1 / 2 for twice
    that gap, and so on.
    """
    arms = scores.size
    best = -np.inf
    for arm in range(arms):
        best = max(best, scores[arm])
    ties = 0
    next_best = -np.inf
    for arm in range(arms):
        if scores[arm] == best:
            ties += 1
        elif scores[arm] > next_best:
            next_best = scores[arm]
    if ties == arms:
        for arm in range(arms):
            result[arm] = 1 / arms
        return
    smallest_gap = best - next_best
    for arm in range(arms):
        # Relative to an infinite score, all gaps are infinite and therefore equal.
        weighted = by_gap and scores[arm] != best and smallest_gap < np.inf
        result[arm] = smallest_gap / (best - scores[arm]) if weighted else 1.0
    total = -1.0 + _sum(result)
    for arm in range(arms):
        result[arm] = exploration * (_EVEN_PART / (arms - 1) + (1 - _EVEN_PART) * result[arm] / total)
        if scores[arm] == best:
            result[arm] = 0.0
    remaining = 1.0 - _sum(result)
    for arm in range(arms):
        if scores[arm] == best:
            result[arm] = remaining / ties


@kernel
def arm_at(probabilities: Float64, point: float) -> int:
    """Return the arm whose interval of the cumulative distribution contains ``point``, a random number."""
    result = 0
    cumulative = 0.0
    for arm in range(probabilities.size):
        if probabilities[arm] > 0:
            result = arm
            cumulative += probabilities[arm]
            if point < cumulative:
                break
    return result


@kernel
def choose_arm(scores: Float64, exploration: float, by_gap: bool, point: float, result: Float64) -> int:
    """Write the probability of each arm; return the arm whose interval contains ``point``."""
    _write_probabilities(scores, exploration, by_gap, result)
    return arm_at(result, point)
