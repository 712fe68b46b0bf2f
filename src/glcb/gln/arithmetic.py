"""Arithmetic of the units, in float32 and without branches, so that loops over it vectorize."""

import math

import numpy as np

from glcb._arrays import Float32
from glcb._numba.compile import kernel

LANES = 8
"""Elements per SIMD vector. Rows are padded to a multiple of it."""

ZERO, HALF, ONE = np.float32(0), np.float32(0.5), np.float32(1)
LOG2_E, LN_2 = np.float32(1 / math.log(2)), np.float32(math.log(2))
SERIES = tuple(np.float32(1 / math.factorial(k)) for k in range(6, -1, -1))
"""Taylor coefficients of e^r, highest power first. For |r| ≤ ln 2 / 2, more terms do not change the
result."""


def padded(length: int) -> int:
    """Return ``length`` rounded up to a multiple of ``LANES``."""
    return -(-length // LANES) * LANES


@kernel
def exp(x: np.float32) -> np.float32:
    """Return e^x for |x| < 80, without a branch or a call."""
    power = np.rint(x * LOG2_E)
    r = x - power * LN_2
    series = SERIES[0]
    for k in range(1, len(SERIES)):
        series = SERIES[k] + r * series
    # 2**power is the float32 with this exponent and an empty mantissa.
    factor: np.float32 = np.int32((np.int32(power) + np.int32(127)) << np.int32(23)).view(np.float32)
    result: np.float32 = series * factor
    return result


@kernel
def sigmoid(logit: np.float32) -> np.float32:
    """Return 1 / (1 + e^−logit)."""
    return ONE / (ONE + exp(-logit))


@kernel
def clamp(value: np.float32, bound: np.float32) -> np.float32:
    """Return ``value`` clipped to ± ``bound``."""
    return min(max(value, -bound), bound)


@kernel
def dot(a: Float32, b: Float32) -> np.float32:
    """Return a · b."""
    total = np.float32(0)
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@kernel
def mean(a: Float32, count: int) -> np.float32:
    """Return the mean of the first ``count`` elements; the rest is padding and must be zero."""
    total = np.float32(0)
    for i in range(a.size):
        total += a[i]
    return total / np.float32(count)
