"""River's LinUCB, with the features and an intercept as context."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from glcb import _validation
from glcb._arrays import Arrays, Float32, Float64, copy_into
from glcb._types import Arm, Rewards, reward_range
from glcb.policies.base import Policy
from glcb.policies.decision import Estimates
from glcb.policies.linear.base import pseudocounts, with_intercept
from glcb.policies.registry import register

_RIDGE = _NOISE = 1.0
"""The variance of the noise, and the precision of the prior relative to it: River's defaults."""
_STATE = {"precisions": "_ss_arr", "covariances": "_ss_inv_arr", "moments": "_eta_arr"}
"""The arrays of a regression in River."""


@register("river-linucb", source="Li, Chu, Langford, Schapire 2010; River")
class RiverLinUCB(Policy):
    """River: LinUCB with Bayesian linear regression; the bonus is the standard deviation of the reward.

    The standard deviation includes the noise of a single reward, and has no factor to change it.

    Parameters
    ----------
    arms, features, rewards, seed
        See :class:`~glcb.policies.base.Policy`.
    """

    requires = ("river",)
    extra = "rivals"

    def __init__(
        self, arms: int | Sequence[Arm], features: int, *, rewards: Rewards = "binary", seed: int = 0
    ) -> None:
        super().__init__(arms, features, rewards=rewards, seed=seed)
        self._low, self._high = reward_range(self.rewards)
        count, width = len(self.arms), self.features + 1
        _validation.check_memory(16 * count * width * width, "Two matrices per arm")
        from river.bandit import LinUCBDisjoint

        self._bandit: Any = LinUCBDisjoint(seed=0)
        for arm in range(count):  # a context of zeros announces the features and changes nothing else
            self._add(np.zeros(width), arm, 0.0)

    def _regressions(self) -> list[Any]:
        return [self._bandit._bayes_lin_regs[arm] for arm in range(len(self.arms))]

    def _estimate(self, x: Float32) -> Estimates:
        z = with_intercept(x)
        context = dict(enumerate(z.tolist()))
        rewards = [each.predict_one(context, with_dist=True) for each in self._regressions()]
        means = np.array([reward.mu for reward in rewards])
        deviations = np.array([reward.sigma for reward in rewards])
        widths = deviations**2 / _NOISE - 1
        scale = self._high - self._low
        return Estimates(self._low + scale * means, scale * deviations, pseudocounts(z, widths, _RIDGE))

    def _learn(self, x: Float32, arm: int, reward: float) -> None:
        scaled = (reward - self._low) / (self._high - self._low)
        self._add(with_intercept(x), arm, scaled)

    def _add(self, z: Float64, arm: int, reward: float) -> None:
        self._bandit.update(arm, dict(enumerate(z.tolist())), reward)

    def _snapshot(self) -> Arrays:
        regressions = self._regressions()
        return {
            name: np.array([getattr(each, attribute) for each in regressions])
            for name, attribute in _STATE.items()
        }

    def _restore(self, arrays: Arrays) -> None:
        restored = self._snapshot()
        copy_into(restored, arrays)
        for arm, regression in enumerate(self._regressions()):
            for name, attribute in _STATE.items():
                getattr(regression, attribute)[...] = restored[name][arm]
            regression._m_dirty = True  # recompute the mean
