"""Attribution: how much each feature moves a network's probability away from the baseline's.

The signature is fixed, so a network consists of weighted sums, logits clipped to ±bound, sigmoids and the
mixture. Sums and the mixture are linear and propagate differences unchanged. At a clip or a sigmoid, the
difference is scaled by Δout / Δin between the baseline and the context, or by the derivative where Δin is 0
(the rescale rule of DeepLIFT: Shrikumar, Greenside, Kundaje 2017). The contributions therefore add up to the
difference of the two probabilities.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from glcb._arrays import Float32, Float64

CONTEXT, BASELINE = range(2)
"""Indices of the first axis of the arrays below: everything is computed for the context and the baseline."""


class Attribution(NamedTuple):
    """The contribution of each feature to the probability of each network."""

    probabilities: Float64
    """Two rows: the probability of each network for the context and for the baseline."""
    contributions: Float64
    """One row per network, one column per feature. A row adds up to the difference of the probabilities."""


def attribution(
    weights_of: Callable[[int], Float32],
    layers: Sequence[int],
    inputs: Float32,
    offsets: Float32,
    mixture: Float32,
    bound: float,
) -> Attribution:
    """Attribute the probability of every network to the features.

    Parameters
    ----------
    weights_of
        Returns the weights of a unit in the cell that the signature selects, one row per network.
    layers
        Number of units per layer.
    inputs
        Two rows, for the context and the baseline. The first column is the bias.
    offsets
        Added to the logits of the first layer, one per network.
    mixture
        The share of each unit in the probability of each network.
    bound
        The largest absolute logit.
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
        units_of_layer = slice(first, first + size)
        if first == 0:
            logits[..., units_of_layer] += offsets[:, None]
        clipped[..., units_of_layer] = logits[..., units_of_layer].clip(-bound, bound)
        z = np.concatenate([bias, clipped[..., units_of_layer]], axis=2)
        first += size
    # Backward pass: the change of the probability per change of a unit.
    gradient = mixture * _sigmoid_slopes(clipped)
    clip_slopes = _clip_slopes(logits, clipped, bound)
    for size in reversed(layers):
        first -= size
        gradient[:, first : first + size] *= clip_slopes[:, first : first + size]
        # Skip the bias in the first column: it is the same for the baseline.
        below = np.zeros_like(weights_of(first)[:, 1:], np.float64)
        for unit in range(first, first + size):
            below += gradient[:, unit, None] * weights_of(unit)[:, 1:]
        if first:
            gradient[:, first - below.shape[1] : first] += below
    probabilities = (mixture / (1 + np.exp(-clipped))).sum(axis=2)
    differences = inputs[CONTEXT, 1:].astype(np.float64) - inputs[BASELINE, 1:]
    return Attribution(probabilities, below * differences)


def _clip_slopes(logits: Float64, clipped: Float64, bound: float) -> Float64:
    """Return Δclipped / Δlogit, or the derivative of the clip where the logits are equal."""
    change = logits[CONTEXT] - logits[BASELINE]
    slopes: Float64 = (np.abs(logits[CONTEXT]) < bound).astype(np.float64)
    np.divide(clipped[CONTEXT] - clipped[BASELINE], change, out=slopes, where=change != 0)
    return slopes


def _sigmoid_slopes(logits: Float64) -> Float64:
    """Return Δσ(u) / Δu in a form without cancellation that equals the derivative for Δu = 0."""
    half = (logits[CONTEXT] - logits[BASELINE]) / 2
    growth = np.ones_like(half)
    np.divide(np.sinh(half), half, out=growth, where=half != 0)
    slopes: Float64 = growth / (4 * np.cosh(logits[CONTEXT] / 2) * np.cosh(logits[BASELINE] / 2))
    return slopes
