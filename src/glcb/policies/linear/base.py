"""One ridge regression per arm, kept up to date by rank-one updates; shared by the linear policies."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from glcb import _validation
from glcb._arrays import Arrays, Float32, Float64, Int64, take_rows
from glcb._forgetting import check_half_life, halve_moment
from glcb._types import Arm, Rewards, reward_range
from glcb.policies.base import Policy
from glcb.policies.linear import kernels

_ROUNDING = 1e-9
"""A pseudocount below this fraction of the prior is rounding error."""


def with_intercept(x: Float32) -> Float64:
    """Return z = [x, 1], the input of the regressions."""
    return np.append(x.astype(np.float64), 1.0)


def pseudocounts(z: Float64, widths: Float64, ridge: float) -> Float64:
    """Return the number of decisions on inputs like ``z`` from ``widths`` = z'A⁻¹z, with A = ridge·I + Z'Z.

    1 / z'A⁻¹z is ridge / z'z, the weight of the prior, plus 1 for every decision on ``z`` itself.

    >>> pseudocounts(np.array([2.0, 0.0]), np.array([4 / 100, 4 / (100 + 3 * 4)]), ridge=100)
    array([0., 3.])
    """
    prior = ridge / (z @ z)
    counts: Float64 = 1 / widths - prior
    counts[counts < _ROUNDING * prior] = 0
    return counts


class LinearPolicy(Policy):
    """Ridge regression of the reward, scaled to [0, 1], on an input z(x) for each arm.

    The input is [x, 1]; a subclass can override ``_input`` and ``_width``. The inverses are float64: a
    running inverse in float32 drifts silently.
    """

    arms_can_change = True
    can_forget = True

    def __init__(
        self,
        arms: int | Sequence[Arm],
        features: int,
        *,
        rewards: Rewards = "binary",
        seed: int = 0,
        ridge: float = 1.0,
        half_life: int | None = None,
    ) -> None:
        super().__init__(arms, features, rewards=rewards, seed=seed)
        self.ridge = _validation.number("ridge", ridge, 1e-6)
        self.half_life = check_half_life(half_life)
        self._low, self._high = reward_range(self.rewards)
        count, width = len(self.arms), self._width
        _validation.check_memory(8 * count * width * width, "One matrix per arm")
        self._inverses: Float64 = np.tile(np.eye(width) / self.ridge, (count, 1, 1))
        self._moments: Float64 = np.zeros((count, width))
        self._weights: Float64 = np.zeros((count, width))

    @property
    def _width(self) -> int:
        """The length of the input of the regressions."""
        return self.features + 1

    def _input(self, x: Float32) -> Float64:
        """Return z(x), the input of the regressions."""
        return with_intercept(x)

    def _means_and_widths(self, z: Float64) -> tuple[Float64, Float64]:
        """Return each arm's predicted reward and z'A⁻¹z, which shrinks with every similar input."""
        means, widths = np.empty((2, len(self.arms)))
        kernels.means_and_widths(self._weights, self._inverses, z, means, widths)
        return self._low + (self._high - self._low) * means, widths

    def _contributions(self, x: Float32, baseline: Float32) -> tuple[Float64, Float64]:
        origin = with_intercept(baseline)
        bases, _ = self._means_and_widths(origin)
        differences = (with_intercept(x) - origin) * (self._high - self._low)
        return bases, (self._weights * differences)[:, :-1]

    def _learn(self, x: Float32, arm: int, reward: float) -> None:
        z = self._input(x)
        kernels.add_observation(
            self._inverses[arm],
            self._moments[arm],
            self._weights[arm],
            z,
            self._scaled(reward),
            np.empty_like(z),
        )

    def _scaled(self, reward: float) -> float:
        """Return the reward on a scale from 0 to 1."""
        return (reward - self._low) / (self._high - self._low)

    def _forget(self, arms: slice | None = None) -> None:
        for arm in range(len(self.arms))[arms or slice(None)]:
            self._moments[arm] /= 2
            halve_moment(self._inverses[arm], self.ridge)
            self._weights[arm] = self._inverses[arm] @ self._moments[arm]

    def _reordered(self, sources: Int64) -> dict[str, Any]:
        prior = np.eye(self._width) / self.ridge
        return {
            "_inverses": take_rows(self._inverses, sources, prior),
            "_moments": take_rows(self._moments, sources, 0),
            "_weights": take_rows(self._weights, sources, 0),
        }

    def _snapshot(self) -> Arrays:
        return {"inverses": self._inverses, "moments": self._moments, "weights": self._weights}
