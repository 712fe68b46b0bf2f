"""How much every input moves a network's probability away from what it says for a baseline.

The signature is held, so a network is made of weighted sums, of logits clipped to ±bound, of sigmoids and of
the mixture. Sums and the mixture are linear and pass differences on as they are. At a clip or a sigmoid the
difference is scaled by Δout / Δin between the baseline and here, or by the derivative where Δin is 0 (the
rescale rule of DeepLIFT: Shrikumar, Greenside, Kundaje 2017). No step loses anything, so the contributions
add up to the difference of the two probabilities.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from glcb._types import Float32, Float64

HERE, BASELINE = range(2)
"""Everything is computed twice, for the context and for the baseline: the first axis of the arrays below."""


class Attribution(NamedTuple):
    """What the inputs contribute to the probability of every network."""

    probabilities: Float64
    """Two rows: what each network says here, and for the baseline."""
    contributions: Float64
    """One row per network, one column per feature; a row adds up to the difference of the probabilities."""


def attribution(
    weights_of: Callable[[int], Float32],
    layers: Sequence[int],
    inputs: Float32,
    offsets: Float32,
    mixture: Float32,
    bound: float,
) -> Attribution:
    """Attribute the probability of every network to the features.

    ``weights_of`` gives the weights that each network has in a unit, as the signature chooses them;
    ``inputs`` has two rows, the bias first; ``offsets`` are added to the logits of the first layer.
    """
    networks, units = mixture.shape
    logits = np.empty((2, networks, units))
    clipped = np.empty_like(logits)
    z = np.repeat(inputs[:, None].astype(np.float64), networks, axis=1)
    bias = z[..., :1]
    first = 0
    for size in layers:
        for unit in range(first, first + size):
            logits[..., unit] = np.einsum("rni,ni->rn", z, weights_of(unit))
        own = slice(first, first + size)
        if first == 0:
            logits[..., own] += offsets[:, None]
        clipped[..., own] = logits[..., own].clip(-bound, bound)
        z = np.concatenate([bias, clipped[..., own]], axis=2)
        first += size
    # From the output back to the inputs: how much the probability moves for what moves in a unit.
    moved = mixture * _sigmoid_slopes(clipped)
    clip_slopes = _clip_slopes(logits, clipped, bound)
    for size in reversed(layers):
        first -= size
        moved[:, first : first + size] *= clip_slopes[:, first : first + size]
        # Without the first column: the bias is the same for the baseline.
        below = np.zeros_like(weights_of(first)[:, 1:], np.float64)
        for unit in range(first, first + size):
            below += moved[:, unit, None] * weights_of(unit)[:, 1:]
        if first:
            moved[:, first - below.shape[1] : first] += below
    probabilities = (mixture / (1 + np.exp(-clipped))).sum(axis=2)
    differences = inputs[HERE, 1:].astype(np.float64) - inputs[BASELINE, 1:]
    return Attribution(probabilities, below * differences)


def _clip_slopes(logits: Float64, clipped: Float64, bound: float) -> Float64:
    """Return Δclipped / Δlogit, or the derivative of the clip where the logits are the same."""
    change = logits[HERE] - logits[BASELINE]
    slopes: Float64 = (np.abs(logits[HERE]) < bound).astype(np.float64)
    np.divide(clipped[HERE] - clipped[BASELINE], change, out=slopes, where=change != 0)
    return slopes


def _sigmoid_slopes(logits: Float64) -> Float64:
    """Return Δσ(u) / Δu, written so that nothing cancels and it becomes the derivative as Δu goes to 0."""
    half = (logits[HERE] - logits[BASELINE]) / 2
    growth = np.ones_like(half)
    np.divide(np.sinh(half), half, out=growth, where=half != 0)
    slopes: Float64 = growth / (4 * np.cosh(logits[HERE] / 2) * np.cosh(logits[BASELINE] / 2))
    return slopes
