"""What the linear policies share: one ridge regression per arm, kept up to date by rank-one updates."""

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from glcb import _validation
from glcb._arrays import State, rearranged
from glcb._forgetting import checked_half_life, halve_moment
from glcb._types import Arm, Float32, Float64, Int64, reward_range
from glcb.policies.base import Common, Policy

_ROUNDING = 1e-9
"""A part of the prior that no try can be told from."""


def pseudocounts(z: Float64, widths: Float64, ridge: float) -> Float64:
    """Return how often each arm was tried on inputs like ``z``, given its z'A⁻¹z with A = ridge·I + Z'Z.

    1 / z'A⁻¹z is what the prior counts for, ridge / z'z, and 1 more for every try of ``z`` itself.

    >>> pseudocounts(np.array([2.0, 0.0]), np.array([4 / 100, 4 / (100 + 3 * 4)]), ridge=100)
    array([0., 3.])
    """
    prior = ridge / (z @ z)
    counts: Float64 = 1 / widths - prior
    counts[counts < _ROUNDING * prior] = 0
    return counts


class Linear(Common, total=False):
    """The optional arguments that every linear policy takes."""

    ridge: float
    half_life: int | None


class LinearPolicy(Policy):
    """Ridge regression of the reward, scaled to [0, 1], on [x, 1] for each arm.

    With ``half_life``, all rewards so far count half after every so many plays. The inverses are float64: a
    running inverse in float32 drifts away without a sign.
    """

    arms_can_change = True
    can_forget = True

    def __init__(
        self,
        arms: int | Sequence[Arm],
        features: int,
        *,
        ridge: float = 1.0,
        half_life: int | None = None,
        **common: Unpack[Common],
    ) -> None:
        super().__init__(arms, features, **common)
        self.ridge = _validation.number("ridge", ridge, 1e-6)
        self.half_life = checked_half_life(half_life)
        self._low, self._high = reward_range(self.rewards)
        count, width = len(self.arms), self.features + 1
        _validation.memory(8 * count * width * width, "One matrix per arm")
        self._inverses: Float64 = np.tile(np.eye(width) / self.ridge, (count, 1, 1))
        self._moments: Float64 = np.zeros((count, width))
        self._weights: Float64 = np.zeros((count, width))

    def _means_and_widths(self, x: Float32) -> tuple[Float64, Float64]:
        """Return each arm's predicted reward, and z'A⁻¹z, which shrinks with experience."""
        z = self._inputs(x)
        widths = (self._inverses @ z) @ z
        return self._low + (self._high - self._low) * (self._weights @ z), widths

    def _pseudocounts(self, x: Float32, widths: Float64) -> Float64:
        return pseudocounts(self._inputs(x), widths, self.ridge)

    def _attribute(self, x: Float32, baseline: Float32) -> tuple[Float64, Float64]:
        bases, _ = self._means_and_widths(baseline)
        differences = (self._inputs(x) - self._inputs(baseline)) * (self._high - self._low)
        return bases, (self._weights * differences)[:, :-1]

    def _learn(self, x: Float32, arm: int, reward: float) -> None:
        z = self._inputs(x)
        inverse = self._inverses[arm]
        gain = inverse @ z
        inverse -= np.outer(gain, gain / (1 + gain @ z))
        self._moments[arm] += (reward - self._low) / (self._high - self._low) * z
        self._weights[arm] = inverse @ self._moments[arm]

    def _forget(self) -> None:
        self._moments /= 2
        for inverse, moment, weights in zip(self._inverses, self._moments, self._weights, strict=True):
            halve_moment(inverse, self.ridge)
            weights[:] = inverse @ moment

    def _rearranged(self, sources: Int64) -> dict[str, Any]:
        untried = np.eye(self.features + 1) / self.ridge
        return {
            "_inverses": rearranged(self._inverses, sources, untried),
            "_moments": rearranged(self._moments, sources, 0),
            "_weights": rearranged(self._weights, sources, 0),
        }

    def _inputs(self, x: Float32) -> Float64:
        return np.append(x.astype(np.float64), 1.0)

    def _arguments(self) -> dict[str, Any]:
        return {**super()._arguments(), "ridge": self.ridge, "half_life": self.half_life}

    def _state(self) -> State:
        return {"inverses": self._inverses, "moments": self._moments, "weights": self._weights}
