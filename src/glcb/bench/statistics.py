"""Means, standard errors and paired bootstrap intervals."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from glcb._arrays import Float64


def mean_and_error(totals: Sequence[float]) -> tuple[float, float | None]:
    """Return the mean and its standard error, which is None for a single number.

    >>> mean_and_error([1.0, 2.0, 3.0])
    (2.0, 0.5773502691896258)
    """
    error = float(np.std(totals, ddof=1) / math.sqrt(len(totals))) if len(totals) > 1 else None
    return float(np.mean(totals)), error


def format_mean(numbers: Sequence[float], form: str = ".3f") -> str:
    """Format mean ± standard error; a single number has no error.

    >>> format_mean([1.0, 2.0, 3.0], "+.2f")
    '+2.00 ± 0.58'
    """
    mean, error = mean_and_error(numbers)
    return f"{mean:{form}}" + (f" ± {error:{form.removeprefix('+')}}" if error is not None else "")


def mean_and_error_along(curves: Sequence[Float64] | Float64) -> tuple[Float64, Float64]:
    """Return the pointwise mean of curves and its standard error, which is 0 for a single curve.

    >>> mean_and_error_along(np.array([[1.0, 2.0], [3.0, 2.0]]))
    (array([2., 2.]), array([1., 0.]))
    """
    values = np.asarray(curves, np.float64)
    mean: Float64 = values.mean(axis=0)
    if len(values) == 1:
        return mean, np.zeros_like(mean)
    return mean, values.std(axis=0, ddof=1) / math.sqrt(len(values))


def paired_differences(values: Sequence[float], baseline: Sequence[float]) -> list[float]:
    """Return the difference of each value from the baseline value of the same seed.

    >>> paired_differences([3.0, 4.0], [1.0, 5.0])
    [2.0, -1.0]
    """
    return [value - other for value, other in zip(values, baseline, strict=True)]


LEVEL = 0.95
RESAMPLES = 10_000
_BOOTSTRAP_SEED = 0


class BootstrapInterval(NamedTuple):
    """A bootstrap confidence interval."""

    low: float
    high: float


def paired_bootstrap(differences: Sequence[float]) -> BootstrapInterval | None:
    """Return the percentile interval of the mean of paired differences, or None for a single pair.

    Pairs are drawn with replacement. The level, the number of resamples and the seed are fixed, so the same
    differences always give the same interval.

    >>> paired_bootstrap([2.0, 2.0, 2.0])
    BootstrapInterval(low=2.0, high=2.0)
    """
    values = np.asarray(differences, np.float64)
    if values.size < 2:
        return None
    rng = np.random.default_rng(_BOOTSTRAP_SEED)
    means = values[rng.integers(values.size, size=(RESAMPLES, values.size))].mean(axis=1)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return BootstrapInterval(float(low), float(high))
