"""The few statistics that every table uses."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from glcb._types import Float64


def mean_and_error(totals: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean and its standard error; one number alone has none.

    >>> mean_and_error([1.0, 2.0, 3.0])
    (2.0, 0.5773502691896258)
    """
    error = float(np.std(totals, ddof=1) / math.sqrt(len(totals))) if len(totals) > 1 else None
    return float(np.mean(totals)), error


def mean_and_error_along(curves: Sequence[Float64] | Float64) -> tuple[Float64, Float64]:
    """Return the mean of the curves at every point, and its standard error: 0 for one curve alone.

    >>> mean_and_error_along(np.array([[1.0, 2.0], [3.0, 2.0]]))
    (array([2., 2.]), array([1., 0.]))
    """
    given = np.asarray(curves, np.float64)
    mean: Float64 = given.mean(axis=0)
    if len(given) == 1:
        return mean, np.zeros_like(mean)
    return mean, given.std(axis=0, ddof=1) / math.sqrt(len(given))


def differences(own: Sequence[float], others: Sequence[float]) -> list[float]:
    """Return how much larger each number is than the other of the same seed.

    >>> differences([3.0, 4.0], [1.0, 5.0])
    [2.0, -1.0]
    """
    return [one - other for one, other in zip(own, others, strict=True)]


LEVEL = 0.95
RESAMPLES = 10_000
_BOOTSTRAP_SEED = 0


class Interval(NamedTuple):
    """A bootstrap interval."""

    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        """Whether the whole interval lies on one side of 0."""
        return self.low > 0 or self.high < 0


def paired_bootstrap(differences: Sequence[float]) -> Interval | None:
    """Return the percentile interval of the mean of paired differences; one pair alone has none.

    Pairs are drawn with replacement. The level, the number of resamples and the seed are fixed: the same
    differences give the same interval.

    >>> paired_bootstrap([2.0, 2.0, 2.0])
    Interval(low=2.0, high=2.0)
    """
    given = np.asarray(differences, np.float64)
    if given.size < 2:
        return None
    rng = np.random.default_rng(_BOOTSTRAP_SEED)
    means = given[rng.integers(given.size, size=(RESAMPLES, given.size))].mean(axis=1)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(low), float(high))
