"""Constant SGD, a reconstruction: stochastic gradient descent as a sampler (Mandt, Hoffman, Blei 2016).

The authors of the GLCB paper compare with an implementation that was never published. This one follows
the preconditioned form of Mandt, Hoffman and Blei, with the constants of ``VariationalSGD`` in
TensorFlow Probability; nothing shows that it is what they ran.
"""

from typing import Any, NamedTuple

from glcb._types import Float32
from glcb.policies.neural import network
from glcb.policies.neural.base import NeuralPolicy
from glcb.policies.neural.training import Optimizer
from glcb.policies.registry import register

DECAY = 0.95
BURN_IN_STEPS = 25
BURN_IN_RATE = 1e-6
LARGEST_RATE = 0.01
"""Of 1, 0.1 and 0.01 the one that comes closest to the rewards in the paper."""


@register("constsgd", source="reconstructed from Mandt, Hoffman, Blei 2016")
class ConstSGD(NeuralPolicy):
    """A reconstruction: greedy on a network whose noisy gradient descent passes for posterior samples.

    With n points and v the variance of a weight's mini-batch gradient, its step size is 2 / (n v), the
    one at which the descent wanders as widely as the posterior is.
    """

    @staticmethod
    def _optimizer() -> Optimizer:
        return _wandering_descent()

    def _predict(self, x: Float32) -> tuple[Float32, Float32]:
        values = network.values(self._networks[0].weights, x)
        return values, values


class _Memory(NamedTuple):
    count: Any
    means: Any
    variances: Any


def _wandering_descent() -> Optimizer:
    """Return gradient descent with a step size of its own for every weight."""
    import jax
    import jax.numpy as jnp
    import optax

    def start(weights: Any) -> _Memory:
        zeros = jax.tree.map(jnp.zeros_like, weights)
        return _Memory(jnp.zeros([], jnp.int32), zeros, zeros)

    def update(gradient: Any, memory: _Memory, weights: Any, *, points: Any) -> tuple[Any, _Memory]:
        # The first gradient is the first mean; then both moments forget exponentially.
        share = jnp.where(memory.count == 0, 1.0, 1 - DECAY)
        deltas = jax.tree.map(lambda g, mean: g - mean, gradient, memory.means)
        means = jax.tree.map(lambda mean, delta: mean + share * delta, memory.means, deltas)
        variances = jax.tree.map(
            lambda v, delta: (1 - share) * (v + share * delta**2), memory.variances, deltas
        )
        largest = jnp.where(memory.count < BURN_IN_STEPS, BURN_IN_RATE, LARGEST_RATE)
        updates = jax.tree.map(
            lambda g, v: -jnp.minimum(largest, 2 / (points * jnp.maximum(v, 1e-12))) * g, gradient, variances
        )
        return updates, _Memory(memory.count + 1, means, variances)

    return optax.GradientTransformationExtraArgs(start, update)
