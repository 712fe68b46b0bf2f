"""MABWiser's LinUCB, with the features and an intercept as context."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from glcb import _validation
from glcb._arrays import Arrays, Float32, copy_into
from glcb._types import Arm, Rewards, reward_range
from glcb.policies.base import Policy
from glcb.policies.decision import Estimates
from glcb.policies.linear.base import pseudocounts, with_intercept
from glcb.policies.registry import register

_RIDGE = 1.0
_STATE = ("A", "A_inv", "Xty", "beta")
"""The arrays of a regression in MABWiser."""


@register("mabwiser-linucb", source="Li, Chu, Langford, Schapire 2010; MABWiser")
class MABWiserLinUCB(Policy):
    """MABWiser: LinUCB, which inverts the matrix of an arm on every reward.

    Parameters
    ----------
    arms, features, rewards, seed
        See :class:`~glcb.policies.base.Policy`.
    alpha
        The size of the exploration bonus, at least 0.
    """

    requires = ("mabwiser",)
    extra = "rivals"

    def __init__(
        self,
        arms: int | Sequence[Arm],
        features: int,
        *,
        rewards: Rewards = "binary",
        seed: int = 0,
        alpha: float = 1.0,
    ) -> None:
        super().__init__(arms, features, rewards=rewards, seed=seed)
        self.alpha = _validation.number("alpha", alpha, 0)
        self._low, self._high = reward_range(self.rewards)
        count, width = len(self.arms), self.features + 1
        _validation.check_memory(16 * count * width * width, "Two matrices per arm")
        from mabwiser.mab import MAB, LearningPolicy

        self._mab: Any = MAB(list(range(count)), LearningPolicy.LinUCB(alpha=self.alpha, l2_lambda=_RIDGE))
        # MABWiser must be fitted before it predicts. Contexts of zeros leave the regressions unchanged.
        self._mab.fit(np.arange(count), np.zeros(count), np.zeros((count, width)))

    def _regressions(self) -> list[Any]:
        return [self._mab._imp.arm_to_model[arm] for arm in range(len(self.arms))]

    def _estimate(self, x: Float32) -> Estimates:
        z = with_intercept(x)
        scores = np.array(list(self._mab.predict_expectations(z[None]).values()))
        means = np.array([regression.beta @ z for regression in self._regressions()])
        widths = np.array([z @ regression.A_inv @ z for regression in self._regressions()])
        scale = self._high - self._low
        return Estimates(self._low + scale * means, scale * (scores - means), pseudocounts(z, widths, _RIDGE))

    def _learn(self, x: Float32, arm: int, reward: float) -> None:
        scaled = (reward - self._low) / (self._high - self._low)
        self._mab.partial_fit([arm], [scaled], with_intercept(x)[None])

    def _snapshot(self) -> Arrays:
        regressions = self._regressions()
        return {name: np.array([getattr(each, name) for each in regressions]) for name in _STATE}

    def _restore(self, arrays: Arrays) -> None:
        restored = self._snapshot()
        copy_into(restored, arrays)
        for arm, regression in enumerate(self._regressions()):
            for name in _STATE:
                setattr(regression, name, restored[name][arm])
