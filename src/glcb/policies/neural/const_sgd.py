"""Constant SGD, a reconstruction: stochastic gradient descent as a sampler (Mandt, Hoffman, Blei 2016).

The GLCB paper compares with an unpublished implementation. This one follows the preconditioned form of Mandt,
Hoffman and Blei, with the constants of ``VariationalSGD`` in TensorFlow Probability. It may differ from the
original.
"""

from typing import Any, NamedTuple

from glcb._arrays import Float32
from glcb.policies.neural import network
from glcb.policies.neural.base import NeuralPolicy
from glcb.policies.neural.training import Optimizer
from glcb.policies.registry import register

DECAY = 0.95
BURN_IN_STEPS = 25
BURN_IN_RATE = 1e-6
LARGEST_RATE = 0.01
"""The value, among 1, 0.1 and 0.01, whose rewards are closest to the paper's."""


@register("constsgd", source="reconstructed from Mandt, Hoffman, Blei 2016")
class ConstSGD(NeuralPolicy):
    """A reconstruction: greedy on a network whose gradient descent samples from the posterior.

    With n points and mini-batch gradient variance v, the step size of a weight is 2 / (n v). At this step
    size, the stationary distribution of the descent is as wide as the posterior.

    Parameters
    ----------
    arms, features, rewards, seed
        See :class:`~glcb.policies.base.Policy`.

    References
    ----------
    Mandt, Hoffman, Blei: A variational analysis of stochastic gradient algorithms. ICML, 2016.
    """

    @staticmethod
    def _optimizer() -> Optimizer:
        return _constant_sgd()

    def _predict(self, x: Float32) -> tuple[Float32, Float32]:
        values = network.values(self._networks[0].weights, x)
        return values, values


class _OptimizerState(NamedTuple):
    count: Any
    means: Any
    variances: Any


def _constant_sgd() -> Optimizer:
    """Return gradient descent with an adaptive step size per weight."""
    import jax
    import jax.numpy as jnp
    import optax

    def init(weights: Any) -> _OptimizerState:
        zeros = jax.tree.map(jnp.zeros_like, weights)
        return _OptimizerState(jnp.zeros([], jnp.int32), zeros, zeros)

    def update(
        gradient: Any, state: _OptimizerState, weights: Any, *, points: Any
    ) -> tuple[Any, _OptimizerState]:
        # The first gradient is the first mean. From then on, both moments are exponential averages.
        share = jnp.where(state.count == 0, 1.0, 1 - DECAY)
        deltas = jax.tree.map(lambda g, mean: g - mean, gradient, state.means)
        means = jax.tree.map(lambda mean, delta: mean + share * delta, state.means, deltas)
        variances = jax.tree.map(
            lambda v, delta: (1 - share) * (v + share * delta**2), state.variances, deltas
        )
        largest = jnp.where(state.count < BURN_IN_STEPS, BURN_IN_RATE, LARGEST_RATE)
        updates = jax.tree.map(
            lambda g, v: -jnp.minimum(largest, 2 / (points * jnp.maximum(v, 1e-12))) * g, gradient, variances
        )
        return updates, _OptimizerState(state.count + 1, means, variances)

    return optax.GradientTransformationExtraArgs(init, update)
