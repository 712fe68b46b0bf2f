"""Thompson sampling by dropout (Gal, Ghahramani 2016)."""

import numpy as np
from numpy.typing import NDArray

from glcb._arrays import Float32
from glcb.policies.buffer import Batch
from glcb.policies.neural import network
from glcb.policies.neural.base import NeuralPolicy
from glcb.policies.neural.network import Array, Weights
from glcb.policies.neural.training import BATCH_SIZE, GRADIENT_STEPS, Noise
from glcb.policies.registry import register

KEEP = 0.8


@register("dropout", source="Gal, Ghahramani 2016, as in Riquelme, Tucker, Snoek 2018")
class Dropout(NeuralPolicy):
    """Drops a random fifth of the hidden units, in training and in decisions, and chooses the best arm.

    Parameters
    ----------
    arms, features, rewards, seed
        See :class:`~glcb.policies.base.Policy`.

    References
    ----------
    Gal, Ghahramani: Dropout as a Bayesian approximation. ICML, 2016.
    """

    is_randomized = True

    def _training_noise(self, rng: np.random.Generator) -> Noise:
        return {"kept": _kept((GRADIENT_STEPS, BATCH_SIZE, network.HIDDEN), rng)}

    @staticmethod
    def _loss(weights: Weights, batch: Batch, points: Array, noise: Noise) -> Array:
        activations = network.hidden(weights, batch.contexts) * noise["kept"] / KEEP
        return network.mean_squared_error(network.outputs(weights, activations), batch)

    def _predict(self, x: Float32) -> tuple[Float32, Float32]:
        weights = self._networks[0].weights
        activations = network.hidden(weights, x)
        thinned = activations * _kept(activations.shape, self._rng) / KEEP
        return network.outputs(weights, activations), network.outputs(weights, thinned)


def _kept(shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw which units are kept."""
    return rng.random(shape, np.float32) < KEEP
