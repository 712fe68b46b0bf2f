"""Uniformly random choice, the baseline that every policy must beat."""

from typing import Any

import numpy as np

from glcb._arrays import Float32, Int64
from glcb.policies.base import Policy
from glcb.policies.decision import Estimates
from glcb.policies.registry import register


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
