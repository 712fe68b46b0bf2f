"""Learning: the kernels that update networks toward their targets."""

import math

import numpy as np

from glcb._arrays import Float32, Int64
from glcb._numba.compile import kernel
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
    cell_rows,
    initialize_rows,
    new_activations,
    offset,
)
from glcb.gln.optimizer import Move, OptimizerArrays, compute_move

INITIAL_SQUARE = np.float32(0.01)
"""Added to the sums of squared gradients, so that the first updates are not too large."""


@kernel
def _allocate_cells(signature: Int64, bank: BankArrays) -> None:
    """Allocate and initialize the cells of this signature that do not exist yet."""
    layout, cell_at, used = bank.layout, bank.cell_at, bank.used
    for layer in range(layout.shape[0]):
        for j in range(layout[layer, SIZE]):
            unit = layout[layer, FIRST_UNIT] + j
            if cell_at[unit, signature[unit]] < 0:
                cell_at[unit, signature[unit]] = used[0]
                rows = cell_rows(bank.weights, used[0], len(bank.mixture), layout[layer, ROW])
                initialize_rows(rows, layout[layer, FAN_IN], bank.from_zero and layer == 0)
                used[0] += rows.size


@kernel
def _move(row: Float32, direction: Float32, step: np.float32, limit: np.float32) -> None:
    for i in range(row.size):
        row[i] = clamp(row[i] - step * direction[i], limit)


@kernel
def _move_adaptively(
    row: Float32, squares: Float32, z: Float32, error: np.float32, rate: np.float32, limit: np.float32
) -> None:
    """Move along the inputs, each weight at a rate that decreases with its past gradients (AdaGrad)."""
    for i in range(row.size):
        gradient = error * z[i]
        squares[i] += gradient * gradient
        row[i] = clamp(row[i] - rate * gradient / math.sqrt(squares[i] + INITIAL_SQUARE), limit)


@kernel
def _update_first_layer(
    inputs: Float32,
    signature: Int64,
    network: int,
    target: np.float32,
    move: Move,
    bank: BankArrays,
    outputs: Float32,
) -> None:
    """Update the first layer of a network, each unit along its direction."""
    layer, bound, limit = bank.layout[0], np.float32(bank.bound), np.float32(bank.box)
    length, output = layer[ROW], layer[TARGET] + 1
    for j in range(layer[SIZE]):
        start = bank.cell_at[j, signature[j]] + network * length
        row = bank.weights[start : start + length]
        logit = clamp(dot(row, inputs) + bank.offsets[network], bound)
        outputs[output + j] = logit
        step = move.rates[j] * (sigmoid(logit) - target)
        _move(row, move.directions[move.direction_of[j]], step, limit)


@kernel
def _update_upper_layer(
    layer: Int64,
    signature: Int64,
    network: int,
    target: np.float32,
    move: Move,
    bank: BankArrays,
    outputs: Float32,
) -> None:
    """Update a layer above the first along its inputs, at fixed or adaptive rates."""
    bound, limit = np.float32(bank.bound), np.float32(bank.box)
    length, stride, output = layer[ROW], layer[STRIDE], layer[TARGET] + 1
    inputs = outputs[layer[SOURCE] : layer[SOURCE] + stride]
    for j in range(layer[SIZE]):
        unit = layer[FIRST_UNIT] + j
        start = bank.cell_at[unit, signature[unit]] + network * length
        row = bank.weights[start : start + stride]
        logit = clamp(dot(row, inputs), bound)
        outputs[output + j] = logit
        error = sigmoid(logit) - target
        if length > stride:
            squares = bank.weights[start + stride : start + length]
            _move_adaptively(row, squares, inputs, error, move.rates[unit], limit)
        else:
            _move(row, inputs, move.rates[unit] * error, limit)


@kernel
def _update_mixture(
    shares: Float32, outputs: Float32, target: np.float32, layout: Int64, rate: float
) -> None:
    """Update the mixture by fixed share: weight units by likelihood, then redistribute a share evenly.

    The likelihood of a target r is p^r (1 − p)^(1 − r), which is e^(r·logit) (1 − p).
    """
    for layer in range(layout.shape[0]):
        first, output = layout[layer, FIRST_UNIT], layout[layer, TARGET] + 1
        for j in range(layout[layer, SIZE]):
            logit = outputs[output + j]
            shares[first + j] *= exp(target * logit) * sigmoid(-logit)
    total = ZERO
    for unit in range(shares.size):
        total += shares[unit]
    keep = np.float32((1 - rate) / total)
    redistributed = np.float32(rate / shares.size)
    for unit in range(shares.size):
        shares[unit] = shares[unit] * keep + redistributed


@kernel
def _probability(shares: Float32, outputs: Float32, layout: Int64) -> float:
    """Return the probability of a network: the mixture of its units."""
    total = ZERO
    for layer in range(layout.shape[0]):
        first, output = layout[layer, FIRST_UNIT], layout[layer, TARGET] + 1
        for j in range(layout[layer, SIZE]):
            total += shares[first + j] * sigmoid(outputs[output + j])
    return float(total)


@kernel
def learn(
    inputs: Float32,
    signature: Int64,
    networks: Int64,
    targets: Float32,
    learning_rate: float,
    switching_rate: float,
    optimizer: OptimizerArrays,
    bank: BankArrays,
) -> float:
    """Update ``networks`` toward their ``targets``. The pool must have space for one new cell per unit.

    Returns the earlier probability of the first of these networks. A unit of the first layer moves along the
    direction that the optimizer selects, a unit above along its inputs, each at its own rate. A unit is
    updated as soon as its output is computed: no other unit reads the weights that it changes.
    """
    layout, tally = bank.layout, bank.tally
    _allocate_cells(signature, bank)
    move = compute_move(inputs, learning_rate, optimizer)
    activations = new_activations(networks.size, layout, bank.bias)
    probability = 0.0
    for k in range(networks.size):
        network, target, outputs = networks[k], targets[k], activations[k]
        _update_first_layer(inputs, signature, network, target, move, bank, outputs)
        for layer in range(1, layout.shape[0]):
            _update_upper_layer(layout[layer], signature, network, target, move, bank, outputs)
        if k == 0:
            probability = _probability(bank.mixture[network], outputs, layout)
        if bank.switches:
            _update_mixture(bank.mixture[network], outputs, target, layout, switching_rate)
        if bank.from_zero:
            tally[network, ONES] += np.int64(target > HALF)
            tally[network, TARGETS] += 1
            bank.offsets[network] = offset(tally[network], bank.bound)
    return probability
