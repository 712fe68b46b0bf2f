"""The compiled inner loops of the bank. They call each other, so they share this file.

Memory. Rows are padded to whole vectors of ``LANES`` numbers; the padding is zero and stays zero. All
weights live in one flat pool, cut into cells. A cell belongs to one (unit, signature) and holds, one
after the other, the rows of every network, because a decision asks all networks about the same cell. A
row is the weights of the unit; in layers with adaptive rates, sums of squared gradients follow them.
``cell_at[unit, signature]`` is where its cell starts in the pool, or −1 as long as nobody learnt there.

Activations. One row per network: for each layer its bias input followed by the logits of its units,
padded. So the outputs of one layer are, as they lie there, the inputs of the next.

``layout`` has one row per layer with the columns named below.

Start. A network that starts ``from_zero`` has zero weights in its first layer, and an offset there in
their place, which follows how often its target was 1; ``tally`` has those two counts of every network.
Otherwise a cell in which nobody learnt answers with the mean of its inputs, and offsets are zero.
"""

import math

import numpy as np

from glcb._compile import kernel
from glcb._types import Float32, Int64

LANES = 8

SIZE, FAN_IN, STRIDE, ROW, FIRST_UNIT, SOURCE, TARGET = range(7)
"""Columns of ``layout``: units in the layer, inputs of each (bias included), the same padded, length of a
network's row in a cell, number of its first unit, where its inputs start in an activation row (−1: the
context), where its outputs do."""

ZERO, ONE = np.float32(0), np.float32(1)

FIRST_SQUARE = np.float32(0.01)
"""What sums of squared gradients start from, so that the first step is no leap."""

ONES, TARGETS = range(2)
"""Columns of ``tally``: how many targets of a network were 1, and how many there were."""


def padded(length: int) -> int:
    """Return ``length`` rounded up to whole vectors."""
    return -(-length // LANES) * LANES


@kernel
def signature_of(
    x: Float32, normals: Float32, thresholds: Float32, hyperplanes: Int64, signature: Int64
) -> None:
    """Write the signature of every unit: bit k is set where w_k·x > threshold_k."""
    width = normals.shape[1]
    point = np.zeros(width, np.float32)
    point[: x.size] = x
    plane = 0
    for unit in range(hyperplanes.size):
        bits = 0
        for k in range(hyperplanes[unit]):
            total = np.float32(0)
            for i in range(width):
                total += normals[plane, i] * point[i]
            if total > thresholds[plane]:
                bits |= 1 << k
            plane += 1
        signature[unit] = bits


@kernel
def signatures_of(
    contexts: Float32, normals: Float32, thresholds: Float32, hyperplanes: Int64, signatures: Int64
) -> None:
    """Write the signatures of many contexts, one row each."""
    for row in range(len(contexts)):
        signature_of(contexts[row], normals, thresholds, hyperplanes, signatures[row])


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
def base_inputs(x: Float32, layout: Int64, input_clip: float, bias: float) -> Float32:
    """Return z0 = [bias, logit(clip(x, ε, 1 − ε))], padded."""
    inputs = np.zeros(layout[0, STRIDE], np.float32)
    inputs[0] = bias
    low = np.float32(input_clip)
    high = np.float32(1 - input_clip)
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
    from_zero: bool,
    offsets: Float32,
    clip: float,
    input_clip: float,
    bias: float,
) -> Float32:
    """Return the activations of all networks: one pass over the units, all networks at each."""
    bound = np.float32(math.log((1 - clip) / clip))
    inputs = base_inputs(x, layout, input_clip, bias)
    activations = _open_activations(networks, layout, bias)
    unlearnt = np.empty(networks, np.float32)
    for layer in range(layout.shape[0]):
        stride = layout[layer, STRIDE]
        length = layout[layer, ROW]
        fan_in = layout[layer, FAN_IN]
        source = layout[layer, SOURCE]
        for n in range(networks):
            z = inputs if source < 0 else activations[n, source : source + stride]
            answer = offsets[n] if from_zero and source < 0 else _mean(z, fan_in)
            unlearnt[n] = _clamp(answer, bound)
        for j in range(layout[layer, SIZE]):
            unit = layout[layer, FIRST_UNIT] + j
            output = layout[layer, TARGET] + 1 + j
            start = cell_at[unit, signature[unit]]
            if start < 0:
                activations[:, output] = unlearnt
                continue
            for n in range(networks):
                row = weights[start + n * length : start + n * length + stride]
                z = inputs if source < 0 else activations[n, source : source + stride]
                lift = offsets[n] if source < 0 else ZERO
                activations[n, output] = _clamp(_dot(row, z) + lift, bound)
    return activations


@kernel
def predict(
    x: Float32,
    signature: Int64,
    layout: Int64,
    weights: Float32,
    cell_at: Int64,
    mixture: Float32,
    from_zero: bool,
    offsets: Float32,
    clip: float,
    input_clip: float,
    bias: float,
    probabilities: Float32,
) -> None:
    """Write the probability of every network: the units' probabilities, mixed by ``mixture``."""
    networks = probabilities.size
    activations = _activate(
        x, signature, layout, weights, cell_at, networks, from_zero, offsets, clip, input_clip, bias
    )
    for n in range(networks):
        total = np.float32(0)
        for layer in range(layout.shape[0]):
            first = layout[layer, FIRST_UNIT]
            output = layout[layer, TARGET] + 1
            for j in range(layout[layer, SIZE]):
                total += mixture[n, first + j] * _sigmoid(activations[n, output + j])
        probabilities[n] = total


