"""Confidence sequences: intervals of a running mean that are valid at all times.

A sequence covers the running mean of conditional means at all times simultaneously, with the stated
confidence. So it may be watched while data arrive, and the means may change from row to row. It is an
confidence sequences*, Annals of Statistics 2021, theorem 4) with a discrete mixture as its boundary.

``BettingSequence`` is narrower, but it assumes that the mean is constant.
"""

import math

import numpy as np

from glcb._arrays import Arrays, Float64, copy_into

CONFIDENCE = 0.95

_RATES = 2.0 ** (-np.arange(37) / 2)
"""The rates λ of the mixture, from 1 to 4e-6. A rate is best for one sum of squares, of about 10 / λ²."""
_PRIOR = 1 / (1 + (np.log2(_RATES / 0.03) / 2) ** 2)
_LOG_PRIOR = np.log(_PRIOR / _PRIOR.sum())
"""Heavy-tailed around the rates that matter for some thousand decisions."""
_NEWTON_STEPS = 30


def boundary(squares: float, scale: float, error: float) -> float:
    """Return a bound on a sum of deviations, exceeded at any time with at most this probability.

    Parameters
    ----------
    squares
        Sum of the squared deviations, each from a value fixed beforehand.
    scale
        Bound on the deviations in the direction opposite to the error. It may grow with the sum, but must be
        known before each deviation.
    error
        The probability.
    """
    return float(boundaries(np.array([squares]), np.array([scale]), error)[0])


def boundaries(squares: Float64, scales: Float64, error: float) -> Float64:
    """Return the boundary of each of several sums."""
    scale = scales[:, None]
    scaled = _RATES * scale
    usable = scaled < 1
    scaled = np.where(usable, scaled, 0.0)
    # (−log(1 − λc) − λc) / c², which tends to λ² / 2 as c tends to 0
    cost = np.where(scale > 1e-6, (-np.log1p(-scaled) - scaled) / np.maximum(scale, 1e-6) ** 2, _RATES**2 / 2)
    level = -math.log(error)
    offset = np.where(usable, _LOG_PRIOR - cost * squares[:, None], -np.inf)
    # Each rate alone gives a bound. Newton's method descends from the best of them to the mixture's bound.
    bounds: Float64 = ((level - offset) / _RATES).min(axis=1)
    for _ in range(_NEWTON_STEPS):
        exponents = offset + _RATES * bounds[:, None]
        largest = exponents.max(axis=1)
        mixture = np.exp(exponents - largest[:, None])
        totals = mixture.sum(axis=1)
        excess = largest + np.log(totals) - level
        bounds -= excess * totals / (mixture @ _RATES)
        if excess.max(initial=0.0) < 1e-9:
            break
    return bounds


class LowerSequence:
    """Lower bounds of the means of several series of numbers that are bounded below.

    The numbers need no upper bound: only deviations below the center enter the bound, and for nonnegative
    numbers they are at most as large as the center. So importance-weighted rewards need no weight bound.

    Parameters
    ----------
    Number of series.
    largest : float, default 1.0
        Upper bound on all means.
    """

    def __init__(self, series: int, largest: float = 1.0) -> None:
        self._largest = largest
        self._count = np.zeros(1)
        self._totals = np.zeros(series)
        self._squares = np.zeros(series)
        self._scales = np.full(series, largest / 2)

    def add(self, values: Float64, depths: Float64 | float = 0.0) -> None:
        """Add rows, one column per series, in their order.

        No number is below −depth, and the depth of a row must be known before its number.
        """
        if not len(values):
            return
        before = self._totals + np.vstack([np.zeros_like(values[:1]), np.cumsum(values, axis=0)[:-1]])
        counts = self._count + np.arange(1, len(values) + 1)[:, None]
        # The center of a row depends on earlier rows only.
        centers = np.clip((self._largest / 2 + before) / counts, 0.0, self._largest)
        self._count += len(values)
        self._totals += values.sum(axis=0)
        self._squares += ((values - centers) ** 2).sum(axis=0)
        self._scales = np.maximum(self._scales, (centers + depths).max(axis=0))

    def bounds(self, error: float) -> Float64:
        """Return the lower bound of each mean, wrong at any time with at most this probability."""
        count = float(self._count[0])
        if not count:
            return np.zeros_like(self._totals)
        radii = boundaries(self._squares, self._scales, error)
        return np.maximum((self._totals - radii) / count, 0.0)

    def snapshot(self) -> Arrays:
        """Return the state."""
        return {
            "count": self._count,
            "totals": self._totals,
            "squares": self._squares,
            "scales": self._scales,
        }

    def restore(self, arrays: Arrays) -> None:
        """Restore a snapshot."""
        copy_into(self.snapshot(), arrays)


_MEANS = 1 / (1 + np.exp(-np.linspace(-9, 9, 361)))
_BETS = 2.0 ** -np.arange(1, 11)


class BettingSequence:
    """Lower bounds of the *constant* means of several series of nonnegative numbers.

    A gambler bets against each candidate for the mean, with a mixture of fixed fractions of the wealth; a
    candidate is rejected once the wealth has reached 1 / error (Karampatziakis, Mineiro and Ramdas,
    *Off-policy confidence sequences*, 2021). If the means change, the bound can be wrong.

    Parameters
    ----------
    series : int
        Number of series.
    """

    def __init__(self, series: int) -> None:
        self._wealth = np.zeros((series, _MEANS.size, _BETS.size))

    def add(self, values: Float64) -> None:
        """Add rows, one column per series."""
        for series, column in enumerate(values.T):
            gains = column[:, None] / _MEANS - 1
            self._wealth[series] += np.log1p(gains[:, :, None] * _BETS).sum(axis=0)

    def bounds(self, error: float) -> Float64:
        """Return the lower bound of each mean, wrong at any time with at most this probability."""
        largest = self._wealth.max(axis=2, keepdims=True)
        mixed = largest[:, :, 0] + np.log(np.exp(self._wealth - largest).mean(axis=2))
        # Wealth decreases in the candidate, so rejected candidates come first.
        rejected = (mixed >= -math.log(error)).sum(axis=1)
        return np.where(rejected > 0, _MEANS[np.maximum(rejected - 1, 0)], 0.0)

    def snapshot(self) -> Arrays:
        """Return the state."""
        return {"wealth": self._wealth}

    def restore(self, arrays: Arrays) -> None:
        """Restore a snapshot."""
        copy_into(self.snapshot(), arrays)
