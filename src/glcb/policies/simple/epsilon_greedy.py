"""ε-greedy on the mean reward of each arm."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from glcb import _validation
from glcb._arrays import Float32
from glcb._types import Arm, Rewards
from glcb.policies.decision import Estimates
from glcb.policies.registry import register
from glcb.policies.simple.means import MeanPolicy


@register("epsilon-greedy", source="folklore")
class EpsilonGreedy(MeanPolicy):
    """Chooses the arm with the best mean, and with probability ``epsilon`` a random arm; ignores the context.

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
    epsilon
        The probability of a random choice, from 0 to 1.

    Examples
    --------
    >>> policy = EpsilonGreedy(arms=["a", "b"], features=1, epsilon=0)
    >>> policy.learn([0.5], "b", 1)
    >>> policy.decide([0.5]).arm
    'b'
    """

    is_randomized = True

    def __init__(
        self,
        arms: int | Sequence[Arm],
        features: int,
        *,
        rewards: Rewards = "binary",
        seed: int = 0,
        epsilon: float = 0.05,
    ) -> None:
        super().__init__(arms, features, rewards=rewards, seed=seed)
        self.epsilon = _validation.number("epsilon", epsilon, 0, 1)

    def _estimate(self, x: Float32) -> Estimates:
        # An infinite bonus for all arms makes them tie, and ties are broken at random.
        explore = self._rng.random() < self.epsilon
        bonuses = np.full(len(self.arms), np.inf if explore else 0.0)
        return Estimates(self._means.copy(), bonuses, self._reward_counts.astype(np.float64))

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "epsilon": self.epsilon}
