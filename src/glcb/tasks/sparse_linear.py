"""A synthetic task whose rewards are linear in a few features of the context."""

from typing import ClassVar

import numpy as np

from glcb._types import Float64
from glcb.tasks.linear import Linear
from glcb.tasks.registry import register


@register
class SparseLinear(Linear):
    """As the linear task, but each arm pays for three of the ten features only."""

    name = "sparse-linear"
    arms = tuple(range(7))
    relevant: ClassVar[int] = 3

    def _weights(self, rng: np.random.Generator) -> Float64:
        weights = super()._weights(rng)
        order = rng.permuted(np.tile(np.arange(self.features)[:, None], len(self.arms)), axis=0)
        return np.where(order < self.relevant, weights, 0.0)
