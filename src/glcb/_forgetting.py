"""What parts that forget share: after every so many plays, all evidence counts half.

Halving now and then, instead of a little with every play, leaves counts whole numbers and a step as fast as
before. Just before it happens, the evidence weighs as much as that of twice as many plays, just after as much
as that of once as many.
"""

import math

import numpy as np

from glcb import _validation
from glcb._numba.compile import kernel
from glcb._types import Float64

_LONGEST = 2**53


def checked_half_life(half_life: object) -> int | None:
    """Return after how many plays all evidence counts half; None is never."""
    return None if half_life is None else _validation.whole_number("half_life", half_life, 2, _LONGEST)


@kernel
def _invert(matrix: Float64) -> None:
    """Turn a positive definite matrix into its inverse, in place (Gauss–Jordan elimination)."""
    size = len(matrix)
    row = np.empty(size)
    for pivot in range(size):
        root = math.sqrt(matrix[pivot, pivot])
        for i in range(size):
            row[i] = matrix[pivot, i] / root
        # One vector times itself: what is symmetric stays symmetric to the last bit.
        for i in range(size):
            for k in range(size):
                matrix[i, k] -= row[i] * row[k]
        for i in range(size):
            matrix[pivot, i] = matrix[i, pivot] = row[i] / root
        matrix[pivot, pivot] = -1 / (root * root)
    for i in range(size):
        for k in range(size):
            matrix[i, k] = -matrix[i, k]


@kernel
def halve_moment(inverse: Float64, ridge: float) -> None:
    """Turn the inverse of ``ridge``·I + S into that of ``ridge``·I + S/2, in place.

    Doubling the inverse would be cheaper, but halves the ridge too: directions that never occur would have
    none left after a while.
    """
    _invert(inverse)
    for i in range(len(inverse)):
        for k in range(len(inverse)):
            inverse[i, k] /= 2
        inverse[i, i] += ridge / 2
    _invert(inverse)
