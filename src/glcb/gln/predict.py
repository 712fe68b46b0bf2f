"""Prediction: the kernels that compute the probability of every network for a context."""

import math

import numpy as np

from glcb._arrays import Float32, Int64
from glcb._numba.arrays import as_vector, new_vector
from glcb._numba.cell_index import lookup
from glcb._numba.compile import kernel
from glcb._numba.prefetch import prefetch
from glcb.gln.arithmetic import ONE, ZERO, clamp, dot, mean, sigmoid
from glcb.gln.layout import (
    FAN_IN,
    FIRST_UNIT,
    ROW,
    SIZE,
    SOURCE,
    STRIDE,
    TARGET,
    BankArrays,
    cell_rows,
    new_activations,
)

CACHED_ELEMENTS = 1 << 21
"""A pool of at most this many elements is assumed to fit in the CPU caches."""
PREFETCH_ELEMENTS = 384
"""Number of elements to prefetch at a time; at least one row."""


@kernel
def write_inputs(x: Float32, lowest: float, bias: float, inputs: Float32) -> None:
    """Write z0 = [bias, logit(clip(x, ε, 1 − ε))], where ε is ``lowest``. The padding is not touched."""
    inputs[0] = bias
    low = np.float32(lowest)
    high = np.float32(1 - lowest)
    for i in range(x.size):
        p = min(max(x[i], low), high)
        inputs[i + 1] = math.log(p / (ONE - p))


@kernel
def _activate_first_layer(
    inputs: Float32, positions: Int64, first: int, bank: BankArrays, activations: Float32
) -> None:
    """Write the outputs of the first layer, whose inputs are the same for all networks.

    Cells are scattered in memory, so the next cell is prefetched while the current one is computed. A small
    pool is in the CPU caches anyway.
    """
    layer, bound = bank.layout[0], np.float32(bank.bound)
    networks, length = len(activations), layer[ROW]
    offsets = bank.offsets[first : first + networks]
    untrained = ZERO if bank.from_zero else mean(inputs, layer[FAN_IN])
    large_pool = bank.used[0] > CACHED_ELEMENTS
    rows_per_prefetch = max(PREFETCH_ELEMENTS // length, 1)
    for j in range(layer[SIZE]):
        output = layer[TARGET] + 1 + j
        if positions[j] < 0:
            for n in range(networks):
                activations[n, output] = clamp(untrained + offsets[n], bound)
            continue
        next_cell = positions[min(j + 1, positions.size - 1)]
        rows = cell_rows(bank.weights, positions[j] + first * length, networks, length)
        for n in range(networks):
            if large_pool and next_cell >= 0 and n % rows_per_prefetch == 0:
                prefetch(bank.weights, next_cell + (first + n) * length, rows_per_prefetch * length)
            activations[n, output] = clamp(dot(rows[n], inputs) + offsets[n], bound)


@kernel
def activate_upper_layer(
    positions: Int64, layer: Int64, first: int, bank: BankArrays, activations: Float32
) -> None:
    """Write the outputs of a layer above the first, where each network has its own inputs."""
    bound = np.float32(bank.bound)
    networks = len(activations)
    stride, source = layer[STRIDE], layer[SOURCE]
    untrained = new_vector(np.float32, networks)
    for n in range(networks):
        inputs = activations[n, source : source + stride]
        untrained[n] = clamp(mean(inputs, layer[FAN_IN]), bound)
    for j in range(layer[SIZE]):
        output = layer[TARGET] + 1 + j
        start = positions[layer[FIRST_UNIT] + j]
        if start < 0:
            for n in range(networks):
                activations[n, output] = untrained[n]
            continue
        rows = cell_rows(bank.weights, start + first * layer[ROW], networks, layer[ROW])
        for n in range(networks):
            inputs = activations[n, source : source + stride]
            activations[n, output] = clamp(dot(rows[n, :stride], inputs), bound)


@kernel
def predict(inputs: Float32, signature: Int64, first: int, bank: BankArrays, probabilities: Float32) -> None:
    """Write the probabilities of consecutive networks, from number ``first`` on.

    All networks are evaluated unit by unit, then their units are mixed.
    """
    layout, mixture = bank.layout, bank.mixture
    activations = new_activations(probabilities.size, layout, bank.bias)
    positions = lookup(bank.cell_at, signature)
    _activate_first_layer(inputs, positions, first, bank, activations)
    for layer in range(1, layout.shape[0]):
        activate_upper_layer(positions, layout[layer], first, bank, activations)
    # One long loop over all elements, including biases and padding, vectorizes even for small layers.
    flat = as_vector(activations)
    for i in range(flat.size):
        flat[i] = sigmoid(flat[i])
    for n in range(probabilities.size):
        total = ZERO
        for layer in range(layout.shape[0]):
            unit, output, size = layout[layer, FIRST_UNIT], layout[layer, TARGET] + 1, layout[layer, SIZE]
            shares = mixture[first + n, unit : unit + size]
            total += dot(shares, activations[n, output : output + size])
        probabilities[n] = total
