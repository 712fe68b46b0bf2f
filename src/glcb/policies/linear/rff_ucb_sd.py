"""Upper confidence bounds of ridge regressions on random Fourier features, in standard deviations."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from glcb._arrays import Arrays, Float32, Float64, Int64, take_rows
from glcb._types import Arm, Rewards
from glcb.policies.decision import Estimates
from glcb.policies.linear.base import pseudocounts
from glcb.policies.linear.random_features import RandomFeaturePolicy
from glcb.policies.registry import register

_SMALLEST_DEVIATION = 0.14
_PRIOR_VARIANCE = 0.25
"""The variance of a fair coin, with the weight of one reward."""


@register("rff-ucb-sd", source="Rahimi, Recht 2007; Valko et al. 2013")
class RFFUCBSD(RandomFeaturePolicy):
    """Ridge regression on random Fourier features plus the noise deviation of the arm times √(z'A⁻¹z).

    The noise of each arm is estimated from the errors of its own predictions, so that an arm with predictable
    rewards is explored less. Rewards are scaled to [0, 1] and the deviation is at least 0.14.

    Parameters
    ----------
    arms
        The number of arms, or their names.
    features
        The length of a context.
    rewards
        ``"binary"`` for rewards of 0 or 1, or the range ``(low, high)`` of the rewards.
    seed
        Seed of the random features and of the random numbers that break ties.
    ridge
        The strength of the regularization, at least 1e-6.
    half_life
        Number of decisions after which all evidence counts half as much; None means never.

    Examples
    --------
    >>> policy = RFFUCBSD(arms=["steady", "noisy"], features=1)
    >>> for step in range(100):
    ...     policy.learn([0.5], "steady", 1)
    ...     policy.learn([0.5], "noisy", step % 2)
    >>> bonuses = policy.estimate([0.5]).bonuses
    >>> bool(bonuses[0] < bonuses[1])
    True

    References
    ----------
    Rahimi, Recht: Random features for large-scale kernel machines. NIPS, 2007.

    Valko, Korda, Munos, Flaounas, Cristianini: Finite-time analysis of kernelised contextual bandits. UAI,
    2013.
    """

    def __init__(
        self,
        arms: int | Sequence[Arm],
        features: int,
        *,
        rewards: Rewards = "binary",
        seed: int = 0,
        ridge: float = 0.3,
        half_life: int | None = None,
    ) -> None:
        super().__init__(arms, features, rewards=rewards, seed=seed, ridge=ridge, half_life=half_life)
        self._squares: Float64 = np.zeros(len(self.arms))
        self._effective_counts: Float64 = np.zeros(len(self.arms))

    def _deviations(self) -> Float64:
        """Return the noise deviation of each arm, on the scale of rewards from 0 to 1.

        For the errors e of all predictions, each made before its reward was learned, Σ e² / (1 + z'A⁻¹z)
        equals y'y − y'Z A⁻¹ Z'y. So no sum over predictions is kept.
        """
        errors = self._squares - np.einsum("ai,ai->a", self._weights, self._moments)
        variances = (_PRIOR_VARIANCE + np.maximum(errors, 0)) / (self._effective_counts + 1)
        deviations: Float64 = np.maximum(_SMALLEST_DEVIATION, np.sqrt(variances))
        return deviations

    def _estimate(self, x: Float32) -> Estimates:
        z = self._input(x)
        means, widths = self._means_and_widths(z)
        bonuses = (self._high - self._low) * self._deviations() * np.sqrt(widths)
        return Estimates(means, bonuses, pseudocounts(z, widths, self.ridge))

    def _learn(self, x: Float32, arm: int, reward: float) -> None:
        super()._learn(x, arm, reward)
        self._squares[arm] += self._scaled(reward) ** 2
        self._effective_counts[arm] += 1

    def _forget(self, arms: slice | None = None) -> None:
        super()._forget(arms)
        self._squares[arms or slice(None)] /= 2
        self._effective_counts[arms or slice(None)] /= 2

    def _reordered(self, sources: Int64) -> dict[str, Any]:
        return {
            **super()._reordered(sources),
            "_squares": take_rows(self._squares, sources, 0),
            "_effective_counts": take_rows(self._effective_counts, sources, 0),
        }

    def _snapshot(self) -> Arrays:
        return {**super()._snapshot(), "squares": self._squares, "effective_counts": self._effective_counts}
