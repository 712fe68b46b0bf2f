"""Prediction for many inputs that share a part, such as the candidates of one decision.

The dot products of the gates split into a shared part and the part of each input. The first
layer is computed unit by unit for a block of inputs: the cells of one unit then stay in the CPU caches.
"""

import numpy as np

from glcb._arrays import Float32, Int64
from glcb._numba.cell_index import lookup
from glcb._numba.compile import kernel
from glcb.gln.arithmetic import ZERO, clamp, dot, mean, sigmoid
from glcb.gln.gates import GateArrays
from glcb.gln.layout import FAN_IN, FIRST_UNIT, ROW, SIZE, STRIDE, TARGET, BankArrays
from glcb.gln.predict import activate_upper_layer


@kernel
def write_parts(normals: Float32, first: int, x: Float32, parts: Float32) -> None:
    """Write the contribution of the features ``x``, from position ``first`` on, to every dot product."""
    for plane in range(parts.size):
        parts[plane] = dot(normals[plane, first : first + x.size], x)


@kernel
def signature_of_parts(shared: Float32, own: Float32, gates: GateArrays, signature: Int64) -> None:
    """Write the signature of every unit: bit k is set where the two parts add up to more than 0."""
    plane = 0
    for unit in range(gates.hyperplanes.size):
        bits = 0
        for k in range(gates.hyperplanes[unit]):
            if shared[plane] + own[plane] > ZERO:
                bits |= 1 << k
            plane += 1
        signature[unit] = bits


@kernel
def _activate_first_layer(inputs: Float32, signatures: Int64, bank: BankArrays, activations: Float32) -> None:
    """Write the outputs of the first layer for all inputs and networks."""
    layer, bound = bank.layout[0], np.float32(bank.bound)
    networks, length, stride = len(bank.mixture), layer[ROW], layer[STRIDE]
    untrained = np.zeros(len(inputs), np.float32)
    if not bank.from_zero:
        for c in range(len(inputs)):
            untrained[c] = mean(inputs[c], layer[FAN_IN])
    for j in range(layer[SIZE]):
        output = layer[TARGET] + 1 + j
        for c in range(len(inputs)):
            start = bank.cell_at[j, signatures[c, j]]
            for n in range(networks):
                logit = untrained[c]
                if start >= 0:
                    row = start + n * length
                    logit = dot(bank.weights[row : row + stride], inputs[c])
                activations[c, n, output] = clamp(logit + bank.offsets[n], bound)


@kernel
def predict_candidates(inputs: Float32, signatures: Int64, bank: BankArrays, probabilities: Float32) -> None:
    """Write the probability of every network for every input.

    Parameters
    ----------
    inputs
        The padded inputs, one row each, the bias first.
    signatures
        The signature of every unit for each row.
    bank
        The networks.
    probabilities
        The result: one row per input, one column per network.
    """
    layout = bank.layout
    last, networks = layout.shape[0] - 1, len(bank.mixture)
    width = layout[last, TARGET] + 1 + layout[last, SIZE]
    activations = np.zeros((len(inputs), networks, width), np.float32)
    flat = activations.ravel()
    for row in range(len(inputs) * networks):
        for layer in range(layout.shape[0]):
            flat[row * width + layout[layer, TARGET]] = bank.bias
    _activate_first_layer(inputs, signatures, bank, activations)
    for c in range(len(inputs)):
        positions = lookup(bank.cell_at, signatures[c])
        for layer in range(1, layout.shape[0]):
            activate_upper_layer(positions, layout[layer], 0, bank, activations[c])
    for i in range(flat.size):
        flat[i] = sigmoid(flat[i])
    for c in range(len(inputs)):
        for n in range(networks):
            total = ZERO
            for layer in range(layout.shape[0]):
                unit, output = layout[layer, FIRST_UNIT], layout[layer, TARGET] + 1
                size = layout[layer, SIZE]
                shares = bank.mixture[n, unit : unit + size]
                total += dot(shares, activations[c, n, output : output + size])
            probabilities[c, n] = total
