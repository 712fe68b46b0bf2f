"""Upper confidence bounds of ridge regressions on random Fourier features."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from glcb import _validation
from glcb._arrays import Float32
from glcb._types import Arm, Rewards
from glcb.policies.decision import Estimates
from glcb.policies.linear.base import pseudocounts
from glcb.policies.linear.random_features import RandomFeaturePolicy
from glcb.policies.registry import register


@register("rff-ucb", source="Rahimi, Recht 2007; Valko et al. 2013")
class RFFUCB(RandomFeaturePolicy):
    """Ridge regression on random Fourier features plus ``beta`` · √(ridge · z'A⁻¹z).

    It approximates KernelUCB in constant memory. At an input unlike all others the bonus is about ``beta``
    times the norm of z, whatever the ridge.

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
    beta
        The size of the exploration bonus, at least 0.
    ridge
        The strength of the regularization, at least 1e-6.
    half_life
        Number of decisions after which all evidence counts half as much; None means never.

    Examples
    --------
    Two of four corners pay for each arm, which no linear value can express:

    >>> policy = RFFUCB(arms=["same", "different"], features=2)
    >>> corners = [(0, 0), (0, 1), (1, 0), (1, 1)]
    >>> for corner in corners * 25:
    ...     for arm in policy.arms:
    ...         policy.learn(corner, arm, float((corner[0] == corner[1]) == (arm == "same")))
    >>> [policy.decide(corner).arm for corner in corners]
    ['same', 'different', 'different', 'same']

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
        beta: float = 0.5,
        ridge: float = 0.1,
        half_life: int | None = None,
    ) -> None:
        super().__init__(arms, features, rewards=rewards, seed=seed, ridge=ridge, half_life=half_life)
        self.beta = _validation.number("beta", beta, 0)

    def _estimate(self, x: Float32) -> Estimates:
        z = self._input(x)
        means, widths = self._means_and_widths(z)
        bonuses = self.beta * (self._high - self._low) * np.sqrt(self.ridge * widths)
        return Estimates(means, bonuses, pseudocounts(z, widths, self.ridge))

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "beta": self.beta}
