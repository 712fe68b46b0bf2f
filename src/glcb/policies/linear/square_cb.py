"""SquareCB on ridge regressions (Foster, Rakhlin 2020)."""

from collections.abc import Sequence

import numpy as np

from glcb import _validation
from glcb._arrays import Float32
from glcb._types import Arm, Rewards
from glcb.policies.decision import Estimates
from glcb.policies.linear.base import LinearPolicy, pseudocounts
from glcb.policies.registry import register


@register("squarecb", source="Foster, Rakhlin 2020")
class SquareCB(LinearPolicy):
    """Draws an arm with a probability that falls with the gap between its value and the best value.

    With K arms, an arm whose value is Δ below the best has probability 1 / (K + γ Δ), and the best arm has
    the rest. γ = ``gamma`` · √t after t decisions, and Δ is measured on the scale of rewards from 0 to 1. If
    the drawn arm is not eligible, the best eligible arm is chosen.

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
    gamma
        How strongly a gap reduces the probability, at least 0. With 0 all arms are equally likely.
    ridge
        The strength of the regularization, at least 1e-6.
    half_life
        Number of decisions after which all evidence counts half as much; None means never.

    Examples
    --------
    >>> policy = SquareCB(arms=["a", "b"], features=1)
    >>> for _ in range(1000):
    ...     policy.learn([0.5], "a", 1)
    ...     policy.learn([0.5], "b", 0)
    >>> sum(policy.decide([0.5]).arm == "a" for _ in range(100)) > 90
    True

    References
    ----------
    Foster, Rakhlin: Beyond UCB: optimal and efficient contextual bandits with regression oracles. ICML, 2020.
    """

    is_randomized = True

    def __init__(
        self,
        arms: int | Sequence[Arm],
        features: int,
        *,
        rewards: Rewards = "binary",
        seed: int = 0,
        gamma: float = 30.0,
        ridge: float = 1.0,
        half_life: int | None = None,
    ) -> None:
        super().__init__(arms, features, rewards=rewards, seed=seed, ridge=ridge, half_life=half_life)
        self.gamma = _validation.number("gamma", gamma, 0)

    def _estimate(self, x: Float32) -> Estimates:
        z = self._input(x)
        means, widths = self._means_and_widths(z)
        gaps = (means.max() - means) / (self._high - self._low)
        probabilities = 1 / (len(self.arms) + self.gamma * np.sqrt(self._decisions) * gaps)
        drawn = int(np.searchsorted(np.cumsum(probabilities), self._rng.random()))
        bonuses = np.zeros(len(self.arms))
        # The probabilities add up to less than 1. For the rest, no arm has a bonus, and the best value
        # decides.
        if drawn < len(self.arms):
            bonuses[drawn] = np.inf
        return Estimates(means, bonuses, pseudocounts(z, widths, self.ridge))
