"""Policies that ignore the context."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from glcb import _validation
from glcb._arrays import Arrays, Float32, Float64, Int64, take_rows
from glcb._types import Arm, Rewards, reward_range
from glcb.explore import bonus
from glcb.policies.base import Policy
from glcb.policies.decision import Estimates
from glcb.policies.registry import register


class MeanPolicy(Policy):
    """Keeps the mean reward of each arm. Without rewards, the mean is the middle of the reward range."""

    arms_can_change = True

    def __init__(
        self, arms: int | Sequence[Arm], features: int, *, rewards: Rewards = "binary", seed: int = 0
    ) -> None:
        super().__init__(arms, features, rewards=rewards, seed=seed)
        self._low, self._high = reward_range(self.rewards)
        self._middle = (self._low + self._high) / 2
        self._means: Float64 = np.full(len(self.arms), self._middle)

    def _learn(self, x: Float32, arm: int, reward: float) -> None:
        self._means[arm] += (reward - self._means[arm]) / (self._reward_counts[arm] + 1)

    def _reordered(self, sources: Int64) -> dict[str, Any]:
        return {"_means": take_rows(self._means, sources, self._middle)}

    def _snapshot(self) -> Arrays:
        return {"means": self._means}


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


@register("ucb1", source="Auer, Cesa-Bianchi, Fischer 2002")
class UCB1(MeanPolicy):
    """Mean reward plus √(2 ln t / n), scaled to the reward range; ignores the context.

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

    Examples
    --------
    >>> policy = UCB1(arms=["a", "b"], features=1)
    >>> for arm, reward in [("a", 0), ("b", 1)]:
    ...     policy.learn([0.5], arm, reward)
    >>> policy.decide([0.5])
    Decision(arm='b')
      'a': value 0, bonus 1.482, pseudocount 1
      'b': value 1, bonus 1.482, pseudocount 1

    References
    ----------
    Auer, Cesa-Bianchi, Fischer: Finite-time analysis of the multiarmed bandit problem. Machine Learning,
    2002.
    """

    def _estimate(self, x: Float32) -> Estimates:
        counts = self._decision_counts.astype(float)
        scale = math.sqrt(2) * (self._high - self._low)
        return Estimates(self._means.copy(), bonus(counts, self._decisions + 1, scale), counts)


@register("uniform", source="folklore")
class Uniform(Policy):
    """Chooses uniformly at random and learns nothing.

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

    Examples
    --------
    >>> policy = Uniform(arms=["a", "b", "c"], features=1)
    >>> sorted({policy.decide([0.5]).arm for _ in range(100)})
    ['a', 'b', 'c']
    """

    arms_can_change = True

    def _estimate(self, x: Float32) -> Estimates:
        count = len(self.arms)
        # All arms tie, and ties are broken at random.
        return Estimates(np.zeros(count), np.zeros(count), self._reward_counts.astype(np.float64))

    def _learn(self, x: Float32, arm: int, reward: float) -> None:
        pass

    def _reordered(self, sources: Int64) -> dict[str, Any]:
        return {}
