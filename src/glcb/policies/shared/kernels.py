"""The compiled estimate of GLCB for many candidates in one context.

It computes the same as ``policies/glcb/kernels.py`` for the joint vector of each candidate, but everything
that depends only on the context once, and takes what depends only on the arm from a cache.
"""

import math
from typing import Any

import numpy as np

from glcb._arrays import Float32, Float64, Int64
from glcb._numba.compile import kernel
from glcb._numba.packed import unpack
from glcb.experts.fourier import CONTEXTS_TO_MEASURE, COSINE, FourierArrays, length
from glcb.experts.mixture import (
    DIAGONAL,
    DIAGONAL_LOGISTIC_BONUS,
    FOURIER,
    FOURIER_BONUS,
    LINEAR,
    LINEAR_BONUS,
    LOGISTIC_BONUS,
    NETWORKS,
    WEAK,
    ExpertArrays,
    clip,
    residual_deviation,
)
from glcb.experts.regression import square, uncertainty
from glcb.explore.counts import write_pseudocounts
from glcb.explore.scoring import add_skew, write_bonuses
from glcb.gln.arithmetic import dot
from glcb.gln.candidates import predict_candidates, signature_of_parts, write_parts
from glcb.gln.gates import GateArrays
from glcb.gln.layout import STRIDE
from glcb.gln.predict import write_inputs
from glcb.policies.glcb.kernels import GLCB_ARRAYS
from glcb.values.tree import write_moments

BLOCK = 64
"""Number of candidates that are evaluated together."""
HALF = np.float32(0.5)
"""The center of every feature."""


@kernel
def write_arm_parts(
    features: Float32,
    context: int,
    gates: GateArrays,
    fourier: FourierArrays,
    planes: Float32,
    fourier_parts: Float32,
) -> None:
    """Write the contribution of every arm to the gates and random features: one row per arm."""
    width = features.shape[1]
    centered = np.empty(width, np.float32)
    for arm in range(len(features)):
        write_parts(gates.normals, context, features[arm], planes[arm])
        for i in range(width):
            centered[i] = features[arm, i] - HALF
        write_parts(fourier.directions, context, centered, fourier_parts[arm])


@kernel
def _write_fourier(
    context: Float32, arm: Float32, fourier: FourierArrays, frequency: np.float32, result: Float32
) -> None:
    """Write all random features of the joint vector, with an amplitude of 1."""
    for k in range(context.size):
        turn = (context[k] + arm[k]) * frequency + fourier.phases[k]
        r = turn - np.rint(turn)
        square_of_turn = r * r
        series = COSINE[0]
        for j in range(1, len(COSINE)):
            series = COSINE[j] + square_of_turn * series
        result[k] = series


@kernel
def _row(index: int) -> int:
    """Return the start of a row of a lower triangle."""
    return index * (index + 1) // 2


@kernel
def _arm_square(triangle: Float32, a: Float32, first: int) -> Any:
    """Return aᵀPa for the inputs from ``first`` on."""
    total = 0.0
    for i in range(a.size):
        start = _row(first + i) + first
        total += a[i] * (2 * dot(triangle[start : start + i], a[:i]) + triangle[start + i] * a[i])
    return total


@kernel
def _products(triangle: Float32, z: Float32, constant: int, first: int, result: Float32) -> None:
    """Write P z for the inputs from ``first`` on, where z has the inputs 0, 1, … and the constant."""
    for i in range(result.size):
        start = _row(first + i)
        result[i] = dot(triangle[start : start + z.size], z) + triangle[_row(constant) + first + i]


@kernel
def _context_square(triangle: Float32, z: Float32, constant: int) -> Any:
    """Return zᵀPz, where z has the inputs 0, 1, … and the constant."""
    last = _row(constant)
    square = _arm_square(triangle, z, 0) + triangle[last + constant]
    return square + 2 * dot(triangle[last : last + z.size], z)


@kernel
def _probability(output: Any) -> float:
    return 1 / (1 + math.exp(-float(output)))


