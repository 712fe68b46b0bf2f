"""How the neural policies train: 100 gradient steps on mini-batches, in one compiled call.

JAX and optax are optional and slow to load, so they are imported only when a network is made.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from glcb._arrays import State, fill
from glcb._errors import INSTALL_BASELINES, MissingExtra
from glcb.policies.neural.buffer import Buffer
from glcb.policies.neural.network import Array, Batch, Weights

GRADIENT_STEPS = 100
BATCH_SIZE = 512
LEARNING_RATE = 0.1
LEARNING_RATE_DECAY = 0.5
LARGEST_GRADIENT = 5.0

Optimizer = Any
"""A gradient transformation of optax."""

Noise = dict[str, Any]
"""Random numbers by name. They are drawn on the host, so that all of them follow from the policy's seed."""

Loss = Callable[[Weights, Batch, Array, Noise], Array]
"""Takes weights, a mini-batch, the number of points in the data, and the noise drawn for this step."""


def learning_rate(step: Array) -> Array:
    """Return the learning rate after ``step`` gradient steps since the very start.

    The library means to start it again at every training, but its optimizer never sees the new schedule;
    the paper's numbers depend on that.

    >>> learning_rate(0), learning_rate(2), learning_rate(198)
    (0.1, 0.05, 0.001)
    """
    return LEARNING_RATE / (1 + LEARNING_RATE_DECAY * step)


def rms_prop() -> Optimizer:
    """Return RMSProp as TensorFlow 1 has it: squares start at 1, epsilon inside the root."""
    import optax

    return optax.chain(
        optax.clip_by_global_norm(LARGEST_GRADIENT),
        optax.rmsprop(learning_rate, decay=0.9, eps=1e-10, initial_scale=1.0, eps_in_sqrt=True),
    )


def adam() -> Optimizer:
    """Return Adam with a constant learning rate, which is how the library trains variational networks."""
    import optax

    return optax.adam(LEARNING_RATE, b1=0.9, b2=0.999, eps=1e-8)


class Training(NamedTuple):
    """A way to train, compiled once for all networks that use it."""

    start: Callable[[Weights], Any]
    """Returns the memory of an optimizer that has seen nothing."""
    run: Callable[[Weights, Any, Batch, np.float32, Noise], tuple[Weights, Any]]
    """Takes weights, memory, a batch for each step, the number of points, noise for each step; trains."""


@cache
def training(loss: Loss, make_optimizer: Callable[[], Optimizer]) -> Training:
    """Return how to train on ``loss``."""
    try:
        import jax
        import optax
    except ImportError as error:
        raise MissingExtra(f"neural policies need JAX and optax: {INSTALL_BASELINES}") from error

    optimizer = optax.with_extra_args_support(make_optimizer())

    def run(
        weights: Weights, memory: Any, batches: Batch, points: Array, noise: Noise
    ) -> tuple[Weights, Any]:
        def step(carry: tuple[Weights, Any], inputs: tuple[Batch, Noise]) -> tuple[tuple[Weights, Any], None]:
            weights, memory = carry
            batch, own_noise = inputs
            gradient = jax.grad(loss)(weights, batch, points, own_noise)
            updates, memory = optimizer.update(gradient, memory, weights, points=points)
            return (optax.apply_updates(weights, updates), memory), None

        return jax.lax.scan(step, (weights, memory), (batches, noise))[0]

    return Training(optimizer.init, jax.jit(run))


class Network:
    """Weights, the data that they learn from, and the memory of their optimizer.

    All of it stays on the host as NumPy arrays, so that deciding needs no JAX.
    """

    def __init__(self, weights: Weights, data: Buffer, how: Training) -> None:
        self.weights = weights
        self.data = data
        self._how = how
        self._memory = _on_host(how.start(weights))

    def train(self, noise: Noise, rng: np.random.Generator) -> None:
        """Run the gradient steps of one training on mini-batches of all data."""
        batches = self.data.draw((GRADIENT_STEPS, BATCH_SIZE), rng)
        trained = self._how.run(self.weights, self._memory, batches, np.float32(len(self.data)), noise)
        self.weights, self._memory = _on_host(trained)

    def state(self) -> State:
        """Return everything as arrays."""
        return {**self.weights, **self._remembered(), **self.data.state()}

    def restore(self, state: State) -> None:
        """Take over what :meth:`state` returned; raise ValueError if it cannot be ours."""
        import jax

        # Copies, as what JAX hands out is read-only.
        own = {name: array.copy() for name, array in {**self.weights, **self._remembered()}.items()}
        fill(own, state)
        self.data.restore(state)
        self.weights = {name: own[name] for name in self.weights}
        leaves, structure = jax.tree.flatten(self._memory)
        kept = [
            own[name].astype(leaf.dtype).reshape(leaf.shape)
            for name, leaf in zip(self._remembered(), leaves, strict=True)
        ]
        self._memory = jax.tree.unflatten(structure, kept)

    def _remembered(self) -> State:
        """Return the optimizer's memory as files can hold it: step counters are arrays of one int64."""
        import jax

        return {
            f"optimizer_{i}": leaf.astype(np.int64).reshape(1) if leaf.dtype.kind == "i" else leaf
            for i, leaf in enumerate(jax.tree.leaves(self._memory))
        }


def _on_host(tree: Any) -> Any:
    import jax

    return jax.tree.map(np.asarray, tree)
