"""Training of the neural policies: 100 gradient steps on mini-batches, in one compiled call.

JAX and optax are optional and slow to import, so they are imported when the first network is created.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from glcb._arrays import Arrays, copy_into
from glcb.policies.buffer import Batch, Buffer
from glcb.policies.neural.network import Array, Weights

GRADIENT_STEPS = 100
BATCH_SIZE = 512
LEARNING_RATE = 0.1
LEARNING_RATE_DECAY = 0.5
LARGEST_GRADIENT = 5.0

Optimizer = Any
"""An optax gradient transformation."""

Noise = dict[str, Any]
"""Random numbers by name. They are drawn on the host, so that they depend only on the policy's seed."""

Loss = Callable[[Weights, Batch, Array, Noise], Array]
"""Takes the weights, a mini-batch, the number of points in the data, and the noise of this step."""


def learning_rate(step: Array) -> Array:
    """Return the learning rate after ``step`` gradient steps, counted over all trainings.

    The library intends to restart the schedule at every training, but its optimizer keeps the old schedule.
    The results in the paper depend on it.

    >>> learning_rate(0), learning_rate(2), learning_rate(198)
    (0.1, 0.05, 0.001)
    """
    return LEARNING_RATE / (1 + LEARNING_RATE_DECAY * step)


def rms_prop() -> Optimizer:
    """Return RMSProp as in TensorFlow 1: squares start at 1, epsilon is inside the root."""
    import optax

    return optax.chain(
        optax.clip_by_global_norm(LARGEST_GRADIENT),
        optax.rmsprop(learning_rate, decay=0.9, eps=1e-10, initial_scale=1.0, eps_in_sqrt=True),
    )


def adam() -> Optimizer:
    """Return Adam with a constant learning rate, as used by the library for variational networks."""
    import optax

    return optax.adam(LEARNING_RATE, b1=0.9, b2=0.999, eps=1e-8)


class Training(NamedTuple):
    """A compiled training, shared by all networks with the same loss and optimizer."""

    init: Callable[[Weights], Any]
    """Returns the initial state of the optimizer."""
    run: Callable[[Weights, Any, Batch, np.float32, Noise], tuple[Weights, Any]]
    """Takes weights, optimizer state, a batch per step, the number of points and noise per step."""


@cache
def compile_training(loss: Loss, make_optimizer: Callable[[], Optimizer]) -> Training:
    """Return the training that minimizes ``loss``."""
    import jax
    import optax

    optimizer = optax.with_extra_args_support(make_optimizer())

    def run(weights: Weights, state: Any, batches: Batch, points: Array, noise: Noise) -> tuple[Weights, Any]:
        def step(carry: tuple[Weights, Any], inputs: tuple[Batch, Noise]) -> tuple[tuple[Weights, Any], None]:
            weights, state = carry
            batch, step_noise = inputs
            gradient = jax.grad(loss)(weights, batch, points, step_noise)
            updates, state = optimizer.update(gradient, state, weights, points=points)
            return (optax.apply_updates(weights, updates), state), None

        (weights, state), _ = jax.lax.scan(step, (weights, state), (batches, noise))
        return weights, state

    return Training(optimizer.init, jax.jit(run))


class Network:
    """Weights, their training data and the state of their optimizer.

    Everything is kept on the host as NumPy arrays, so that decisions need no JAX.
    """

    def __init__(self, weights: Weights, data: Buffer, training: Training) -> None:
        self.weights = weights
        self.data = data
        self._training = training
        self._optimizer_state = _on_host(training.init(weights))

    def train(self, noise: Noise, rng: np.random.Generator, batch_size: int = BATCH_SIZE) -> None:
        """Run the gradient steps of one training on mini-batches of all data."""
        batches = self.data.draw((GRADIENT_STEPS, batch_size), rng)
        trained = self._training.run(
            self.weights, self._optimizer_state, batches, np.float32(len(self.data)), noise
        )
        self.weights, self._optimizer_state = _on_host(trained)

    def snapshot(self) -> Arrays:
        """Return weights, optimizer state and data as arrays."""
        return {**self.weights, **self._optimizer_arrays(), **self.data.snapshot()}

    def restore(self, arrays: Arrays) -> None:
        """Restore a snapshot; raise ValueError or KeyError if it is invalid."""
        import jax

        # Copies, because the arrays of JAX are read-only.
        own = {name: array.copy() for name, array in {**self.weights, **self._optimizer_arrays()}.items()}
        copy_into(own, arrays)
        self.data.restore(arrays)
        self.weights = {name: own[name] for name in self.weights}
        leaves, structure = jax.tree.flatten(self._optimizer_state)
        kept = [
            own[name].astype(leaf.dtype).reshape(leaf.shape)
            for name, leaf in zip(self._optimizer_arrays(), leaves, strict=True)
        ]
        self._optimizer_state = jax.tree.unflatten(structure, kept)

    def _optimizer_arrays(self) -> Arrays:
        """Return the optimizer state in the data types of model files: a step counter becomes one int64."""
        import jax

        return {
            f"optimizer_{i}": leaf.astype(np.int64).reshape(1) if leaf.dtype.kind == "i" else leaf
            for i, leaf in enumerate(jax.tree.leaves(self._optimizer_state))
        }


def _on_host(tree: Any) -> Any:
    import jax

    return jax.tree.map(np.asarray, tree)