@kernel
def _join_inputs(fourier_parts: Float32, center: Float32, a: Float32, z: Float64) -> None:
    """Write the inputs of the regression on random features: random features, context, arm and constant."""
    amplitude = math.sqrt(2 / fourier_parts.size)
    for k in range(fourier_parts.size):
        z[k] = amplitude * fourier_parts[k]
    for i in range(center.size):
        z[fourier_parts.size + i] = center[i]
    for i in range(a.size):
        z[fourier_parts.size + center.size + i] = a[i]
    z[z.size - 1] = 1.0


@kernel
def _mix(
    x: Float32,
    features: Float32,
    fourier_parts: Float32,
    values: Float64,
    deviations: Float64,
    bonuses: Float64,
    experts: ExpertArrays,
    has_networks: bool,
) -> None:
    """Replace network values with mixture values; write the bonuses of the regressions.

    Without networks, the values come from the regressions alone.
    """
    shares, fourier, context, width = experts.shares, experts.features, x.size, features.shape[1]
    center = x - HALF
    has_linear, has_fourier = shares[LINEAR] > 0, shares[FOURIER] > 0
    linear = experts.linear.weights[0].astype(np.float32)
    weak = experts.weak.weights[0].astype(np.float32)
    diagonal, evidence = experts.diagonal.weights[0], experts.diagonal.evidence[0]
    triangle = experts.linear.rounded[0]
    has_bonus = has_linear and triangle.size > 0
    constant = linear.size - 1
    linear_context, weak_context, square_context = 0.0, 0.0, 0.0
    diagonal_context, diagonal_square = 0.0, 0.0
    cross = np.zeros(width if has_bonus else 0, np.float32)
    if has_linear:
        linear_context = dot(linear[:context], center) + linear[constant]
    if shares[WEAK] > 0:
        weak_context = dot(weak[:context], center) + weak[constant]
    if shares[DIAGONAL] > 0:
        diagonal_context = diagonal[context + width]
        diagonal_square = 1 / evidence[context + width]
        for i in range(context):
            diagonal_context += diagonal[i] * x[i]
            diagonal_square += x[i] * x[i] / evidence[i]
    if has_bonus:
        square_context = _context_square(triangle, center, constant)
        _products(triangle, center, constant, context, cross)
    all_weights = experts.fourier.weights[0]
    count = fourier.phases.size
    fourier_weights = np.zeros(count, np.float32)
    rest = all_weights[count:].astype(np.float32)
    context_fourier = np.zeros(count, np.float32)
    fourier_context, frequency = 0.0, np.float32(1)
    is_measured = has_fourier and fourier.contexts[0] >= CONTEXTS_TO_MEASURE
    if has_fourier:
        fourier_context = dot(rest[:context], center) + rest[rest.size - 1]
    if is_measured:
        frequency = np.float32(1 / length(fourier))
        amplitude = math.sqrt(2 / count)
        for k in range(count):
            fourier_weights[k] = amplitude * all_weights[k]
        write_parts(fourier.directions, 0, center, context_fourier)
    fourier_values = np.zeros(count, np.float32)
    z = np.zeros(experts.fourier.weights.shape[1] if experts.fourier.rounded.size > 0 else 0)
    a = np.empty(width, np.float32)
    scale, deviation = experts.high - experts.low, residual_deviation(0, experts)
    for c in range(values.size):
        for i in range(width):
            a[i] = features[c, i] - HALF
        mean, bonus, size = 0.0, 0.0, shares[LINEAR] * LINEAR_BONUS * deviation
        if has_linear:
            output = float(linear_context + dot(linear[context:constant], a))
            predicted = clip(_probability(output) if experts.linear.logistic else output, experts)
            mean += shares[LINEAR] * predicted
            if experts.binary:
                size = shares[LINEAR] * LOGISTIC_BONUS * predicted * (1 - predicted)
        if shares[WEAK] > 0:
            predicted = clip(_probability(weak_context + dot(weak[context:constant], a)), experts)
            mean += shares[WEAK] * predicted
            size += shares[WEAK] * LOGISTIC_BONUS * predicted * (1 - predicted)
        if has_fourier:
            output = float(fourier_context + dot(rest[context : rest.size - 1], a))
            if is_measured:
                _write_fourier(context_fourier, fourier_parts[c], fourier, frequency, fourier_values)
                output += float(dot(fourier_values, fourier_weights))
            mean += shares[FOURIER] * clip(output, experts)
        if has_bonus:
            own, both = _arm_square(triangle, a, context), dot(cross, a)
            bonus = size * math.sqrt(max(float(square_context + own + 2 * both), 0.0))
        if shares[DIAGONAL] > 0:
            output, own_square = diagonal_context, diagonal_square
            for i in range(width):
                output += diagonal[context + i] * features[c, i]
                own_square += features[c, i] * features[c, i] / evidence[context + i]
            predicted = clip(_probability(output) if experts.diagonal.logistic else output, experts)
            mean += shares[DIAGONAL] * predicted
            size = DIAGONAL_LOGISTIC_BONUS * predicted * (1 - predicted)
            if not experts.binary:
                size = LINEAR_BONUS * deviation
            bonus += shares[DIAGONAL] * size * math.sqrt(own_square)
        if z.size > 0:
            _join_inputs(fourier_values, center, a, z)
            size = shares[FOURIER] * FOURIER_BONUS * deviation
            bonus += size * uncertainty(square(z), 0, experts.fourier)
        if has_networks:
            mean += shares[NETWORKS] * (values[c] - experts.low) / scale
        else:
            mean /= 1 - shares[NETWORKS]
            deviations[c] = scale * deviation
        values[c] = experts.low + scale * mean
        bonuses[c] = scale * bonus
        if experts.binary:
            deviations[c] = math.sqrt(shares[NETWORKS] * mean * (1 - mean))
        else:
            deviations[c] = min(deviations[c], scale * deviation)


