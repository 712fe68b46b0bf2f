"""Every arm equally often: the floor that any policy must beat."""

from typing import Any

import numpy as np

from glcb._types import Float32, Int64
from glcb.policies.base import Estimates, Policy
from glcb.policies.registry import register


@register("uniform", source="folklore")
class Uniform(Policy):
    """Plays at random and learns nothing."""

    arms_can_change = True

    def _estimate(self, x: Float32) -> Estimates:
        count = len(self.arms)
        # All arms tie, and ties are broken at random.
        return Estimates(np.zeros(count), np.zeros(count), self._plays.astype(np.float64))

    def _learn(self, x: Float32, arm: int, reward: float) -> None:
        pass

    def _rearranged(self, sources: Int64) -> dict[str, Any]:
        return {}
