"""Greedy on a neural network trained by RMSProp (Riquelme, Tucker, Snoek 2018)."""

from glcb._types import Float32
from glcb.policies.neural import network
from glcb.policies.neural.base import NeuralPolicy
from glcb.policies.registry import register


@register("rms", source="Riquelme, Tucker, Snoek 2018")
class RMS(NeuralPolicy):
    """Plays the arm that the network values most; it explores only through the mistakes of the network.

    The GLCB paper calls it ε-greedy, but the library that it ran has no ε.
    """

    def _predict(self, x: Float32) -> tuple[Float32, Float32]:
        values = network.values(self._networks[0].weights, x)
        return values, values
