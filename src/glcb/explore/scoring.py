"""Scores: the bonus for rarely chosen arms, and the choice of the arm with the highest value plus bonus."""

import math

import numpy as np

from glcb._arrays import Float64
from glcb._numba.compile import kernel

SKEW = 0.01
"""The bonus of an arm that hardly ever pays 1 is this, times the logarithm of the step, per decision."""


def bonus(pseudocounts: Float64, step: int, scale: float) -> Float64:
    """Return C·√(ln t / N̂) for each arm, where C is ``scale``; infinite for a pseudocount of 0.

    >>> bonus(np.array([0.0, 1.0, 4.0]), step=10, scale=0.5).round(3)
    array([  inf, 0.759, 0.379])
    """
    bonuses = np.empty(pseudocounts.size)
    write_bonuses(pseudocounts, step, np.full(pseudocounts.size, scale), bonuses)
    return bonuses


@kernel
def write_bonuses(pseudocounts: Float64, step: int, scales: Float64, bonuses: Float64) -> None:
    """Write the bonus of each arm, each with its own scale."""
    log_step = math.log(step)
    for arm in range(bonuses.size):
        untried = pseudocounts[arm] == 0
        bonuses[arm] = np.inf if untried else scales[arm] * math.sqrt(log_step / pseudocounts[arm])


@kernel
def add_skew(means: Float64, step: int, pseudocounts: Float64, bonuses: Float64) -> None:
    """Add the skewness term of Bernstein's inequality for the mean of rewards of 0 and 1.

    A few rewards of 0 say little about a rare 1: its mean is less certain than its deviation suggests.
    """
    log_step = math.log(step)
    for arm in range(bonuses.size):
        if pseudocounts[arm] > 0:
            bonuses[arm] += SKEW * max(0.0, 1 - 2 * means[arm]) * log_step / pseudocounts[arm]


@kernel
def _best(values: Float64, bonuses: Float64) -> tuple[int, int]:
    """Return the first arm with the highest score, and the number of tied arms."""
    best, ties = 0, 0
    highest = -np.inf
    for arm in range(values.size):
        score = values[arm] + bonuses[arm]
        if ties == 0 or score > highest:
            best, ties, highest = arm, 1, score
        elif score == highest:
            ties += 1
    return best, ties


def best_arm(values: Float64, bonuses: Float64, allowed: list[int] | None, rng: np.random.Generator) -> int:
    """Return the allowed arm with the highest score, value plus bonus. None allows all arms."""
    if allowed is not None:
        return allowed[best_arm(values[allowed], bonuses[allowed], None, rng)]
    best, ties = _best(values, bonuses)
    if ties > 1:
        scores = values + bonuses
        best = int(np.flatnonzero(scores == scores[best])[rng.integers(ties)])
    return best
