"""The compiled way from a context to the probability of every network."""

import math

import numpy as np

from glcb._numba.cell_index import entries
from glcb._numba.compile import kernel
from glcb._numba.prefetch import prefetch
from glcb._types import Float32, Int64
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
    open_activations,
    rows_of,
)

CACHED = 1 << 21
"""A pool of no more numbers than this is taken to be in the caches."""
PORTION = 384
"""So many numbers are asked for at a time, if rows are shorter than that."""


@kernel
def write_inputs(x: Float32, lowest: float, bias: float, inputs: Float32) -> None:
    """Write z0 = [bias, logit(clip(x, ε, 1 − ε))]; ε is ``lowest``. Padding stays as it is."""
    inputs[0] = bias
    low = np.float32(lowest)
    high = np.float32(1 - lowest)
    for i in range(x.size):
        p = min(max(x[i], low), high)
        inputs[i + 1] = math.log(p / (ONE - p))


@kernel
def _activate_first(inputs: Float32, places: Int64, memory: BankArrays, activations: Float32) -> None:
    """Write the outputs of the first layer, whose inputs are the same for all networks.

    Cells lie anywhere in memory. So while the products of one are added up, the next one is on its way. A
    small pool is in the caches anyway.
    """
    layer, offsets, bound = memory.layout[0], memory.offsets, np.float32(memory.bound)
    networks, length = offsets.size, layer[ROW]
    usual = ZERO if memory.from_zero else mean(inputs, layer[FAN_IN])
    far = memory.used[0] > CACHED
    portion = max(PORTION // length, 1)
    for j in range(layer[SIZE]):
        output = layer[TARGET] + 1 + j
        if places[j] < 0:
            for n in range(networks):
                activations[n, output] = clamp(usual + offsets[n], bound)
            continue
        following = places[min(j + 1, places.size - 1)]
        rows = rows_of(memory.weights, places[j], networks, length)
        for n in range(networks):
            if far and following >= 0 and n % portion == 0:
                prefetch(memory.weights, following + n * length, portion * length)
            activations[n, output] = clamp(dot(rows[n], inputs) + offsets[n], bound)


@kernel
def _activate_next(places: Int64, layer: Int64, memory: BankArrays, activations: Float32) -> None:
    """Write the outputs of a layer above the first, where every network has inputs of its own."""
    bound = np.float32(memory.bound)
    networks = len(activations)
    stride, source = layer[STRIDE], layer[SOURCE]
    usual = np.empty(networks, np.float32)
    for n in range(networks):
        inputs = activations[n, source : source + stride]
        usual[n] = clamp(mean(inputs, layer[FAN_IN]), bound)
    for j in range(layer[SIZE]):
        output = layer[TARGET] + 1 + j
        start = places[layer[FIRST_UNIT] + j]
        if start < 0:
            for n in range(networks):
                activations[n, output] = usual[n]
            continue
        rows = rows_of(memory.weights, start, networks, layer[ROW])
        for n in range(networks):
            inputs = activations[n, source : source + stride]
            activations[n, output] = clamp(dot(rows[n, :stride], inputs), bound)


@kernel
def predict(inputs: Float32, signature: Int64, memory: BankArrays, probabilities: Float32) -> None:
    """Write the probability of every network: one pass over the units, all networks at each, then mixed."""
    layout, mixture = memory.layout, memory.mixture
    activations = open_activations(probabilities.size, layout, memory.bias)
    places = entries(memory.cell_at, signature)
    _activate_first(inputs, places, memory, activations)
    for layer in range(1, layout.shape[0]):
        _activate_next(places, layout[layer], memory, activations)
    # One long loop, biases and padding included: it vectorizes, however small the layers are.
    flat = activations.ravel()
    for i in range(flat.size):
        flat[i] = sigmoid(flat[i])
    for n in range(probabilities.size):
        total = ZERO
        for layer in range(layout.shape[0]):
            first, output, size = layout[layer, FIRST_UNIT], layout[layer, TARGET] + 1, layout[layer, SIZE]
            total += dot(mixture[n, first : first + size], activations[n, output : output + size])
        probabilities[n] = total
