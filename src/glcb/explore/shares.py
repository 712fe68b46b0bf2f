"""Minimum and maximum shares: bounds on the probability of an arm in every decision.

A distribution that violates its bounds is replaced by the closest one within them by Kullback–Leibler
divergence: all probabilities are multiplied by one factor and clipped to their bounds. So an arm that could
be explored can still be explored, and the order of arms with equal bounds does not change. The Euclidean
projection would set small probabilities to zero.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from glcb._arrays import Float64
from glcb._numba.compile import strict_kernel
from glcb._types import Arm

_FREE, _FIXED, _ABOVE, _BELOW = range(4)


class ShareBounds(NamedTuple):
    """The lowest and the highest probability of each arm."""

    low: Float64
    high: Float64


def share_bounds(shares: Mapping[Arm, tuple[float, float]] | None, index: Mapping[Arm, int]) -> ShareBounds:
    """Return the bounds of arms at the positions of ``index``; an arm without a share is unbounded.

    >>> share_bounds({"a": (0.1, 0.5)}, {"a": 0, "b": 1})
    ShareBounds(low=array([0.1, 0. ]), high=array([0.5, 1. ]))
    """
    low: Float64 = np.zeros(len(index))
    high: Float64 = np.ones(len(index))
    for arm, bounds in (shares or {}).items():
        if arm in index:
            low[index[arm]], high[index[arm]] = bounds
    return ShareBounds(low, high)


def bounded(probabilities: Float64, bounds: ShareBounds, allowed: Sequence[int] | None = None) -> Float64:
    """Return the closest distribution within the bounds, or ``probabilities`` if they are within them.

    If the maxima of the eligible arms add up to less than 1, they are raised in proportion.

    Parameters
    ----------
    probabilities
        The probability of each arm; 0 for arms that are not eligible.
    bounds
        The bounds of each arm. The minima add up to at most 1.
    allowed
        Indices of the eligible arms, or None for all.

    Examples
    --------
    >>> bounds = share_bounds({0: (0.0, 0.5), 2: (0.1, 1.0)}, {0: 0, 1: 1, 2: 2})
    >>> bounded(np.array([0.9, 0.06, 0.04]), bounds)
    array([0.5, 0.3, 0.2])
    >>> bounded(np.array([0.9, 0.1, 0.0]), bounds, [0, 1])
    array([0.5, 0.5, 0. ])
    """
    low, high = bounds
    inside = probabilities if allowed is None else probabilities[allowed]
    if allowed is not None:
        low, high = low[allowed], high[allowed]
    projected: Float64 = np.empty(inside.size)
    if not _project(inside, low, high, projected):
        return probabilities
    if allowed is None:
        return projected
    result: Float64 = np.zeros(probabilities.size)
    result[allowed] = projected
    return result


@strict_kernel
def _total(values: Float64) -> float:
    """Return the sum. A sum needs its own loop: see ``glcb._numba.compile``."""
    total = 0.0
    for i in range(values.size):
        total += values[i]
    return total


@strict_kernel
def _masked_total(values: Float64, states: Float64, state: int) -> float:
    """Return the sum of the values with this state."""
    total = 0.0
    for i in range(values.size):
        if states[i] == state:
            total += values[i]
    return total


@strict_kernel
def _fill(weights: Float64, low: Float64, high: Float64, states: Float64, result: Float64) -> None:
    """Write ``factor * weight`` within the bounds to all free arms, so that all arms add up to 1.

    In every round, the arms that violate their bounds in the prevailing direction are fixed at them: no
    other factor could free them. So there are at most as many rounds as arms.
    """
    arms = weights.size
    while True:
        free = _masked_total(weights, states, _FREE)
        remaining = 1.0 - _masked_total(result, states, _FIXED)
        factor = remaining / free if free > 0 else 0.0
        found = False
        excess = 0.0
        for arm in range(arms):
            if states[arm] == _FREE:
                share = factor * weights[arm]
                if share > high[arm]:
                    excess -= share - high[arm]
                elif share < low[arm]:
                    excess += low[arm] - share
        for arm in range(arms):
            if states[arm] == _FREE:
                share = factor * weights[arm]
                result[arm] = share
                if share > high[arm] and excess <= 0:
                    result[arm] = high[arm]
                    states[arm] = _ABOVE
                    found = True
                elif share < low[arm] and excess >= 0:
                    result[arm] = low[arm]
                    states[arm] = _BELOW
                    found = True
        if not found:
            return
        for arm in range(arms):
            if states[arm] == _ABOVE or states[arm] == _BELOW:
                states[arm] = _FIXED


@strict_kernel
def _project(probabilities: Float64, low: Float64, high: Float64, result: Float64) -> bool:
    """Write the projection; return False if the probabilities are within the bounds already."""
    arms = probabilities.size
    inside = True
    for arm in range(arms):
        if probabilities[arm] < low[arm] or probabilities[arm] > high[arm]:
            inside = False
    if inside:
        return False
    most = _total(high)
    if most <= 1:
        for arm in range(arms):
            result[arm] = high[arm] / most
        return True
    states = np.zeros(arms)
    reachable = 0.0
    for arm in range(arms):
        reachable += high[arm] if probabilities[arm] > 0 else low[arm]
    if reachable >= 1:
        # Arms with the probability 0 keep it, or have their minimum.
        for arm in range(arms):
            if probabilities[arm] <= 0:
                result[arm] = low[arm]
                states[arm] = _FIXED
        _fill(probabilities, low, high, states, result)
        return True
    # All others are at their maxima: the rest is divided evenly among arms with the probability 0.
    weights = np.ones(arms)
    for arm in range(arms):
        if probabilities[arm] > 0:
            result[arm] = high[arm]
            states[arm] = _FIXED
    _fill(weights, low, high, states, result)
    return True
