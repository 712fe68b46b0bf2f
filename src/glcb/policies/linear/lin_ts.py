"""Linear Thompson sampling with one model per arm (Agrawal, Goyal 2013)."""

from collections.abc import Sequence

import numpy as np

from glcb import _validation
from glcb._arrays import Float32, Float64
from glcb._types import Arm, Rewards
from glcb.policies.decision import Estimates
from glcb.policies.linear.base import LinearPolicy, pseudocounts, with_intercept
from glcb.policies.registry import register


@register("lints", source="Agrawal, Goyal 2013", version=2)
class LinTS(LinearPolicy):
    """Draws each arm's weights from N(A⁻¹b, ``posterior_scale``² A⁻¹) and chooses the best arm for them.

    A decision depends on z·weights only, which is N(z'A⁻¹b, posterior_scale² z'A⁻¹z). One draw per arm
    gives the same distribution as one draw per weight.

    Parameters
    ----------
    arms
        The number of arms, or their names.
    features
        The length of a context.
    rewards
        ``"binary"`` for rewards of 0 or 1, or the range ``(low, high)`` of the rewards.
    seed
        Seed of all random numbers.
    posterior_scale
        The scale of the posterior, v in the paper, at least 0. Larger values explore more.
    ridge
        The strength of the regularization, at least 1e-6.
    half_life
        Number of decisions after which all evidence counts half as much; None means never.

    Examples
    --------
    >>> policy = LinTS(arms=["a", "b"], features=2)
    >>> for _ in range(20):
    ...     policy.learn([1, 0], "a", 1)
    ...     policy.learn([0, 1], "b", 1)
    >>> policy.decide([1, 0]).arm, policy.decide([0, 1]).arm
    ('a', 'b')

    References
    ----------
    Agrawal, Goyal: Thompson sampling for contextual bandits with linear payoffs. ICML, 2013.
    """

    is_randomized = True

    def __init__(
        self,
        arms: int | Sequence[Arm],
        features: int,
        *,
        rewards: Rewards = "binary",
        seed: int = 0,
        posterior_scale: float = 0.1,
        ridge: float = 1.0,
        half_life: int | None = None,
    ) -> None:
        super().__init__(arms, features, rewards=rewards, seed=seed, ridge=ridge, half_life=half_life)
        self.posterior_scale = _validation.number("posterior_scale", posterior_scale, 0)

    def _estimate(self, x: Float32) -> Estimates:
        z = with_intercept(x)
        means, widths = self._means_and_widths(z)
        scale = self.posterior_scale * (self._high - self._low) * np.sqrt(widths)
        bonuses = self._rng.standard_normal(len(self.arms)) * scale
        return Estimates(means, bonuses, pseudocounts(z, widths, self.ridge))

    def draw_noise(self, arm: int) -> Float64:
        """Draw the deviation of one arm's weights from their mean, for candidates that share it."""
        with self._lock:
            factor = np.linalg.cholesky(self._inverses[arm])
            noise: Float64 = self.posterior_scale * factor @ self._rng.standard_normal(len(factor))
        return noise
