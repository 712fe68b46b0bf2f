"""Ridge regression on random Fourier features (Rahimi, Recht 2007): kernel regression in constant memory.

A Gaussian kernel of length scale ℓ is approximated by the inner product of cosines:

    z = [√(2/m) cos(W (x − ½) + b), x − ½, 1]     W ~ N(0, ℓ⁻²)     b ~ U(0, 2π)     m = 128

The context itself and an intercept are part of z, so that a linear reward needs no cosines.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from glcb._arrays import Arrays, Float32, Float64, Int64, take_rows
from glcb._types import Arm, Rewards
from glcb.policies.linear.base import LinearPolicy

COSINES = 128
FIRST_CONTEXTS = 50
"""The length scale is the median distance among this many contexts."""

_SMALLEST_CHANGE = 1e-6
"""Below this change of its argument, a cosine is replaced by its tangent."""


class RandomFeatures:
    """The map from a context to z. Its directions and phases depend on the seed only."""

    def __init__(self, features: int, seed: int) -> None:
        # A stream of its own: the generator of the policy also breaks ties.
        rng = np.random.default_rng((seed, 1))
        self._directions: Float64 = rng.standard_normal((COSINES, features))
        self._phases: Float64 = rng.uniform(0, 2 * np.pi, COSINES)
        # Before any context is known: the expected distance of uniform contexts.
        self.length_scale: Float64 = np.array([np.sqrt(features / 6)])

    def __call__(self, x: Float32) -> Float64:
        """Return z."""
        center = x.astype(np.float64) - 0.5
        return np.concatenate((np.sqrt(2 / COSINES) * np.cos(self._arguments(center)), center, [1.0]))

    def slopes(self, x: Float32, baseline: Float32) -> Float64:
        """Return for each entry of z and each feature the mean derivative between ``baseline`` and ``x``.

        The mean is taken along the straight line, so that the slopes times x − baseline add up exactly to the
        change of z. For a cosine it has a closed form: Δcos / Δargument · direction.
        """
        start, end = (self._arguments(point.astype(np.float64) - 0.5) for point in (baseline, x))
        change = end - start
        small = np.abs(change) < _SMALLEST_CHANGE
        ratio = (np.cos(end) - np.cos(start)) / np.where(small, 1.0, change)
        ratio = np.sqrt(2 / COSINES) * np.where(small, -np.sin(start), ratio)
        cosines = ratio[:, None] * self._directions / self.length_scale
        size = self._directions.shape[1]
        return np.concatenate((cosines, np.eye(size), np.zeros((1, size))))

    def fit(self, contexts: Float32) -> None:
        """Set the length scale to the median distance of the contexts that differ, if there are any."""
        rows, columns = np.triu_indices(len(contexts), 1)
        distances = np.linalg.norm(contexts[rows].astype(np.float64) - contexts[columns], axis=1)
        distances = distances[distances > 0]
        if distances.size:
            self.length_scale[0] = np.median(distances)

    def _arguments(self, center: Float64) -> Float64:
        return self._directions @ center / self.length_scale + self._phases


class RandomFeaturePolicy(LinearPolicy):
    """One ridge regression per arm on random Fourier features.

    The first contexts are kept with their rewards. When there are enough, they determine the length scale,
    and the regressions are fitted to them again.
    """

    arms_are_independent = False

    def __init__(
        self,
        arms: int | Sequence[Arm],
        features: int,
        *,
        rewards: Rewards = "binary",
        seed: int = 0,
        ridge: float,
        half_life: int | None = None,
    ) -> None:
        super().__init__(arms, features, rewards=rewards, seed=seed, ridge=ridge, half_life=half_life)
        self._map = RandomFeatures(self.features, self.seed)
        self._first_contexts: Float32 = np.zeros((FIRST_CONTEXTS, self.features), np.float32)
        self._first_rewards: Float64 = np.zeros(FIRST_CONTEXTS)
        self._first_weights: Float64 = np.zeros((len(self.arms), FIRST_CONTEXTS))

    @property
    def _width(self) -> int:
        return COSINES + self.features + 1

    def _input(self, x: Float32) -> Float64:
        return self._map(x)

    def _learn(self, x: Float32, arm: int, reward: float) -> None:
        super()._learn(x, arm, reward)
        step = self.updates
        if step < FIRST_CONTEXTS:
            self._first_contexts[step] = x
            self._first_rewards[step] = self._scaled(reward)
            self._first_weights[arm, step] = 1
        if step == FIRST_CONTEXTS - 1:
            self._map.fit(self._first_contexts)
            self._fit_again(np.array([self._map(row) for row in self._first_contexts]))

    def _fit_again(self, inputs: Float64) -> None:
        """Fit the regression of each arm to its share of the first contexts."""
        for arm, weights in enumerate(self._first_weights):
            weighted = weights[:, None] * inputs
            self._inverses[arm] = np.linalg.inv(weighted.T @ inputs + self.ridge * np.eye(self._width))
            self._moments[arm] = self._first_rewards @ weighted
            self._weights[arm] = self._inverses[arm] @ self._moments[arm]

    def _contributions(self, x: Float32, baseline: Float32) -> tuple[Float64, Float64]:
        bases, _ = self._means_and_widths(self._input(baseline))
        gradients = self._weights @ self._map.slopes(x, baseline)
        return bases, (self._high - self._low) * gradients * (x.astype(np.float64) - baseline)

    def _forget(self, arms: slice | None = None) -> None:
        super()._forget(arms)
        self._first_weights[arms or slice(None)] /= 2

    def _reordered(self, sources: Int64) -> dict[str, Any]:
        weights = take_rows(self._first_weights, sources, 0)
        return {**super()._reordered(sources), "_first_weights": weights}

    def _snapshot(self) -> Arrays:
        return {
            **super()._snapshot(),
            "length_scale": self._map.length_scale,
            "first_contexts": self._first_contexts,
            "first_rewards": self._first_rewards,
            "first_weights": self._first_weights,
        }
