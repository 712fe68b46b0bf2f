"""The network of the neural policies: one hidden layer of rectified units, one output per arm.

The functions here run on NumPy arrays, to decide, and inside JAX, to train: the network exists once.
"""

from typing import Any, NamedTuple

import numpy as np

Array = Any
"""An array of NumPy, or one of JAX."""

Weights = dict[str, Any]
"""The arrays of a network by name; of NumPy or of JAX."""

HIDDEN = 50
INITIAL_RANGE = 0.3


class Batch(NamedTuple):
    """Some of the data: a row of each per reward."""

    contexts: Array
    arms: Array
    rewards: Array


def shapes(features: int, arms: int) -> dict[str, tuple[int, ...]]:
    """Return the shape of each array of a network."""
    return {
        "inner": (features, HIDDEN),
        "inner_bias": (HIDDEN,),
        "outer": (HIDDEN, arms),
        "outer_bias": (arms,),
    }


def uniform_weights(features: int, arms: int, rng: np.random.Generator) -> Weights:
    """Return an untrained network: weights uniform in ±0.3, biases 0."""
    return {
        name: np.zeros(shape, np.float32)
        if name.endswith("bias")
        else rng.uniform(-INITIAL_RANGE, INITIAL_RANGE, shape).astype(np.float32)
        for name, shape in shapes(features, arms).items()
    }


def rectified(inputs: Array) -> Array:
    """Return the inputs, with 0 for the negative ones."""
    return inputs * (inputs > 0)


def hidden(weights: Weights, contexts: Array) -> Array:
    """Return what the hidden units say."""
    return rectified(contexts @ weights["inner"] + weights["inner_bias"])


def outputs(weights: Weights, activations: Array) -> Array:
    """Return the value of each arm, given what the hidden units say."""
    return activations @ weights["outer"] + weights["outer_bias"]


def values(weights: Weights, contexts: Array) -> Array:
    """Return the value of each arm."""
    return outputs(weights, hidden(weights, contexts))


def played(batch: Batch, table: Array) -> Array:
    """Return the entry of the played arm in each row of ``table``, which has one column per arm."""
    # A product instead of an index: its gradient is a product too, which is far faster than a scatter.
    return (table * (batch.arms[:, None] == np.arange(table.shape[1]))).sum(axis=1)


def mean_squared_error(predicted: Array, batch: Batch) -> Array:
    """Return the mean over the batch of the squared error on the played arm."""
    return ((played(batch, predicted) - batch.rewards) ** 2).mean()
