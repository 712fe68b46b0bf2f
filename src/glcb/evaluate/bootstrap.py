"""Bootstrap intervals in one pass, by Poisson resampling.

Every row counts a Poisson(1) number of times in each resample, the same for all policies, so differences
between policies are resampled in pairs.
"""

import numpy as np

from glcb._arrays import Arrays, Float64, copy_into
from glcb.evaluate.estimators import EstimateSums

RESAMPLES = 200


class Bootstrap:
    """Resampled sums of one or several estimators.

    Parameters
    ----------
    sums : list of EstimateSums
        The estimators.
    """

    def __init__(self, sums: list[EstimateSums]) -> None:
        self._sums = sums
        self._counts = np.zeros(RESAMPLES)
        self._totals = [np.zeros((RESAMPLES, each.snapshot()["totals"].size)) for each in sums]

    def add(self, terms: list[Float64], rng: np.random.Generator) -> None:
        """Add the terms of rows, one array per estimator."""
        multiplicities = rng.poisson(1.0, (RESAMPLES, len(terms[0]))).astype(np.float64)
        self._counts += multiplicities.sum(axis=1)
        for totals, own in zip(self._totals, terms, strict=True):
            totals += multiplicities @ own

    def interval(
        self, estimator: int, policy: int, reference: int | None, level: float
    ) -> tuple[float, float]:
        """Return the percentile interval of an estimate, or of a difference from the reference."""
        sums = self._sums[estimator]
        values = sums.combine(self._totals[estimator], np.maximum(self._counts, 1)[:, None])
        own = values[:, policy] - (0.0 if reference is None else values[:, reference])
        low, high = np.quantile(own, [(1 - level) / 2, (1 + level) / 2])
        return float(low), float(high)

    def snapshot(self) -> Arrays:
        """Return the state."""
        return {"counts": self._counts, **{f"totals.{i}": own for i, own in enumerate(self._totals)}}

    def restore(self, arrays: Arrays) -> None:
        """Restore a snapshot."""
        copy_into(self.snapshot(), arrays)