@kernel
def estimate_candidates(
    x: Float32,
    features: Float32,
    planes: Float32,
    fourier_parts: Float32,
    has_networks: bool,
    results: Float64,
    addresses: Int64,
) -> None:
    """Write value, bonus and pseudocount of every candidate: ``results`` is [3, candidates].

    Without networks, which take most of the time, values come from the regressions.
    """
    arrays = unpack(addresses, GLCB_ARRAYS)
    gates, bank, tree, counts, rates = arrays.gates, arrays.bank, arrays.tree, arrays.counts, arrays.rates
    context, candidates = x.size, len(features)
    units, networks = gates.hyperplanes.size, len(bank.mixture)
    context_planes = np.empty(planes.shape[1], np.float32)
    write_parts(gates.normals, 0, x, context_planes)
    for plane in range(context_planes.size):
        context_planes[plane] -= gates.thresholds[plane]
    values, bonuses, pseudocounts = results[0], results[1], results[2]
    deviations, uncertainties = np.empty(candidates), np.zeros(candidates)
    signatures = np.empty((BLOCK, units), np.int64)
    inputs = np.zeros((BLOCK, bank.layout[0, STRIDE]), np.float32)
    probabilities = np.empty((BLOCK, networks), np.float32)
    for c in range(BLOCK):
        if c == 0:
            write_inputs(x, bank.lowest_input, bank.bias, inputs[0])
        for i in range(context + 1):
            inputs[c, i] = inputs[0, i]
    for first in range(0, candidates, BLOCK):
        count = min(BLOCK, candidates - first)
        for c in range(count):
            signature_of_parts(context_planes, planes[first + c], gates, signatures[c])
            write_pseudocounts(signatures[c], counts, pseudocounts[first + c : first + c + 1])
        if not has_networks:
            continue
        for c in range(count):
            bias = inputs[c, context]  # saved, because it is overwritten
            write_inputs(features[first + c], bank.lowest_input, bank.bias, inputs[c, context:])
            inputs[c, context] = bias
        predict_candidates(inputs[:count], signatures[:count], bank, probabilities[:count])
        for c in range(count):
            at = slice(first + c, first + c + 1)
            write_moments(probabilities[c : c + 1], tree.outcomes, values[at], deviations[at])
    if arrays.expert_inputs.size > 0:
        _mix(x, features, fourier_parts, values, deviations, uncertainties, arrays.experts, has_networks)
    for c in range(candidates):
        deviations[c] = rates.bonus_scale * (deviations[c] if rates.bonus_in_deviations else 1.0)
    write_bonuses(pseudocounts, counts.total[0] + 1, deviations, bonuses)
    if arrays.expert_inputs.size > 0 and arrays.experts.binary:
        add_skew(values, counts.total[0] + 1, pseudocounts, bonuses)
    for c in range(candidates):
        bonuses[c] += uncertainties[c]
