"""The compiled inner loops of the bank. They call each other, so they share this file.

They are handed the bank's arrays and constants as one :class:`Memory`.

Memory. Rows are padded to whole vectors of ``LANES`` numbers; the padding is zero and stays zero. All
weights live in one flat pool, cut into cells. A cell belongs to one (unit, signature) and holds, one
after the other, the rows of every network, because a decision asks all networks about the same cell. A
row is the weights of the unit; in layers with adaptive rates, sums of squared gradients follow them.
``cell_at[unit, signature]`` is where its cell starts in the pool, or −1 as long as nobody learnt there.

Activations. One row per network: for each layer its bias input followed by the logits of its units,
padded. So the outputs of one layer are, as they lie there, the inputs of the next.

``layout`` has one row per layer with the columns named below.

Start. A network that starts ``from_zero`` has zero weights in its first layer, and an offset there in
their place, which follows how often its target was nearer to 1; ``tally`` has the two counts behind it.
Otherwise a cell in which nobody learnt answers with the mean of its inputs, and offsets are zero.
"""

import math
from typing import NamedTuple

import numpy as np

from glcb._compile import kernel
from glcb._types import Float32, Int64
from glcb.gln.steps import Move

LANES = 8

SIZE, FAN_IN, STRIDE, ROW, FIRST_UNIT, SOURCE, TARGET = range(7)
"""Columns of ``layout``: units in the layer, inputs of each (bias included), the same padded, length of a
network's row in a cell, number of its first unit, where its inputs start in an activation row (−1: the
context), where its outputs do."""

ZERO, HALF, ONE = np.float32(0), np.float32(0.5), np.float32(1)
LOG2_E, LN_2 = np.float32(1 / math.log(2)), np.float32(math.log(2))
SERIES = tuple(np.float32(1 / math.factorial(k)) for k in range(6, -1, -1))
"""Coefficients of e^r, highest power first; with r up to ln 2 / 2, more would make no difference."""

FIRST_SQUARE = np.float32(0.01)
"""What sums of squared gradients start from, so that the first step is no leap."""

ONES, TARGETS = range(2)
"""Columns of ``tally``: how many targets of a network were nearer to 1, and how many there were."""


class Memory(NamedTuple):
    """All that the kernels need to know of a bank."""

    layout: Int64
    cell_at: Int64
    weights: Float32
    mixture: Float32
    """The share of each unit in the probability of each network."""
    tally: Int64
    offsets: Float32
    from_zero: bool
    bound: float
    """The largest logit that a unit can have."""
    box: float
    """The largest weight."""
    lowest_input: float
    """Contexts are kept this far from 0 and 1."""
    bias: float


