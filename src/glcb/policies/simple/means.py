"""What the policies that ignore the context share: the mean reward of each arm."""

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from glcb._arrays import State, rearranged
from glcb._types import Arm, Float32, Float64, Int64, reward_range
from glcb.policies.base import Common, Policy


class MeanPolicy(Policy):
    """Keeps the mean reward of each arm; an arm that was never played has the middle of the range."""

    arms_can_change = True

    def __init__(self, arms: int | Sequence[Arm], features: int, **common: Unpack[Common]) -> None:
        super().__init__(arms, features, **common)
        self._low, self._high = reward_range(self.rewards)
        self._middle = (self._low + self._high) / 2
        self._means: Float64 = np.full(len(self.arms), self._middle)

    def _learn(self, x: Float32, arm: int, reward: float) -> None:
        self._means[arm] += (reward - self._means[arm]) / (self._plays[arm] + 1)

    def _rearranged(self, sources: Int64) -> dict[str, Any]:
        return {"_means": rearranged(self._means, sources, self._middle)}

    def _state(self) -> State:
        return {"means": self._means}
