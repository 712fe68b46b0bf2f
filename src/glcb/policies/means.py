"""What the policies that ignore the context share: the mean reward of each arm."""

from collections.abc import Sequence
from typing import Unpack

import numpy as np

from glcb._state import State
from glcb._types import Arm, Float32, Float64
from glcb.policies.base import Common, Policy


class MeanPolicy(Policy):
    """Keeps the mean reward of each arm; an arm that was never played has the middle of the range."""

    def __init__(self, arms: int | Sequence[Arm], features: int, **common: Unpack[Common]) -> None:
        super().__init__(arms, features, **common)
        self._low, self._high = (0.0, 1.0) if self.rewards == "binary" else self.rewards
        self._means: Float64 = np.full(len(self.arms), (self._low + self._high) / 2)

    def _learn(self, x: Float32, arm: int, reward: float) -> None:
        self._means[arm] += (reward - self._means[arm]) / (self._plays[arm] + 1)

    def _state(self) -> State:
        return {"means": self._means}
