"""The network of the neural policies: one hidden layer of rectified units, one output per arm.

The functions run on NumPy arrays for decisions and on JAX arrays for training, so the network is defined
once.
"""

from typing import Any

import numpy as np

from glcb.policies.buffer import Batch

Array = Any
"""A NumPy or JAX array."""

Weights = dict[str, Any]
"""The arrays of a network by name."""

HIDDEN = 50
INITIAL_RANGE = 0.3


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
    """Return max(inputs, 0)."""
    return inputs * (inputs > 0)


def hidden(weights: Weights, contexts: Array) -> Array:
    """Return the activations of the hidden units."""
    return rectified(contexts @ weights["inner"] + weights["inner_bias"])


def outputs(weights: Weights, activations: Array) -> Array:
    """Return the value of each arm for the activations of the hidden units."""
    return activations @ weights["outer"] + weights["outer_bias"]


def values(weights: Weights, contexts: Array) -> Array:
    """Return the value of each arm."""
    return outputs(weights, hidden(weights, contexts))


def of_chosen_arms(batch: Batch, table: Array) -> Array:
    """Return the entry of the chosen arm in each row of ``table``, which has one column per arm."""
    # A product instead of an index: its gradient is a product too, which is much faster than a scatter.
    return (table * (batch.arms[:, None] == np.arange(table.shape[1]))).sum(axis=1)


def mean_squared_error(predicted: Array, batch: Batch) -> Array:
    """Return the mean over the batch of the squared error for the chosen arm."""
    return ((of_chosen_arms(batch, predicted) - batch.rewards) ** 2).mean()
