"""The base class of the variational networks: an independent normal distribution for every weight."""

from abc import abstractmethod

import numpy as np

from glcb._arrays import Float32
from glcb.policies.neural import network
from glcb.policies.neural.base import NeuralPolicy
from glcb.policies.neural.network import Weights
from glcb.policies.neural.training import Optimizer, adam

INITIAL_DEVIATION = 0.05
INITIAL_LOG_DEVIATION = -5.0
OBSERVATION_NOISE = 0.1


class VariationalPolicy(NeuralPolicy):
    """Draws a network from the learned distribution and chooses its best arm.

    An array ``log_a`` holds the log standard deviations of the means in array ``a``. Without it, the
    weights in ``a`` are deterministic.
    """

    is_randomized = True

    @staticmethod
    def _optimizer() -> Optimizer:
        return adam()

    @abstractmethod
    def _initial_weights(self) -> Weights: ...

    def _normal(self, shape: tuple[int, ...], center: float = 0.0) -> Float32:
        """Draw initial weights, N(center, 0.05²). Deviations start small, so that means are learned first."""
        return self._rng.normal(center, INITIAL_DEVIATION, shape).astype(np.float32)

    def _predict(self, x: Float32) -> tuple[Float32, Float32]:
        weights = self._networks[0].weights
        drawn: Weights = {
            name: weights[name]
            + np.exp(weights[f"log_{name}"]) * self._rng.standard_normal(shape, np.float32)
            if f"log_{name}" in weights
            else weights[name]
            for name, shape in network.shapes(self.features, len(self.arms)).items()
        }
        return network.values(weights, x), network.values(drawn, x)
