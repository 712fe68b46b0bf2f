"""What units compute with: float32 throughout, written so that loops over it vectorize."""

import math

import numpy as np

from glcb._numba.compile import kernel
from glcb._types import Float32

LANES = 8
"""Numbers in a vector; rows are padded to whole ones."""

ZERO, HALF, ONE = np.float32(0), np.float32(0.5), np.float32(1)
LOG2_E, LN_2 = np.float32(1 / math.log(2)), np.float32(math.log(2))
SERIES = tuple(np.float32(1 / math.factorial(k)) for k in range(6, -1, -1))
"""Coefficients of e^r, highest power first; with r up to ln 2 / 2, more would make no difference."""


def padded(length: int) -> int:
    """Return ``length`` rounded up to whole vectors."""
    return -(-length // LANES) * LANES


@kernel
def exp(x: np.float32) -> np.float32:
    """Return e^x for |x| < 80. There is no branch and no call in it, so loops over it vectorize."""
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
def sigmoid(logit: np.float32) -> np.float32:
    """Return 1 / (1 + e^−logit)."""
    return ONE / (ONE + exp(-logit))


@kernel
def clamp(value: np.float32, bound: np.float32) -> np.float32:
    """Return ``value`` kept within ± ``bound``."""
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
    """Return the sum of ``a``, divided by ``count``: padding is zero and does not count."""
    total = np.float32(0)
    for i in range(a.size):
        total += a[i]
    return total / np.float32(count)
