"""Black-box α-divergence: a variational neural network (Hernández-Lobato and others 2016)."""

import math

import numpy as np

from glcb.policies.neural import network
from glcb.policies.neural.network import Array, Batch, Weights
from glcb.policies.neural.training import GRADIENT_STEPS, Noise
from glcb.policies.neural.variational import INITIAL_LOG_DEVIATION, OBSERVATION_NOISE, VariationalPolicy
from glcb.policies.registry import register

DRAWS = 10
PRIOR_VARIANCE = 0.1
_LAYERS = ("inner", "inner_bias", "outer", "outer_bias")


@register("bbalphadiv", source="Hernández-Lobato and others 2016, as in Riquelme, Tucker, Snoek 2018")
class BBAlphaDiv(VariationalPolicy):
    """Plays by a network drawn from a distribution that is trained on an α-divergence, α = 1.

    Weights and biases have a distribution, and so has the noise of each arm's rewards. The loss is the
    energy of Hernández-Lobato and others.
    """

    def _untrained(self) -> Weights:
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
        log_noise = math.log(OBSERVATION_NOISE) + network.played(batch, table)
        networks = {name: drawn[name] for name in _LAYERS}
        predicted = jax.vmap(lambda one: network.played(batch, network.values(one, batch.contexts)))(networks)
        errors = (batch.rewards - predicted) / jnp.exp(log_noise)
        likelihoods = -(errors**2) / 2 - log_noise - math.log(2 * math.pi) / 2
        factors = sum(_log_factors(weights, name, drawn[name]) for name in _LAYERS) / points
        ratios = jax.nn.logsumexp(likelihoods - _mixed_up(factors, len(batch.arms)), axis=0)
        return -sum(_log_partition(weights, name) for name in _LAYERS) - points * ratios.mean()


def _mixed_up(factors: Array, rows: int) -> Array:
    """Return the factor that each draw's likelihood is divided by, for each row of the batch.

    It ought to be the draw's own. The library fills the table along the rows instead of the columns and
    so mixes them up; the paper's numbers were made that way.
    """
    import jax.numpy as jnp

    return jnp.tile(factors, rows).reshape(DRAWS, rows)


def _log_factors(weights: Weights, name: str, drawn: Array) -> Array:
    """Return, for each draw, n times the log of the factor that one of n data points has."""
    import jax.numpy as jnp

    precisions = jnp.exp(-2 * weights[f"log_{name}"])
    terms = drawn * weights[name] * precisions + drawn**2 / 2 * (1 / PRIOR_VARIANCE - precisions)
    return terms.reshape(DRAWS, -1).sum(axis=1)


def _log_partition(weights: Weights, name: str) -> Array:
    """Return the log of the normalizer of the distribution, without its constant."""
    import jax.numpy as jnp

    log_deviations = weights[f"log_{name}"]
    return (weights[name] ** 2 * jnp.exp(-2 * log_deviations) / 2 + log_deviations).sum()
