"""Forgetting: after every ``half_life`` decisions, all evidence is halved, as is evidence for copied arms.

Halving periodically, instead of decaying slightly with every decision, keeps counts integral and updates
fast. The evidence weighs at most as much as 2 · ``half_life`` decisions, just before a halving, and at least
as much as ``half_life`` decisions, just after one.
"""

import math

import numpy as np

from glcb import _validation
from glcb._arrays import Float64
from glcb._numba.compile import kernel

_MAX_HALF_LIFE = 2**53
COPIED_DECISIONS = 64
"""Maximum number of decisions of evidence for a copied arm, because the new arm may differ."""


def check_half_life(half_life: object) -> int | None:
    """Return ``half_life`` as an integer, or None for no forgetting."""
    return None if half_life is None else _validation.integer("half_life", half_life, 2, _MAX_HALF_LIFE)


def halvings_of_copy(decisions: int, half_life: int | None) -> int:
    """Return how often the evidence for an arm with this many decisions is halved when the arm is copied.

    >>> halvings_of_copy(64, None), halvings_of_copy(65, None), halvings_of_copy(5000, 100)
    (0, 1, 2)
    """
    evidence = decisions if half_life is None else min(decisions, 2 * half_life)
    return max(0, math.ceil(math.log2(max(evidence, 1) / COPIED_DECISIONS)))


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
    """Replace the inverse of ``ridge``·I + S with the inverse of ``ridge``·I + S/2, in place.

    Doubling the inverse would be cheaper, but would halve the ridge too: directions that never occur would
    eventually have no ridge left.
    """
    _invert(inverse)
    for i in range(len(inverse)):
        for k in range(len(inverse)):
            inverse[i, k] /= 2
        inverse[i, i] += ridge / 2
    _invert(inverse)
