"""The probability with which each arm is played: the policy's rule, and a share kept for exploration."""

from typing import Literal

import numpy as np

from glcb._numba.compile import kernel
from glcb._types import Float64

ExplorationMode = Literal["gap", "uniform"]
"""How the share for exploration is divided: by how far an arm's score lies below the best, or evenly."""

LARGEST_SHARE = 0.5
"""Beyond this share for exploration, an arm could be played more often than a better one."""
_EVENLY = 0.5
"""Of the share that is divided by gap, this part is divided evenly, so that no arm is ever left out."""


def probabilities(
    scores: Float64, allowed: list[int] | None, exploration: float, exploration_mode: ExplorationMode
) -> Float64:
    """Return the probability of each arm, 0 for those that are not ``allowed``.

    The rule is to play the arm with the best score, or one of those that tie for it. With probability
    ``exploration`` another arm than that is played instead: each equally likely, or more likely the smaller
    its gap to the best score is. Of n arms none is less likely than exploration / (n − 1), and with gaps
    than half of that; no arm is less likely than one with a lower score.

    >>> probabilities(np.array([0.9, 0.5, 0.7]), None, 0.1, "uniform")
    array([0.9 , 0.05, 0.05])
    >>> probabilities(np.array([0.9, 0.5, 0.7]), None, 0.12, "gap")
    array([0.88, 0.05, 0.07])
    >>> probabilities(np.array([np.inf, 0.5, np.inf]), None, 0.0, "gap")
    array([0.5, 0. , 0.5])
    """
    result: Float64 = np.zeros(scores.size)
    if allowed is None:
        _divide(scores, exploration, exploration_mode == "gap", result)
    else:
        share = np.zeros(len(allowed))
        _divide(scores[allowed], exploration, exploration_mode == "gap", share)
        result[allowed] = share
    return result


def draw(chances: Float64, rng: np.random.Generator) -> int:
    """Return an arm, drawn with these probabilities."""
    return _reach(chances, rng.random())


@kernel
def _sum(values: Float64) -> float:
    """Return the sum, by a loop of its own that writes nothing: see ``glcb._numba.compile``."""
    total = 0.0
    for i in range(values.size):
        total += values[i]
    return total


@kernel
def _divide(scores: Float64, exploration: float, by_gap: bool, result: Float64) -> None:
    """Write the probability of each arm.

    One of the k best arms is picked; with probability ``exploration`` one of the other n − 1 takes its place,
    with a weight of 1 for those that tie with it or come next, and of 1 / 2 for twice the gap of the next.
    """
    arms = scores.size
    best = scores.max()
    ties = 0
    next_best = -np.inf
    for arm in range(arms):
        if scores[arm] == best:
            ties += 1
        elif scores[arm] > next_best:
            next_best = scores[arm]
    if ties == arms:
        result[:] = 1 / arms
        return
    smallest = best - next_best
    for arm in range(arms):
        # Against an arm that was never tried all gaps are infinite, and alike.
        near = by_gap and scores[arm] != best and smallest < np.inf
        result[arm] = smallest / (best - scores[arm]) if near else 1.0
    total = -1.0 + _sum(result)
    for arm in range(arms):
        result[arm] = exploration * (_EVENLY / (arms - 1) + (1 - _EVENLY) * result[arm] / total)
        if scores[arm] == best:
            result[arm] = 0.0
    left = 1.0 - _sum(result)
    for arm in range(arms):
        if scores[arm] == best:
            result[arm] = left / ties


@kernel
def _reach(chances: Float64, point: float) -> int:
    """Return the arm in whose part of [0, 1] the point lies, if the arms lie there side by side."""
    chosen = 0
    reached = 0.0
    for arm in range(chances.size):
        if chances[arm] > 0:
            chosen = arm
            reached += chances[arm]
            if point < reached:
                break
    return chosen
