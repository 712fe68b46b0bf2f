"""How a bank lies in memory, as its kernels see it.

Rows are padded to whole vectors; the padding is zero and stays zero. All weights live in one flat pool, cut
into cells. A cell belongs to one (unit, signature) and holds, one after the other, the rows of every network,
because a decision asks all networks about the same cell. A row is the weights of the unit; in layers with
adaptive rates, sums of squared gradients follow them. ``cell_at[unit, signature]`` is where its cell starts
in the pool, or −1 as long as nobody learned there.

Activations have one row per network: for each layer its bias input followed by the logits of its units,
padded. So the outputs of one layer are, as they lie there, the inputs of the next.

A network that starts ``from_zero`` has zero weights in its first layer, and an offset there in their place,
which follows how often its target was nearer to 1; ``tally`` has the two counts behind it. Otherwise a cell
in which nobody learned answers with the mean of its inputs, and offsets are zero.
"""

import math
from typing import NamedTuple

import numpy as np

from glcb._numba.compile import kernel
from glcb._types import Float32, Int64
from glcb.gln.arithmetic import ONE, ZERO

SIZE, FAN_IN, STRIDE, ROW, FIRST_UNIT, SOURCE, TARGET = range(7)
"""Columns of ``layout``, which has one row per layer: units in the layer, inputs of each (bias included), the
same padded, length of a network's row in a cell, number of its first unit, where its inputs start in an
activation row (−1: the context), where its outputs do."""

ONES, TARGETS = range(2)
"""Columns of ``tally``: how many targets of a network were nearer to 1, and how many there were."""


class BankArrays(NamedTuple):
    """All that the kernels need to know of a bank."""

    layout: Int64
    cell_at: Int64
    weights: Float32
    used: Int64
    """How much of the pool is taken; one number."""
    mixture: Float32
    """The share of each unit in the probability of each network."""
    tally: Int64
    offsets: Float32
    from_zero: bool
    switches: bool
    """Whether the mixture learns."""
    bound: float
    """The largest logit that a unit can have."""
    box: float
    """The largest weight."""
    lowest_input: float
    """Contexts are kept this far from 0 and 1."""
    bias: float


@kernel
def rows_of(weights: Float32, start: int, networks: int, length: int) -> Float32:
    """Return the cell that begins at ``start``, a row of that length per network."""
    return weights[start : start + networks * length].reshape(networks, length)


@kernel
def open_row(rows: Float32, fan_in: int, zero: bool) -> None:
    """Give rows their initial weights; the padding is zero."""
    rows[:, :fan_in] = ZERO if zero else ONE / np.float32(fan_in)
    rows[:, fan_in:] = 0


@kernel
def offset(tally: Int64, bound: float) -> float:
    """Return half the logit of how often the target was nearer to 1, one of each kind assumed beforehand.

    Half, because a new cell should lean towards what is usual and yet leave the unusual likely enough to
    be worth a try.
    """
    odds = (tally[ONES] + 1) / (tally[TARGETS] - tally[ONES] + 1)
    return min(max(math.log(odds), -bound), bound) / 2


@kernel
def write_offsets(memory: BankArrays) -> None:
    """Write the offset of every network."""
    for n in range(memory.offsets.size):
        memory.offsets[n] = offset(memory.tally[n], memory.bound)


@kernel
def open_activations(networks: int, layout: Int64, bias: float) -> Float32:
    """Return activations with the bias inputs set and everything else zero."""
    last = layout.shape[0] - 1
    activations = np.zeros((networks, layout[last, TARGET] + 1 + layout[last, SIZE]), np.float32)
    for n in range(networks):
        for layer in range(layout.shape[0]):
            activations[n, layout[layer, TARGET]] = bias
    return activations


@kernel
def write_rearranged(
    memory: BankArrays, starts: Int64, layer_of: Int64, sources: Int64, result: Float32
) -> None:
    """Write all cells anew, row j of each being what row ``sources[j]`` was, or a new one for −1."""
    end = 0
    for c in range(starts.size):
        layer = memory.layout[layer_of[c]]
        old = rows_of(memory.weights, starts[c], len(memory.mixture), layer[ROW])
        new = result[end : end + sources.size * layer[ROW]].reshape(sources.size, layer[ROW])
        open_row(new, layer[FAN_IN], memory.from_zero and layer_of[c] == 0)
        for j in range(sources.size):
            if sources[j] >= 0:
                for i in range(layer[ROW]):
                    new[j, i] = old[sources[j], i]
        end += new.size
