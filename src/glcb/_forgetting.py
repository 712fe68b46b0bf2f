"""Forgetting: after every ``half_life`` decisions, all evidence is halved.

Halving periodically, instead of decaying slightly with every decision, keeps counts integral and updates
fast. The evidence weighs at most as much as that of 2 · ``half_life`` decisions, just before a halving, and
at least as much as that of ``half_life`` decisions, just after one.
"""

import math

import numpy as np

from glcb import _validation
from glcb._arrays import Float64
from glcb._numba.compile import kernel

_MAX_HALF_LIFE = 2**53


def check_half_life(half_life: object) -> int | None:
    """Return ``half_life`` as an integer, or None for no forgetting."""
    return None if half_life is None else _validation.integer("half_life", half_life, 2, _MAX_HALF_LIFE)


@kernel
def _invert(matrix: Float64) -> None:
    """Invert a positive definite matrix in place by Gauss–Jordan elimination."""
    size = len(matrix)
    row = np.empty(size)
    for pivot in range(size):
        root = math.sqrt(matrix[pivot, pivot])
        for i in range(size):
            row[i] = matrix[pivot, i] / root
        # The outer product of a vector with itself keeps the matrix symmetric to the last bit.
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
    """Replace the inverse of ``ridge``·I + S with that of ``ridge``·I + S/2, in place.

    Doubling the inverse would be cheaper, but would halve the ridge too: directions that never occur would
    eventually have no ridge left.
    """
    _invert(inverse)
    for i in range(len(inverse)):
        for k in range(len(inverse)):
            inverse[i, k] /= 2
        inverse[i, i] += ridge / 2
    _invert(inverse)