def padded(length: int) -> int:
    """Return ``length`` rounded up to whole vectors."""
    return -(-length // LANES) * LANES


@kernel
def _exp(x: np.float32) -> np.float32:
    """Return e^x for |x| < 80. There is no branch and no call in it, so loops over it vectorise."""
    power = np.rint(x * LOG2_E)
    r = x - power * LN_2
    series = SERIES[0]
    for k in range(1, len(SERIES)):
        series = SERIES[k] + r * series
    # 2 to a whole power is a float32 with nothing but that power in it.
    factor: np.float32 = np.int32((np.int32(power) + np.int32(127)) << np.int32(23)).view(np.float32)
    result: np.float32 = series * factor
    return result


@kernel
def _sigmoid(logit: np.float32) -> np.float32:
    return ONE / (ONE + _exp(-logit))


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
def base_inputs(x: Float32, stride: int, lowest: float, bias: float) -> Float32:
    """Return z0 = [bias, logit(clip(x, ε, 1 − ε))], padded to ``stride``; ε is ``lowest``."""
    inputs = np.zeros(stride, np.float32)
    inputs[0] = bias
    low = np.float32(lowest)
    high = np.float32(1 - lowest)
    for i in range(x.size):
        p = min(max(x[i], low), high)
        inputs[i + 1] = math.log(p / (ONE - p))
    return inputs


@kernel
def _open_activations(networks: int, memory: Memory) -> Float32:
    """Return activations with the bias inputs set and everything else zero."""
    layout = memory.layout
    last = layout.shape[0] - 1
    activations = np.zeros((networks, layout[last, TARGET] + 1 + layout[last, SIZE]), np.float32)
    for n in range(networks):
        for layer in range(layout.shape[0]):
            activations[n, layout[layer, TARGET]] = memory.bias
    return activations


@kernel
def _rows(memory: Memory, start: int, layer: Int64) -> Float32:
    """Return the cell that begins at ``start``, a row per network."""
    networks, length = len(memory.mixture), layer[ROW]
    return memory.weights[start : start + networks * length].reshape(networks, length)


@kernel
def _activate_first(inputs: Float32, signature: Int64, memory: Memory, activations: Float32) -> None:
    """Write the outputs of the first layer, whose inputs are the same for all networks."""
    layer, offsets, bound = memory.layout[0], memory.offsets, np.float32(memory.bound)
    networks = offsets.size
    usual = ZERO if memory.from_zero else _mean(inputs, layer[FAN_IN])
    for j in range(layer[SIZE]):
        output = layer[TARGET] + 1 + j
        start = memory.cell_at[j, signature[j]]
        if start < 0:
            for n in range(networks):
                activations[n, output] = _clamp(usual + offsets[n], bound)
            continue
        rows = _rows(memory, start, layer)
        for n in range(networks):
            activations[n, output] = _clamp(_dot(rows[n], inputs) + offsets[n], bound)


@kernel
def _activate_next(signature: Int64, layer: Int64, memory: Memory, activations: Float32) -> None:
    """Write the outputs of a layer above the first, where every network has inputs of its own."""
    bound = np.float32(memory.bound)
    networks = len(activations)
    stride, source = layer[STRIDE], layer[SOURCE]
    usual = np.empty(networks, np.float32)
    for n in range(networks):
        inputs = activations[n, source : source + stride]
        usual[n] = _clamp(_mean(inputs, layer[FAN_IN]), bound)
    for j in range(layer[SIZE]):
        output = layer[TARGET] + 1 + j
        unit = layer[FIRST_UNIT] + j
        start = memory.cell_at[unit, signature[unit]]
        if start < 0:
            activations[:, output] = usual
            continue
        rows = _rows(memory, start, layer)
        for n in range(networks):
            inputs = activations[n, source : source + stride]
            activations[n, output] = _clamp(_dot(rows[n, :stride], inputs), bound)


@kernel
def predict(inputs: Float32, signature: Int64, memory: Memory, probabilities: Float32) -> None:
    """Write the probability of every network: one pass over the units, all networks at each, then mixed."""
    layout, mixture = memory.layout, memory.mixture
    activations = _open_activations(probabilities.size, memory)
    _activate_first(inputs, signature, memory, activations)
    for layer in range(1, layout.shape[0]):
        _activate_next(signature, layout[layer], memory, activations)
    for n in range(probabilities.size):
        total = ZERO
        for layer in range(layout.shape[0]):
            first = layout[layer, FIRST_UNIT]
            output = layout[layer, TARGET] + 1
            for j in range(layout[layer, SIZE]):
                total += mixture[n, first + j] * _sigmoid(activations[n, output + j])
        probabilities[n] = total


@kernel
def predict_many(contexts: Float32, signatures: Int64, memory: Memory, probabilities: Float32) -> None:
    """Write the probabilities for many contexts, one row each."""
    stride = memory.layout[0, STRIDE]
    for row in range(len(contexts)):
        inputs = base_inputs(contexts[row], stride, memory.lowest_input, memory.bias)
        predict(inputs, signatures[row], memory, probabilities[row])


@kernel
def _open_row(rows: Float32, fan_in: int, zero: bool) -> None:
    """Give rows their initial weights; the padding is zero."""
    rows[:, :fan_in] = ZERO if zero else ONE / np.float32(fan_in)
    rows[:, fan_in:] = 0


@kernel
def _open_cells(signature: Int64, memory: Memory, used: int) -> int:
    """Open the cells in which nobody has learnt so far; return how much of the pool is used afterwards."""
    layout, cell_at = memory.layout, memory.cell_at
    for layer in range(layout.shape[0]):
        for j in range(layout[layer, SIZE]):
            unit = layout[layer, FIRST_UNIT] + j
            if cell_at[unit, signature[unit]] < 0:
                cell_at[unit, signature[unit]] = used
                rows = _rows(memory, used, layout[layer])
                _open_row(rows, layout[layer, FAN_IN], memory.from_zero and layer == 0)
                used += rows.size
    return used


@kernel
def _step(row: Float32, way: Float32, step: np.float32, limit: np.float32) -> None:
    for i in range(row.size):
        row[i] = _clamp(row[i] - step * way[i], limit)


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
def _learn_first(
    inputs: Float32,
    signature: Int64,
    network: int,
    target: np.float32,
    move: Move,
    memory: Memory,
    own: Float32,
) -> None:
    """Let the first layer of a network step, each unit along the direction that it was given."""
    layer, bound, limit = memory.layout[0], np.float32(memory.bound), np.float32(memory.box)
    length, output = layer[ROW], layer[TARGET] + 1
    for j in range(layer[SIZE]):
        start = memory.cell_at[j, signature[j]] + network * length
        row = memory.weights[start : start + length]
        logit = _clamp(_dot(row, inputs) + memory.offsets[network], bound)
        own[output + j] = logit
        step = move.rates[j] * (_sigmoid(logit) - target)
        _step(row, move.directions[move.direction_of[j]], step, limit)


@kernel
def _learn_next(
    layer: Int64, signature: Int64, network: int, target: np.float32, move: Move, memory: Memory, own: Float32
) -> None:
    """Let a layer above the first step along its inputs, plainly or adaptively."""
    bound, limit = np.float32(memory.bound), np.float32(memory.box)
    length, stride, output = layer[ROW], layer[STRIDE], layer[TARGET] + 1
    inputs = own[layer[SOURCE] : layer[SOURCE] + stride]
    for j in range(layer[SIZE]):
        unit = layer[FIRST_UNIT] + j
        start = memory.cell_at[unit, signature[unit]] + network * length
        row = memory.weights[start : start + stride]
        logit = _clamp(_dot(row, inputs), bound)
        own[output + j] = logit
        error = _sigmoid(logit) - target
        if length > stride:
            squares = memory.weights[start + stride : start + length]
            _step_adaptively(row, squares, inputs, error, move.rates[unit], limit)
        else:
            _step(row, inputs, move.rates[unit] * error, limit)


@kernel
def _switch(shares: Float32, own: Float32, target: np.float32, layout: Int64, rate: float) -> None:
    """Fixed share: weigh every unit by its likelihood, then give a part of all back to everyone.

    The likelihood of a target r is p^r (1 − p)^(1 − r), which is e^(r·logit) (1 − p).
    """
    for layer in range(layout.shape[0]):
        first, output = layout[layer, FIRST_UNIT], layout[layer, TARGET] + 1
        for j in range(layout[layer, SIZE]):
            logit = own[output + j]
            shares[first + j] *= _exp(target * logit) * _sigmoid(-logit)
    total = ZERO
    for unit in range(shares.size):
        total += shares[unit]
    keep = np.float32((1 - rate) / total)
    gift = np.float32(rate / shares.size)
    for unit in range(shares.size):
        shares[unit] = shares[unit] * keep + gift


@kernel
def learn(
    inputs: Float32,
    signature: Int64,
    networks: Int64,
    targets: Float32,
    move: Move,
    switching_rate: float,
    memory: Memory,
    used: int,
) -> int:
    """Teach ``networks`` their ``targets``; return how much of the pool is used afterwards.

    A unit of the first layer steps along the direction that the move names, those above along their inputs;
    each at its own rate. The pool must have room for one new cell per unit. A negative ``switching_rate``
    leaves the mixture as it is. Every unit steps as soon as its own output is known: no other unit of this
    step reads the weights it changes.
    """
    layout, tally = memory.layout, memory.tally
    used = _open_cells(signature, memory, used)
    activations = _open_activations(networks.size, memory)
    for k in range(networks.size):
        network, target, own = networks[k], targets[k], activations[k]
        _learn_first(inputs, signature, network, target, move, memory, own)
        for layer in range(1, layout.shape[0]):
            _learn_next(layout[layer], signature, network, target, move, memory, own)
        if switching_rate >= 0:
            _switch(memory.mixture[network], own, target, layout, switching_rate)
        if memory.from_zero:
            tally[network, ONES] += np.int64(target > HALF)
            tally[network, TARGETS] += 1
            memory.offsets[network] = _offset(tally[network], memory.bound)
    return used


@kernel
def _offset(tally: Int64, bound: float) -> float:
    """Return half the logit of how often the target was nearer to 1, one of each kind assumed beforehand.

    Half, because a new cell should lean towards what is usual and yet leave the unusual likely enough to
    be worth a try.
    """
    odds = (tally[ONES] + 1) / (tally[TARGETS] - tally[ONES] + 1)
    return min(max(math.log(odds), -bound), bound) / 2


@kernel
def write_offsets(memory: Memory) -> None:
    """Write the offset of every network."""
    for n in range(memory.offsets.size):
        memory.offsets[n] = _offset(memory.tally[n], memory.bound)


@kernel
def rearranged(memory: Memory, starts: Int64, layer_of: Int64, sources: Int64, result: Float32) -> None:
    """Write all cells anew, row j of each being what row ``sources[j]`` was, or a new one for −1."""
    end = 0
    for c in range(starts.size):
        layer = memory.layout[layer_of[c]]
        old = _rows(memory, starts[c], layer)
        new = result[end : end + sources.size * layer[ROW]].reshape(sources.size, layer[ROW])
        _open_row(new, layer[FAN_IN], memory.from_zero and layer_of[c] == 0)
        for j in range(sources.size):
            if sources[j] >= 0:
                new[j] = old[sources[j]]
        end += new.size
