"""Off-policy estimators of the value of a policy.

Every estimator but one is a mean of terms, one per row. The expectation of a term is the value of the policy
in the row's context, or close to it. All estimators take the same arguments:

reward
    The observed rewards.
weight
    π(a | x) / p(a | x): the probability of the logged arm under the policy, divided by its propensity.
predicted
    The reward that a model predicts for the logged arm.
expected
    The reward that the model predicts for the policy: Σ π(a | x) × the prediction for a, over all arms.

The model must be fitted without the row itself, and, if the logging policy was learning, without later rows
(Hadad et al., *Confidence intervals for policy evaluation in adaptive experiments*, PNAS 2021; Bibaut et al.,
*Post-contextual-bandit inference*, 2021).
"""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from glcb._arrays import Arrays, Float64, copy_into

RESAMPLES = 200
MAX_WEIGHT = 10.0
"""Where ``clipped-ips``, ``switch-dr`` and ``shrunk-dr`` trade variance for bias."""


def ips(reward: Float64, weight: Float64) -> Float64:
    """Inverse propensity scoring: unbiased; large weights make it noisy.

    >>> ips(np.array([1.0, 0.0, 1.0]), np.array([2.0, 2.0, 0.0]))
    array([2., 0., 0.])
    """
    return weight * reward


def clipped_ips(reward: Float64, weight: Float64, max_weight: float = MAX_WEIGHT) -> Float64:
    """IPS with weights of at most ``max_weight``: biased low where the policy differs from the log.

    >>> clipped_ips(np.array([1.0, 1.0]), np.array([2.0, 50.0]))
    array([ 2., 10.])
    """
    return np.minimum(weight, max_weight) * reward


def direct(expected: Float64) -> Float64:
    """Return the direct method: unweighted model predictions. As biased as the model."""
    return expected


def doubly_robust(reward: Float64, weight: Float64, predicted: Float64, expected: Float64) -> Float64:
    """Return the direct method, corrected by the weighted model errors: unbiased, and usually precise.

    >>> doubly_robust(np.array([1.0]), np.array([2.0]), np.array([0.75]), np.array([0.5]))
    array([1.])
    """
    return expected + weight * (reward - predicted)


def switch_dr(
    reward: Float64, weight: Float64, predicted: Float64, expected: Float64, max_weight: float = MAX_WEIGHT
) -> Float64:
    """Doubly robust for weights up to ``max_weight``, the direct method beyond (Wang et al. 2017)."""
    return doubly_robust(reward, np.where(weight <= max_weight, weight, 0.0), predicted, expected)


def shrunk_dr(
    reward: Float64, weight: Float64, predicted: Float64, expected: Float64, max_weight: float = MAX_WEIGHT
) -> Float64:
    """Doubly robust with weights λw / (w² + λ), λ = ``max_weight``² (Su et al. 2020)."""
    shrinkage = max_weight**2
    return doubly_robust(reward, shrinkage * weight / (weight**2 + shrinkage), predicted, expected)


class SlotRows(NamedTuple):
    """The slots of rankings, for several policies. Missing slots get the weight 1.

    The propensity of a slot is conditional on the slots above it, as :meth:`glcb.Bandit.rank` logs it.
    """

    rewards: Float64
    """One row per ranking, one column per slot."""
    logged: Float64
    """The propensities, with the same shape."""
    target: Float64
    """The probabilities of the logged arms; the last axis is the policy."""
    logged_marginal: Float64 | None = None
    """The marginal propensities, for independent IPS only."""
    target_marginal: Float64 | None = None

    def reward_interaction(self, rewards: Float64 | None = None) -> Float64:
        """Return the terms of reward-interaction IPS, one column per policy.

        The reward of a slot may depend on the slots above it, not on the slots below, so it is weighted by
        the slots down to its own only (McInerney et al., *Counterfactual evaluation of slate recommendations
        with sequential reward interactions*, KDD 2020). The weights are much smaller than for standard IPS.

        >>> logged, target = np.array([[0.5, 0.5]]), np.array([[[1.0], [0.75]]])
        >>> SlotRows(np.array([[1.0, 1.0]]), logged, target).reward_interaction()
        array([[5.]])
        """
        own = self.rewards if rewards is None else rewards
        ratios = (target / self.logged for target in np.moveaxis(self.target, -1, 0))
        return np.column_stack([(own * np.cumprod(ratio, axis=1)).sum(axis=1) for ratio in ratios])

    def independent(self) -> Float64:
        """Return the terms of independent IPS, one column per policy: marginal propensities weight each slot.

        It assumes that the reward of a slot depends only on its own arm. Marginal propensities do not follow
        from conditional ones: for small rankings sum over all rankings, else estimate them by simulation.
        """
        assert self.logged_marginal is not None  # computed if the estimator is used
        assert self.target_marginal is not None
        ratios = (target / self.logged_marginal for target in np.moveaxis(self.target_marginal, -1, 0))
        return np.column_stack([(self.rewards * ratio).sum(axis=1) for ratio in ratios])


