"""The compiled inner loops of the bank. They call each other, so they share this file.

Memory. Rows are padded to whole vectors of ``LANES`` numbers; the padding is zero and stays zero. All
weights live in one flat pool, cut into cells. A cell belongs to one (unit, signature) and holds, one
after the other, the rows of every network, because a decision asks all networks about the same cell.
``cell_at[unit, signature]`` is where its cell starts in the pool, or −1 as long as nobody learnt there.

Activations. One row per network: for each layer its bias input followed by the logits of its units,
padded. So the outputs of one layer are, as they lie there, the inputs of the next.

``layout`` has one row per layer with the columns named below.
"""

import math

import numpy as np

from glcb._compile import kernel
from glcb._types import Float32, Int64

LANES = 8

SIZE, FAN_IN, STRIDE, FIRST_UNIT, SOURCE, TARGET = range(6)
"""Columns of ``layout``: units in the layer, inputs of each (bias included), the same padded, number of
its first unit, where its inputs start in an activation row (−1: the context), where its outputs do."""

ONE = np.float32(1)


def padded(length: int) -> int:
    """Return ``length`` rounded up to whole vectors."""
    return -(-length // LANES) * LANES


@kernel
def signature_of(x: Float32, normals: Float32, thresholds: Float32, signature: Int64) -> None:
    """Write the signature of every unit: bit k is set where w_k·x > threshold_k."""
    units, hyperplanes, width = normals.shape
    point = np.zeros(width, np.float32)
    point[: x.size] = x
    for unit in range(units):
        bits = 0
        for k in range(hyperplanes):
            total = np.float32(0)
            for i in range(width):
                total += normals[unit, k, i] * point[i]
            if total > thresholds[unit, k]:
                bits |= 1 << k
        signature[unit] = bits


@kernel
def _sigmoid(logit: np.float32) -> np.float32:
    return ONE / (ONE + math.exp(-logit))


@kernel
def _clamp(value: np.float32, bound: np.float32) -> np.float32:
    return min(max(value, -bound), bound)


@kernel
def _dot(a: Float32, b: Float32) -> np.float32:
    total = np.float32(0)
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@kernel
def _mean(a: Float32, count: int) -> np.float32:
    total = np.float32(0)
    for i in range(a.size):
        total += a[i]
    return total / np.float32(count)


@kernel
def _base_inputs(x: Float32, layout: Int64, clip: float, bias: float) -> Float32:
    """Return z0 = [bias, logit(clip(x, ε, 1 − ε))], padded."""
    inputs = np.zeros(layout[0, STRIDE], np.float32)
    inputs[0] = bias
    low = np.float32(clip)
    high = np.float32(1 - clip)
    for i in range(x.size):
        p = min(max(x[i], low), high)
        inputs[i + 1] = math.log(p / (ONE - p))
    return inputs


@kernel
def _open_activations(networks: int, layout: Int64, bias: float) -> Float32:
    """Return activations with the bias inputs set and everything else zero."""
    last = layout.shape[0] - 1
    activations = np.zeros((networks, layout[last, TARGET] + 1 + layout[last, SIZE]), np.float32)
    for n in range(networks):
        for layer in range(layout.shape[0]):
            activations[n, layout[layer, TARGET]] = bias
    return activations


@kernel
def _activate(
    x: Float32,
    signature: Int64,
    layout: Int64,
    weights: Float32,
    cell_at: Int64,
    networks: int,
    clip: float,
    bias: float,
) -> Float32:
    """Return the activations of all networks: one pass over the units, all networks at each."""
    bound = np.float32(math.log((1 - clip) / clip))
    inputs = _base_inputs(x, layout, clip, bias)
    activations = _open_activations(networks, layout, bias)
    unlearnt = np.empty(networks, np.float32)
    for layer in range(layout.shape[0]):
        stride = layout[layer, STRIDE]
        fan_in = layout[layer, FAN_IN]
        source = layout[layer, SOURCE]
        # What a cell answers that nobody has learnt in: the plain mean of its inputs.
        for n in range(networks):
            z = inputs if source < 0 else activations[n, source : source + stride]
            unlearnt[n] = _clamp(_mean(z, fan_in), bound)
        for j in range(layout[layer, SIZE]):
            unit = layout[layer, FIRST_UNIT] + j
            output = layout[layer, TARGET] + 1 + j
            start = cell_at[unit, signature[unit]]
            if start < 0:
                activations[:, output] = unlearnt
                continue
            cell = weights[start : start + networks * stride].reshape(networks, stride)
            for n in range(networks):
                z = inputs if source < 0 else activations[n, source : source + stride]
                activations[n, output] = _clamp(_dot(cell[n], z), bound)
    return activations


@kernel
def predict(
    x: Float32,
    signature: Int64,
    layout: Int64,
    weights: Float32,
    cell_at: Int64,
    mixture: Float32,
    clip: float,
    bias: float,
    probabilities: Float32,
) -> None:
    """Write the probability of every network: the units' probabilities, mixed by ``mixture``."""
    activations = _activate(x, signature, layout, weights, cell_at, probabilities.size, clip, bias)
    for n in range(probabilities.size):
        total = np.float32(0)
        for layer in range(layout.shape[0]):
            first = layout[layer, FIRST_UNIT]
            output = layout[layer, TARGET] + 1
            for j in range(layout[layer, SIZE]):
                total += mixture[n, first + j] * _sigmoid(activations[n, output + j])
        probabilities[n] = total


@kernel
def _open_cell(cell: Float32, fan_in: int) -> None:
    """Give every network the initial weights; the padding is zero."""
    cell[:, :fan_in] = ONE / np.float32(fan_in)
    cell[:, fan_in:] = 0


@kernel
def learn(
    x: Float32,
    signature: Int64,
    networks: Int64,
    targets: Float32,
    learning_rate: float,
    switching_rate: float,
    layout: Int64,
    weights: Float32,
    used: int,
    cell_at: Int64,
    mixture: Float32,
    clip: float,
    bias: float,
    box: float,
) -> int:
    """Teach ``networks`` their ``targets``; return how much of the pool is used afterwards.

    The pool must have room for one new cell per unit. A negative ``switching_rate`` leaves the mixture
    as it is. Every unit steps as soon as its own output is known: no other unit of this step reads the
    weights it changes.
    """
    slots, units = mixture.shape
    bound = np.float32(math.log((1 - clip) / clip))
    limit = np.float32(box)
    inputs = _base_inputs(x, layout, clip, bias)
    activations = _open_activations(networks.size, layout, bias)
    likelihoods = np.empty(units, np.float32)
    for k in range(networks.size):
        target = targets[k]
        for layer in range(layout.shape[0]):
            stride = layout[layer, STRIDE]
            source = layout[layer, SOURCE]
            z = inputs if source < 0 else activations[k, source : source + stride]
            for j in range(layout[layer, SIZE]):
                unit = layout[layer, FIRST_UNIT] + j
                start = cell_at[unit, signature[unit]]
                if start < 0:
                    start = used
                    cell_at[unit, signature[unit]] = start
                    used += slots * stride
                    _open_cell(weights[start:used].reshape(slots, stride), layout[layer, FAN_IN])
                row = weights[start + networks[k] * stride : start + (networks[k] + 1) * stride]
                logit = _clamp(_dot(row, z), bound)
                activations[k, layout[layer, TARGET] + 1 + j] = logit
                p = _sigmoid(logit)
                likelihoods[unit] = p if target > 0 else ONE - p
                step = np.float32(learning_rate) * (p - target)
                for i in range(stride):
                    row[i] = _clamp(row[i] - step * z[i], limit)
        if switching_rate >= 0:
            _switch(mixture[networks[k]], likelihoods, switching_rate)
    return used


@kernel
def _switch(shares: Float32, likelihoods: Float32, rate: float) -> None:
    """Fixed share: weigh every unit by its likelihood, then give a part of all back to everyone."""
    total = np.float32(0)
    for unit in range(shares.size):
        shares[unit] *= likelihoods[unit]
        total += shares[unit]
    keep = np.float32((1 - rate) / total)
    gift = np.float32(rate / shares.size)
    for unit in range(shares.size):
        shares[unit] = shares[unit] * keep + gift
