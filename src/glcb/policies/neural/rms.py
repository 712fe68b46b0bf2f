"""Greedy on a neural network trained by RMSProp (Riquelme, Tucker, Snoek 2018)."""

from glcb._arrays import Float32
from glcb.policies.neural import network
from glcb.policies.neural.base import NeuralPolicy
from glcb.policies.registry import register


@register("rms", source="Riquelme, Tucker, Snoek 2018")
class RMS(NeuralPolicy):
    """Chooses the arm with the best value in a neural network, without any exploration.

    The GLCB paper calls it ε-greedy, but the library that the authors used has no ε.

    Parameters
    ----------
    arms, features, rewards, seed
        See :class:`~glcb.policies.base.Policy`.

    References
    ----------
    Riquelme, Tucker, Snoek: Deep Bayesian bandits showdown. ICLR, 2018.
    """

    def _predict(self, x: Float32) -> tuple[Float32, Float32]:
        values = network.values(self._networks[0].weights, x)
        return values, values
