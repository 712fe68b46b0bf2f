"""LinUCB with one model per arm (Li, Chu, Langford, Schapire 2010)."""

from collections.abc import Sequence

import numpy as np

from glcb import _validation
from glcb._arrays import Float32
from glcb._types import Arm, Rewards
from glcb.policies.decision import Estimates
from glcb.policies.linear.base import LinearPolicy, pseudocounts, with_intercept
from glcb.policies.registry import register


@register("linucb", source="Li, Chu, Langford, Schapire 2010", version=2)
class LinUCB(LinearPolicy):
    """Linear value plus ``alpha`` · √(z'A⁻¹z), scaled to the reward range.

    Parameters
    ----------
    arms
        The number of arms, or their names.
    features
        The length of a context.
    rewards
        ``"binary"`` for rewards of 0 or 1, or the range ``(low, high)`` of the rewards.
    seed
        Seed of the random numbers that break ties.
    alpha
        The size of the exploration bonus, at least 0.
    ridge
        The strength of the regularization, at least 1e-6.
    half_life
        Number of decisions after which all evidence counts half as much; None means never.

    Examples
    --------
    >>> policy = LinUCB(arms=["a", "b"], features=2, alpha=0.1)
    >>> for _ in range(20):
    ...     policy.learn([1, 0], "a", 1)
    ...     policy.learn([0, 1], "b", 1)
    >>> policy.decide([1, 0]).arm, policy.decide([0, 1]).arm
    ('a', 'b')

    References
    ----------
    Li, Chu, Langford, Schapire: A contextual-bandit approach to personalized news article recommendation.
    WWW, 2010.
    """

    def __init__(
        self,
        arms: int | Sequence[Arm],
        features: int,
        *,
        rewards: Rewards = "binary",
        seed: int = 0,
        alpha: float = 0.25,
        ridge: float = 1.0,
        half_life: int | None = None,
    ) -> None:
        super().__init__(arms, features, rewards=rewards, seed=seed, ridge=ridge, half_life=half_life)
        self.alpha = _validation.number("alpha", alpha, 0)

    def _estimate(self, x: Float32) -> Estimates:
        z = with_intercept(x)
        means, widths = self._means_and_widths(z)
        bonuses = self.alpha * (self._high - self._low) * np.sqrt(widths)
        return Estimates(means, bonuses, pseudocounts(z, widths, self.ridge))
