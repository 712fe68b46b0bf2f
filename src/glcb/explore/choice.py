"""The one place that turns scores into the probabilities of arms, and draws from them.

Decisions, rankings, evaluation, steering, explanations and previews call :func:`distribution`. For
unrestricted decisions, the kernel of ``glcb`` does both steps with the same compiled functions.
"""

from typing import NamedTuple

import numpy as np

from glcb._arrays import Float64
from glcb._types import ExplorationMode
from glcb.explore.focus import candidate_probabilities
from glcb.explore.probabilities import arm_at, probabilities
from glcb.explore.shares import ShareBounds, bounded


class ChoiceRule(NamedTuple):
    """How arms are drawn from their scores."""

    exploration: float
    """The probability of arms other than the best-scoring arm."""
    mode: ExplorationMode
    uniform: bool = False
    """Whether every eligible arm has the same probability, as for a control group."""
    focused: bool = False
    """Whether exploration concentrates on a few arms if there are many candidates."""
    bounds: ShareBounds | None = None
    """Probability bounds."""


def distribution(
    scores: Float64, bonuses: Float64, rule: ChoiceRule, allowed: list[int] | None = None
) -> Float64:
    """Return the probability of each arm.

    Parameters
    ----------
    scores
        Value plus bonus of each arm, with offsets if there are any.
    bonuses
        The bonus of each arm, which tells a focused rule which arms are least known.
    rule
        How arms are drawn.
    allowed
        Indices of the eligible arms, or None for all. Other arms have the probability 0.

    Examples
    --------
    >>> scores, bonuses = np.array([0.9, 0.5, 0.7]), np.zeros(3)
    >>> distribution(scores, bonuses, ChoiceRule(0.1, "uniform"))
    array([0.9 , 0.05, 0.05])
    >>> distribution(scores, bonuses, ChoiceRule(0.1, "uniform", uniform=True), [0, 2])
    array([0.5, 0. , 0.5])
    """
    if rule.uniform:
        scores = np.zeros(scores.size)
    if not rule.focused:
        result = probabilities(scores, allowed, rule.exploration, rule.mode)
    elif allowed is None:
        result = candidate_probabilities(scores, bonuses, rule.exploration, rule.mode)
    else:
        result = np.zeros(scores.size)
        result[allowed] = candidate_probabilities(
            scores[allowed], bonuses[allowed], rule.exploration, rule.mode
        )
    return result if rule.bounds is None else bounded(result, rule.bounds, allowed)


def certain(arm: int, arms: int) -> Float64:
    """Return the distribution that always chooses one of several arms.

    >>> certain(1, 3)
    array([0., 1., 0.])
    """
    result: Float64 = np.zeros(arms)
    result[arm] = 1.0
    return result


def draw(shares: Float64, point: float) -> int:
    """Return the arm whose interval of the cumulative distribution contains `point`, a random number.

    >>> draw(np.array([0.25, 0.5, 0.25]), 0.3)
    1
    """
    return arm_at(shares, point)
