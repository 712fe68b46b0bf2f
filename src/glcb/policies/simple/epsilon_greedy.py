"""ε-greedy on the mean reward of each arm, blind to the context."""

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from glcb import _validation
from glcb._types import Arm, Float32
from glcb.policies.base import Common, Estimates
from glcb.policies.registry import register
from glcb.policies.simple.means import MeanPolicy


@register("epsilon-greedy", source="folklore")
class EpsilonGreedy(MeanPolicy):
    """Plays the arm with the best mean, and with probability ``epsilon`` any arm."""

    is_randomized = True

    def __init__(
        self,
        arms: int | Sequence[Arm],
        features: int,
        *,
        epsilon: float = 0.05,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(arms, features, **common)
        self.epsilon = _validation.number("epsilon", epsilon, 0, 1)

    def _estimate(self, x: Float32) -> Estimates:
        # An infinite bonus for everyone makes all arms tie, and ties are broken at random.
        explore = self._rng.random() < self.epsilon
        bonuses = np.full(len(self.arms), np.inf if explore else 0.0)
        return Estimates(self._means.copy(), bonuses, self._plays.astype(np.float64))

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "epsilon": self.epsilon}
