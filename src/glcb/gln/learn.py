"""The compiled step of networks that learn a target."""

import math

import numpy as np

from glcb._numba.compile import kernel
from glcb._types import Float32, Int64
from glcb.gln.arithmetic import HALF, ZERO, clamp, dot, exp, sigmoid
from glcb.gln.layout import (
    FAN_IN,
    FIRST_UNIT,
    ONES,
    ROW,
    SIZE,
    SOURCE,
    STRIDE,
    TARGET,
    TARGETS,
    BankArrays,
    offset,
    open_activations,
    open_row,
    rows_of,
)
from glcb.gln.optimizer import Move, OptimizerArrays, move_for

FIRST_SQUARE = np.float32(0.01)
"""What sums of squared gradients start from, so that the first step is no leap."""


@kernel
def _open_cells(signature: Int64, memory: BankArrays) -> None:
    """Open the cells in which nobody has learned so far."""
    layout, cell_at, used = memory.layout, memory.cell_at, memory.used
    for layer in range(layout.shape[0]):
        for j in range(layout[layer, SIZE]):
            unit = layout[layer, FIRST_UNIT] + j
            if cell_at[unit, signature[unit]] < 0:
                cell_at[unit, signature[unit]] = used[0]
                rows = rows_of(memory.weights, used[0], len(memory.mixture), layout[layer, ROW])
                open_row(rows, layout[layer, FAN_IN], memory.from_zero and layer == 0)
                used[0] += rows.size


@kernel
def _step(row: Float32, way: Float32, step: np.float32, limit: np.float32) -> None:
    for i in range(row.size):
        row[i] = clamp(row[i] - step * way[i], limit)


@kernel
def _step_adaptively(
    row: Float32, squares: Float32, z: Float32, error: np.float32, rate: np.float32, limit: np.float32
) -> None:
    """Step along the inputs, each weight the less the larger its gradients were so far (AdaGrad)."""
    for i in range(row.size):
        gradient = error * z[i]
        squares[i] += gradient * gradient
        row[i] = clamp(row[i] - rate * gradient / math.sqrt(squares[i] + FIRST_SQUARE), limit)


@kernel
def _learn_first(
    inputs: Float32,
    signature: Int64,
    network: int,
    target: np.float32,
    move: Move,
    memory: BankArrays,
    own: Float32,
) -> None:
    """Let the first layer of a network step, each unit along the direction that it was given."""
    layer, bound, limit = memory.layout[0], np.float32(memory.bound), np.float32(memory.box)
    length, output = layer[ROW], layer[TARGET] + 1
    for j in range(layer[SIZE]):
        start = memory.cell_at[j, signature[j]] + network * length
        row = memory.weights[start : start + length]
        logit = clamp(dot(row, inputs) + memory.offsets[network], bound)
        own[output + j] = logit
        step = move.rates[j] * (sigmoid(logit) - target)
        _step(row, move.directions[move.direction_of[j]], step, limit)


@kernel
def _learn_next(
    layer: Int64,
    signature: Int64,
    network: int,
    target: np.float32,
    move: Move,
    memory: BankArrays,
    own: Float32,
) -> None:
    """Let a layer above the first step along its inputs, plainly or adaptively."""
    bound, limit = np.float32(memory.bound), np.float32(memory.box)
    length, stride, output = layer[ROW], layer[STRIDE], layer[TARGET] + 1
    inputs = own[layer[SOURCE] : layer[SOURCE] + stride]
    for j in range(layer[SIZE]):
        unit = layer[FIRST_UNIT] + j
        start = memory.cell_at[unit, signature[unit]] + network * length
        row = memory.weights[start : start + stride]
        logit = clamp(dot(row, inputs), bound)
        own[output + j] = logit
        error = sigmoid(logit) - target
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
            shares[first + j] *= exp(target * logit) * sigmoid(-logit)
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
    learning_rate: float,
    switching_rate: float,
    stepper: OptimizerArrays,
    memory: BankArrays,
) -> None:
    """Teach ``networks`` their ``targets``. The pool must have room for one new cell per unit.

    A unit of the first layer steps along the direction that its move names, those above along their inputs;
    each at its own rate. Every unit steps as soon as its own output is known: no other unit of this step
    reads the weights it changes.
    """
    layout, tally = memory.layout, memory.tally
    _open_cells(signature, memory)
    move = move_for(inputs, learning_rate, stepper)
    activations = open_activations(networks.size, layout, memory.bias)
    for k in range(networks.size):
        network, target, own = networks[k], targets[k], activations[k]
        _learn_first(inputs, signature, network, target, move, memory, own)
        for layer in range(1, layout.shape[0]):
            _learn_next(layout[layer], signature, network, target, move, memory, own)
        if memory.switches:
            _switch(memory.mixture[network], own, target, layout, switching_rate)
        if memory.from_zero:
            tally[network, ONES] += np.int64(target > HALF)
            tally[network, TARGETS] += 1
            memory.offsets[network] = offset(tally[network], memory.bound)