class Rows(NamedTuple):
    """Some rows of a log for several policies; all arrays but ``reward`` have one column per policy."""

    reward: Float64
    """One column."""
    weight: Float64
    predicted: Float64
    expected: Float64
    slots: SlotRows | None = None
    """The slots of rankings. The other arrays then have one row per ranking, and no model."""


WEIGHTED: Mapping[str, Callable[[Rows], Float64]] = {
    "ips": lambda rows: ips(rows.reward, rows.weight),
    "clipped-ips": lambda rows: clipped_ips(rows.reward, rows.weight),
}
"""Estimators without a reward model."""

MODELED: Mapping[str, Callable[[Rows], Float64]] = {
    "dm": lambda rows: direct(rows.expected),
    "dr": lambda rows: doubly_robust(*rows[:4]),
    "switch-dr": lambda rows: switch_dr(*rows[:4]),
    "shrunk-dr": lambda rows: shrunk_dr(*rows[:4]),
}
"""Estimators with a reward model."""

RANKED: Mapping[str, Callable[[SlotRows], Float64]] = {
    "rips": SlotRows.reward_interaction,
    "iips": SlotRows.independent,
}
"""Estimators for rankings, besides ``ips`` and ``snips`` with the weights of whole rankings."""

NAMES = ("ips", "snips", "clipped-ips", *MODELED)
"""All estimators of single decisions. ``snips`` is the ratio of two means: weighted rewards and weights."""
RANKING_NAMES = ("rips", "snips", "ips", "iips")
"""All estimators of rankings."""

_TERMS = {**WEIGHTED, **MODELED}


class ValueEstimate(NamedTuple):
    """An estimate and its standard error."""

    value: float
    error: float


class EstimateSums:
    """Sums over the rows of a log, for several policies and one estimator.

    The sums give the estimates of all policies and their differences. Rows are paired, so a difference is
    usually more precise than the estimates.

    Parameters
    ----------
    estimator : str
        Its name.
    policies : int
        Number of policies.
    """

    def __init__(self, estimator: str, policies: int) -> None:
        self.estimator = estimator
        self._count = np.zeros(1)
        self._is_ratio = estimator == "snips"
        size = 2 * policies if self._is_ratio else policies
        self._totals = np.zeros(size)
        self._products = np.zeros((size, size))

    def terms(self, rows: Rows) -> Float64:
        """Return the terms of rows, one column per policy; for ``snips``, the weights follow."""
        if self._is_ratio:
            return np.hstack([ips(rows.reward, rows.weight), rows.weight])
        if self.estimator in RANKED:
            assert rows.slots is not None  # the rows are rankings
            return RANKED[self.estimator](rows.slots)
        return _TERMS[self.estimator](rows)

    def add(self, terms: Float64) -> None:
        """Add the terms of rows."""
        self._count += len(terms)
        self._totals += terms.sum(axis=0)
        self._products += terms.T @ terms

    def combine(self, totals: Float64, count: Float64) -> Float64:
        """Return the estimates from sums of terms (in the last axis) over ``count`` rows."""
        if not self._is_ratio:
            return totals / count
        rewards, weights = np.split(totals, 2, axis=-1)
        return np.divide(rewards, weights, out=np.zeros_like(rewards), where=weights > 0)

    def estimates(self) -> Float64:
        """Return the estimate of each policy."""
        return self.combine(self._totals, np.maximum(self._count, 1))

    def estimate(self, policy: int) -> ValueEstimate:
        """Return the estimate of a policy."""
        return ValueEstimate(float(self.estimates()[policy]), self._error(self._gradient(policy)))

    def difference(self, policy: int, reference: int) -> ValueEstimate:
        """Return the estimated difference between two policies."""
        values = self.estimates()
        gradient = self._gradient(policy) - self._gradient(reference)
        return ValueEstimate(float(values[policy] - values[reference]), self._error(gradient))

    def _gradient(self, policy: int) -> Float64:
        """Return the derivative of an estimate with respect to the means of all terms."""
        gradient = np.zeros_like(self._totals)
        gradient[policy] = 1.0
        if self._is_ratio:
            policies = gradient.size // 2
            weight = float(self._totals[policies + policy] / np.maximum(self._count[0], 1))
            if weight <= 0:
                return np.zeros_like(gradient)
            gradient[policy] = 1 / weight
            gradient[policies + policy] = -self.estimates()[policy] / weight
        return gradient

    def _error(self, gradient: Float64) -> float:
        """Return the standard error of a linear function of the means of the terms."""
        count = float(self._count[0])
        if count < 2:
            return np.inf
        mean = float(gradient @ self._totals) / count
        variance = (float(gradient @ self._products @ gradient) / count - mean**2) * count / (count - 1)
        return math.sqrt(max(variance, 0.0) / count)

    def snapshot(self) -> Arrays:
        """Return the state."""
        return {"count": self._count, "totals": self._totals, "products": self._products}

    def restore(self, arrays: Arrays) -> None:
        """Restore a snapshot."""
        copy_into(self.snapshot(), arrays)


class Bootstrap:
    """Resampled sums of one or several estimators, in one pass, by Poisson resampling.

    Every row counts a Poisson(1) number of times in each resample, equally for all policies, so differences
    between policies are resampled in pairs.

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
