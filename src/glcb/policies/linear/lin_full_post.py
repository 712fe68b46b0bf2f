"""Thompson sampling from linear regressions with unknown noise (Riquelme, Tucker, Snoek 2018)."""

from collections.abc import Sequence
from copy import copy
from typing import Any, Unpack

import numpy as np

from glcb import _validation
from glcb._arrays import State
from glcb._types import Arm, Float32, Float64, Int64
from glcb.policies.base import Common, Estimates, Policy
from glcb.policies.linear.base import pseudocounts
from glcb.policies.linear.normal_inverse_gamma import PRIOR_PRECISION, NormalInverseGamma
from glcb.policies.registry import register
from glcb.policies.simple.round_robin import favor_turn


@register("linfullpost", source="Riquelme, Tucker, Snoek 2018")
class LinFullPost(Policy):
    """Draws each arm's noise and weights from their full posterior and plays the arm that looks best.

    The posterior is that of all data, but it is kept by rank-one updates and no data is stored.
    """

    is_randomized = True
    arms_can_change = True

    def __init__(self, arms: int | Sequence[Arm], features: int, **common: Unpack[Common]) -> None:
        super().__init__(arms, features, **common)
        count, width = len(self.arms), self.features + 1
        _validation.memory(8 * count * width * width, "One matrix per arm")
        self._posterior = NormalInverseGamma(count, width)

    def _estimate(self, x: Float32) -> Estimates:
        z = _with_intercept(x)
        means, widths = self._posterior.means_and_widths(z)
        bonuses = self._posterior.draw(means, widths, self._rng) - means
        counts = pseudocounts(z, widths, PRIOR_PRECISION)
        return Estimates(means, favor_turn(bonuses, self._turns), counts)

    def _attribute(self, x: Float32, baseline: Float32) -> tuple[Float64, Float64]:
        origin = _with_intercept(baseline)
        bases, _ = self._posterior.means_and_widths(origin)
        return bases, (self._posterior.means * (_with_intercept(x) - origin))[:, :-1]

    def _learn(self, x: Float32, arm: int, reward: float) -> None:
        self._posterior.learn(_with_intercept(x), arm, reward)

    def _rearranged(self, sources: Int64) -> dict[str, Any]:
        posterior = copy(self._posterior)
        posterior.rearrange(sources)
        return {"_posterior": posterior}

    def _state(self) -> State:
        return self._posterior.state()


def _with_intercept(x: Float32) -> Float64:
    return np.append(x.astype(np.float64), 1.0)
