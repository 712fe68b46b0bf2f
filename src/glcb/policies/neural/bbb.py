"""Bayes by Backprop: a variational neural network (Blundell, Cornebise, Kavukcuoglu, Wierstra 2015)."""

import math

import numpy as np

from glcb.policies.buffer import Batch
from glcb.policies.neural import network
from glcb.policies.neural.network import Array, Weights
from glcb.policies.neural.training import BATCH_SIZE, GRADIENT_STEPS, Noise
from glcb.policies.neural.variational import INITIAL_LOG_DEVIATION, OBSERVATION_NOISE, VariationalPolicy
from glcb.policies.registry import register


@register("bbb", source="Blundell, Cornebise, Kavukcuoglu, Wierstra 2015, as in Riquelme, Tucker, Snoek 2018")
class BBB(VariationalPolicy):
    """Chooses with a network drawn from a distribution that is trained on the evidence lower bound.

    The weights have a distribution; the biases are deterministic. The prior of a layer's weights is
    N(0, 2 / number of inputs). The loss draws the inputs of each unit for each row instead of the weights
    (local reparameterization). A decision draws the weights.

    Parameters
    ----------
    arms, features, rewards, seed
        See :class:`~glcb.policies.base.Policy`.

    References
    ----------
    Blundell, Cornebise, Kavukcuoglu, Wierstra: Weight uncertainty in neural networks. ICML, 2015.
    """

    def _initial_weights(self) -> Weights:
        means = {
            name: self._normal(shape) for name, shape in network.shapes(self.features, len(self.arms)).items()
        }
        deviations = {
            f"log_{name}": self._normal(means[name].shape, INITIAL_LOG_DEVIATION)
            for name in ("inner", "outer")
        }
        return means | deviations

    def _training_noise(self, rng: np.random.Generator) -> Noise:
        return {
            layer: rng.standard_normal((GRADIENT_STEPS, BATCH_SIZE, units), np.float32)
            for layer, units in (("inner", network.HIDDEN), ("outer", len(self.arms)))
        }

    @staticmethod
    def _loss(weights: Weights, batch: Batch, points: Array, noise: Noise) -> Array:
        activations = network.rectified(_drawn_inputs(weights, "inner", batch.contexts, noise))
        predicted = _drawn_inputs(weights, "outer", activations, noise)
        error = network.mean_squared_error(predicted, batch) / (2 * OBSERVATION_NOISE**2)
        return error + (_divergence(weights, "inner") + _divergence(weights, "outer")) / points


def _drawn_inputs(weights: Weights, layer: str, inputs: Array, noise: Noise) -> Array:
    """Return the inputs of each unit of a layer, drawn separately for each row."""
    import jax.numpy as jnp

    means = inputs @ weights[layer] + weights[f"{layer}_bias"]
    variances = inputs**2 @ jnp.exp(2 * weights[f"log_{layer}"])
    return means + jnp.sqrt(variances + 1e-6) * noise[layer]


def _divergence(weights: Weights, layer: str) -> Array:
    """Return KL(distribution of the weights ‖ prior) of one layer."""
    import jax.numpy as jnp

    means, log_deviations = weights[layer], weights[f"log_{layer}"]
    prior = 2 / means.shape[0]
    variances = jnp.exp(2 * log_deviations)
    return ((means**2 + variances) / prior - 1 - 2 * log_deviations + math.log(prior)).sum() / 2
