"""Synthetic tasks with rewards that are linear in the context."""

from typing import ClassVar

import numpy as np

from glcb._arrays import Float64
from glcb._types import Rewards
from glcb.tasks.base import STEPS, Stream, min_max, stream_generators
from glcb.tasks.registry import register


def unit_columns(weights: Float64) -> Float64:
    """Scale every column to length 1."""
    lengths: Float64 = np.linalg.norm(weights, axis=0)
    return weights / lengths


def linear_rewards(contexts: Float64, weights: Float64, rng: np.random.Generator) -> Float64:
    """Return contexts · weights plus normal noise; the standard deviation of arm j is 0.01 (j + 1)."""
    noise = 0.01 * np.arange(1, weights.shape[1] + 1)
    return contexts @ weights + rng.normal(0.0, noise, (len(contexts), weights.shape[1]))


@register
class Linear:
    """Each arm pays a weighted sum of ten normal features plus noise that grows from arm to arm.

    The weights have length 1 and differ between seeds. The whole table of rewards is scaled to [0, 1].
    """

    name = "linear"
    arms = tuple(range(8))
    features = 10
    rewards: Rewards = (0.0, 1.0)

    def stream(self, seed: int, steps: int = STEPS) -> Stream:
        """Return the stream of ``seed``."""
        context_rng, weight_rng, noise_rng = stream_generators(seed, steps, 3)
        contexts = context_rng.normal(size=(steps, self.features))
        table = linear_rewards(contexts, unit_columns(self._weights(weight_rng)), noise_rng)
        low, high = table.min(), table.max()
        return Stream(min_max(contexts), (table - low) / (high - low))

    def _weights(self, rng: np.random.Generator) -> Float64:
        return rng.uniform(-1, 1, (self.features, len(self.arms)))


@register
class SparseLinear(Linear):
    """Like the linear task, but the reward of each arm depends on only three of the ten features."""

    name = "sparse-linear"
    arms = tuple(range(7))
    relevant: ClassVar[int] = 3

    def _weights(self, rng: np.random.Generator) -> Float64:
        weights = super()._weights(rng)
        order = rng.permuted(np.tile(np.arange(self.features)[:, None], len(self.arms)), axis=0)
        return np.where(order < self.relevant, weights, 0.0)
