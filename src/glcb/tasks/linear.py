"""A synthetic task whose rewards are linear in the context."""

import numpy as np

from glcb._types import Float64, Rewards
from glcb.tasks.base import STEPS, Stream, begin, min_max
from glcb.tasks.registry import register


def unit_columns(weights: Float64) -> Float64:
    """Scale every column to length 1."""
    lengths: Float64 = np.linalg.norm(weights, axis=0)
    return weights / lengths


def linear_rewards(contexts: Float64, weights: Float64, rng: np.random.Generator) -> Float64:
    """Return contexts · weights with normal noise, of standard deviation 0.01, 0.02, … from arm to arm."""
    noise = 0.01 * np.arange(1, weights.shape[1] + 1)
    return contexts @ weights + rng.normal(0.0, noise, (len(contexts), weights.shape[1]))


@register
class Linear:
    """Every arm pays a weighted sum of ten normal features, plus noise that grows from arm to arm.

    Weights have length 1 and are new for every seed; the whole table of rewards is scaled to [0, 1].
    """

    name = "linear"
    arms = tuple(range(8))
    features = 10
    rewards: Rewards = (0.0, 1.0)

    def stream(self, seed: int, steps: int = STEPS) -> Stream:
        """Return the stream of ``seed``."""
        context_rng, weight_rng, noise_rng = begin(seed, steps, 3)
        contexts = context_rng.normal(size=(steps, self.features))
        table = linear_rewards(contexts, unit_columns(self._weights(weight_rng)), noise_rng)
        low, high = table.min(), table.max()
        return Stream(min_max(contexts), (table - low) / (high - low))

    def _weights(self, rng: np.random.Generator) -> Float64:
        return rng.uniform(-1, 1, (self.features, len(self.arms)))
