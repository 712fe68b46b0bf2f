"""The memory layout of a bank, as its kernels see it.

Rows are padded to full SIMD vectors; the padding is always zero. All weights are in one flat pool, divided
into cells. A cell belongs to one (unit, signature) and holds the rows of all networks consecutively, because
a decision evaluates all networks in the same cell. A row contains the weights of the unit and, in layers with
adaptive rates, the sums of squared gradients after them. ``cell_at[unit, signature]`` is the start of a cell
in the pool, or −1 if nothing was learned there.

Activations have one row per network. For each layer, they contain its bias input followed by the logits of
its units, padded. The outputs of one layer are therefore the inputs of the next without copying.

A network that starts ``from_zero`` has zero weights in its first layer and adds an offset instead. The offset
follows how often the target was closer to 1; ``tally`` holds the two counts behind it. In other networks, a
cell without any update outputs the mean of its inputs, and offsets are zero.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import boolean, float32, float64, int64

from glcb._arrays import Float32, Int64
from glcb._numba.arrays import as_matrix, new_matrix
from glcb._numba.compile import kernel
from glcb._numba.packed import named_tuple_type
from glcb.gln.arithmetic import ONE, ZERO

SIZE, FAN_IN, STRIDE, ROW, FIRST_UNIT, SOURCE, TARGET = range(7)
"""Columns of ``layout``, which has one row per layer: number of units, inputs per unit (including the bias),
padded inputs per unit, length of a network's row in a cell, index of the first unit, start of the inputs in
an activation row (−1 for the context), start of the outputs."""

ONES, TARGETS = range(2)
"""Columns of ``tally``: number of a network's targets closer to 1, and number of all its targets."""


class BankArrays(NamedTuple):
    """The kernels' view of a bank."""

    layout: Int64
    """One row per layer; see ``SIZE`` and the following constants."""
    cell_at: Int64
    """Start of the cell of each unit and signature in ``weights``, or −1."""
    weights: Float32
    """The pool of cells."""
    used: Int64
    """Number of elements of the pool in use; a single element."""
    mixture: Float32
    """The share of each unit in the probability of each network."""
    tally: Int64
    """Counts of each network's targets; see ``ONES`` and ``TARGETS``."""
    offsets: Float32
    """Added to the logits of the first layer, one per network."""
    from_zero: bool
    """Whether the weights of the first layer start at zero."""
    switches: bool
    """Whether the mixture learns."""
    bound: float
    """The largest absolute logit of a unit."""
    box: float
    """The largest absolute weight."""
    lowest_input: float
    """Contexts are clipped to this distance from 0 and 1."""
    bias: float
    """The constant input of every unit."""


BANK_ARRAYS = named_tuple_type(
    BankArrays,
    int64[:, ::1],
    int64[:, ::1],
    float32[::1],
    int64[::1],
    float32[:, ::1],
    int64[:, ::1],
    float32[::1],
    boolean,
    boolean,
    float64,
    float64,
    float64,
    float64,
)


@kernel
def cell_rows(weights: Float32, start: int, networks: int, length: int) -> Float32:
    """Return the cell at ``start`` as one row of ``length`` elements per network."""
    return as_matrix(weights, start, networks, length)


@kernel
def initialize_rows(rows: Float32, fan_in: int, zero: bool) -> None:
    """Write the initial weights and the padding."""
    weight = ZERO if zero else ONE / np.float32(fan_in)
    for n in range(len(rows)):
        for i in range(rows.shape[1]):
            rows[n, i] = weight if i < fan_in else ZERO


@kernel
def offset(tally: Int64, bound: float) -> float:
    """Return half the logit of the share of targets closer to 1, with one prior target of each kind.

    Half, because a new cell should lean toward the usual target but leave the other target likely enough to
    be explored.
    """
    odds = (tally[ONES] + 1) / (tally[TARGETS] - tally[ONES] + 1)
    return min(max(math.log(odds), -bound), bound) / 2


@kernel
def write_offsets(bank: BankArrays) -> None:
    """Write the offset of every network."""
    for n in range(bank.offsets.size):
        bank.offsets[n] = offset(bank.tally[n], bank.bound)


@kernel
def new_activations(networks: int, layout: Int64, bias: float) -> Float32:
    """Return activations that are zero except for the bias inputs."""
    last = layout.shape[0] - 1
    activations: Float32 = new_matrix(np.float32, networks, layout[last, TARGET] + 1 + layout[last, SIZE])
    for n in range(networks):
        for i in range(activations.shape[1]):
            activations[n, i] = ZERO
        for layer in range(layout.shape[0]):
            activations[n, layout[layer, TARGET]] = bias
    return activations


@kernel
def write_reordered(
    bank: BankArrays, starts: Int64, layer_of: Int64, sources: Int64, result: Float32
) -> None:
    """Write all cells to ``result``; row j of each is the old row ``sources[j]``, or a new row for −1."""
    end = 0
    for c in range(starts.size):
        layer = bank.layout[layer_of[c]]
        old = cell_rows(bank.weights, starts[c], len(bank.mixture), layer[ROW])
        new = as_matrix(result, end, sources.size, layer[ROW])
        for j in range(sources.size):
            if sources[j] < 0:
                initialize_rows(new[j : j + 1], layer[FAN_IN], bank.from_zero and layer_of[c] == 0)
            else:
                for i in range(layer[ROW]):
                    new[j, i] = old[sources[j], i]
        end += new.size
