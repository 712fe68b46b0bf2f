"""The mean reward of each arm, shared by the policies that ignore the context."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from glcb._arrays import Arrays, Float32, Float64, Int64, take_rows
from glcb._types import Arm, Rewards, reward_range
from glcb.policies.base import Policy


class MeanPolicy(Policy):
    """Keeps the mean reward of each arm. Without rewards, it is the middle of the reward range."""

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