@kernel
def predict_many(
    contexts: Float32,
    signatures: Int64,
    layout: Int64,
    weights: Float32,
    cell_at: Int64,
    mixture: Float32,
    from_zero: bool,
    offsets: Float32,
    clip: float,
    input_clip: float,
    bias: float,
    probabilities: Float32,
) -> None:
    """Write the probabilities for many contexts, one row each."""
    for row in range(len(contexts)):
        predict(
            contexts[row],
            signatures[row],
            layout,
            weights,
            cell_at,
            mixture,
            from_zero,
            offsets,
            clip,
            input_clip,
            bias,
            probabilities[row],
        )


@kernel
def _open_cell(cell: Float32, fan_in: int, zero: bool) -> None:
    """Give every network the initial weights; the padding is zero."""
    cell[:, :fan_in] = ZERO if zero else ONE / np.float32(fan_in)
    cell[:, fan_in:] = 0


@kernel
def _step_adaptively(
    row: Float32, squares: Float32, z: Float32, error: np.float32, rate: np.float32, limit: np.float32
) -> None:
    """Step along the inputs, each weight the less the larger its gradients were so far (AdaGrad)."""
    for i in range(row.size):
        gradient = error * z[i]
        squares[i] += gradient * gradient
        row[i] = _clamp(row[i] - rate * gradient / math.sqrt(squares[i] + FIRST_SQUARE), limit)


@kernel
def learn(
    inputs: Float32,
    signature: Int64,
    networks: Int64,
    targets: Float32,
    directions: Float32,
    direction_of: Int64,
    rates: Float32,
    switching_rate: float,
    layout: Int64,
    weights: Float32,
    used: int,
    cell_at: Int64,
    mixture: Float32,
    from_zero: bool,
    tally: Int64,
    offsets: Float32,
    clip: float,
    bias: float,
    box: float,
) -> int:
    """Teach ``networks`` their ``targets``; return how much of the pool is used afterwards.

    A unit of the first layer steps along the direction that ``direction_of`` names, those above along
    their inputs; each at its own rate. The pool must have room for one new cell per unit. A negative
    ``switching_rate`` leaves the mixture as it is. Every unit steps as soon as its own output is known:
    no other unit of this step reads the weights it changes.
    """
    slots, units = mixture.shape
    bound = np.float32(math.log((1 - clip) / clip))
    limit = np.float32(box)
    activations = _open_activations(networks.size, layout, bias)
    likelihoods = np.empty(units, np.float32)
    for k in range(networks.size):
        target = targets[k]
        for layer in range(layout.shape[0]):
            stride = layout[layer, STRIDE]
            length = layout[layer, ROW]
            source = layout[layer, SOURCE]
            z = inputs if source < 0 else activations[k, source : source + stride]
            lift = offsets[networks[k]] if source < 0 else ZERO
            for j in range(layout[layer, SIZE]):
                unit = layout[layer, FIRST_UNIT] + j
                start = cell_at[unit, signature[unit]]
                if start < 0:
                    start = used
                    cell_at[unit, signature[unit]] = start
                    used += slots * length
                    cell = weights[start:used].reshape(slots, length)
                    _open_cell(cell, layout[layer, FAN_IN], from_zero and source < 0)
                start += networks[k] * length
                row = weights[start : start + stride]
                logit = _clamp(_dot(row, z) + lift, bound)
                activations[k, layout[layer, TARGET] + 1 + j] = logit
                p = _sigmoid(logit)
                likelihoods[unit] = p if target > 0 else ONE - p
                if length > stride:
                    squares = weights[start + stride : start + length]
                    _step_adaptively(row, squares, z, p - target, rates[unit], limit)
                    continue
                step = rates[unit] * (p - target)
                way = directions[direction_of[unit]] if source < 0 else z
                for i in range(stride):
                    row[i] = _clamp(row[i] - step * way[i], limit)
        if switching_rate >= 0:
            _switch(mixture[networks[k]], likelihoods, switching_rate)
        if from_zero:
            tally[networks[k], ONES] += np.int64(target)
            tally[networks[k], TARGETS] += 1
            offsets[networks[k]] = _offset(tally[networks[k]], bound)
    return used


@kernel
def _offset(tally: Int64, bound: np.float32) -> np.float32:
    """Return half the logit of how often the target was 1, one target of each kind assumed beforehand.

    Half, because a new cell should lean towards what is usual and yet leave the unusual likely enough to
    be worth a try.
    """
    odds = (tally[ONES] + 1) / (tally[TARGETS] - tally[ONES] + 1)
    return _clamp(np.float32(math.log(odds)), bound) / np.float32(2)


@kernel
def offsets_of(tally: Int64, clip: float, offsets: Float32) -> None:
    """Write the offset of every network."""
    bound = np.float32(math.log((1 - clip) / clip))
    for n in range(offsets.size):
        offsets[n] = _offset(tally[n], bound)


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


@kernel
def rearranged(
    weights: Float32,
    starts: Int64,
    layer_of: Int64,
    layout: Int64,
    slots: int,
    sources: Int64,
    from_zero: bool,
    result: Float32,
) -> None:
    """Write all cells anew, row j of each being what row ``sources[j]`` was, or a new one for −1."""
    end = 0
    for c in range(starts.size):
        length = layout[layer_of[c], ROW]
        old = weights[starts[c] : starts[c] + slots * length].reshape(slots, length)
        new = result[end : end + sources.size * length].reshape(sources.size, length)
        _open_cell(new, layout[layer_of[c], FAN_IN], from_zero and layer_of[c] == 0)
        for j in range(sources.size):
            if sources[j] >= 0:
                new[j] = old[sources[j]]
        end += sources.size * length
