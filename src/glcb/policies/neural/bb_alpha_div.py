"""Black-box α-divergence: a variational neural network (Hernández-Lobato et al. 2016)."""

import math

import numpy as np

from glcb.policies.buffer import Batch
from glcb.policies.neural import network
from glcb.policies.neural.network import Array, Weights
from glcb.policies.neural.training import GRADIENT_STEPS, Noise
from glcb.policies.neural.variational import INITIAL_LOG_DEVIATION, OBSERVATION_NOISE, VariationalPolicy
from glcb.policies.registry import register

DRAWS = 10
PRIOR_VARIANCE = 0.1
_LAYERS = ("inner", "inner_bias", "outer", "outer_bias")


@register("bbalphadiv", source="Hernández-Lobato et al. 2016, as in Riquelme, Tucker, Snoek 2018")
class BBAlphaDiv(VariationalPolicy):
    """Chooses with a network drawn from a distribution that is trained on an α-divergence, α = 1.

    Weights, biases and the noise of each arm's rewards have a distribution. The loss is the energy of
    Hernández-Lobato et al.

    Parameters
    ----------
    arms, features, rewards, seed
        See :class:`~glcb.policies.base.Policy`.

    References
    ----------
    Hernández-Lobato et al.: Black-box α-divergence minimization. ICML, 2016.
    """

    def _initial_weights(self) -> Weights:
        sizes = network.shapes(self.features, len(self.arms)) | {"noise": (len(self.arms),)}
        means = {name: self._normal(shape) for name, shape in sizes.items()}
        deviations = {
            f"log_{name}": self._normal(shape, INITIAL_LOG_DEVIATION) for name, shape in sizes.items()
        }
        return means | deviations

    def _training_noise(self, rng: np.random.Generator) -> Noise:
        sizes = {
            name: (DRAWS, *shape) for name, shape in network.shapes(self.features, len(self.arms)).items()
        }
        sizes["noise"] = (len(self.arms),)  # shared by all draws of a step
        return {
            name: rng.standard_normal((GRADIENT_STEPS, *size), np.float32) for name, size in sizes.items()
        }

    @staticmethod
    def _loss(weights: Weights, batch: Batch, points: Array, noise: Noise) -> Array:
        import jax
        import jax.numpy as jnp

        drawn = {name: weights[name] + jnp.exp(weights[f"log_{name}"]) * noise[name] for name in noise}
        table = jnp.broadcast_to(drawn["noise"], (len(batch.arms), len(drawn["noise"])))
        log_noise = math.log(OBSERVATION_NOISE) + network.of_chosen_arms(batch, table)
        networks = {name: drawn[name] for name in _LAYERS}
        predicted = jax.vmap(lambda one: network.of_chosen_arms(batch, network.values(one, batch.contexts)))(
            networks
        )
        errors = (batch.rewards - predicted) / jnp.exp(log_noise)
        likelihoods = -(errors**2) / 2 - log_noise - math.log(2 * math.pi) / 2
        factors = sum(_log_factors(weights, name, drawn[name]) for name in _LAYERS) / points
        ratios = jax.nn.logsumexp(likelihoods - _factor_table(factors, len(batch.arms)), axis=0)
        return -sum(_log_partition(weights, name) for name in _LAYERS) - points * ratios.mean()


def _factor_table(factors: Array, rows: int) -> Array:
    """Return the factor that divides the likelihood of each draw, for each row of the batch.

    It should be the draw's own factor. The library fills the table by rows instead of by columns, which
    assigns the factors of other draws. The results in the paper depend on it.
    """
    import jax.numpy as jnp

    return jnp.tile(factors, rows).reshape(DRAWS, rows)


def _log_factors(weights: Weights, name: str, drawn: Array) -> Array:
    """Return, for each draw, n times the log of the factor of one of n data points."""
    import jax.numpy as jnp

    precisions = jnp.exp(-2 * weights[f"log_{name}"])
    terms = drawn * weights[name] * precisions + drawn**2 / 2 * (1 / PRIOR_VARIANCE - precisions)
    return terms.reshape(DRAWS, -1).sum(axis=1)


def _log_partition(weights: Weights, name: str) -> Array:
    """Return the log of the normalizer of the distribution, without its constant."""
    import jax.numpy as jnp

    log_deviations = weights[f"log_{name}"]
    return (weights[name] ** 2 * jnp.exp(-2 * log_deviations) / 2 + log_deviations).sum()
