"""Symmetric matrices stored as their lower triangle, row by row.

Half the memory is read and written, and the matrix is symmetric by construction.
"""

import math
from collections.abc import Iterable

import numpy as np

from glcb._arrays import Float64
from glcb._numba.compile import kernel


@kernel
def dot(a: Float64, b: Float64) -> float:
    """Return a · b in float64. A sum needs its own loop: see ``glcb._numba.compile``."""
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@kernel
def multiply(triangle: Float64, z: Float64, product: Float64) -> None:
    """Write the product of the matrix with ``z``."""
    start = 0
    for i in range(z.size):
        row = triangle[start : start + i]
        product[i] = dot(row, z[:i]) + triangle[start + i] * z[i]
        for k in range(i):
            product[k] += row[k] * z[i]
        start += i + 1


@kernel
def subtract_square(triangle: Float64, factor: float, vector: Float64) -> None:
    """Subtract ``factor`` · v vᵀ from the matrix."""
    start = 0
    for i in range(vector.size):
        row = triangle[start : start + i + 1]
        scaled = factor * vector[i]
        for k in range(i + 1):
            row[k] -= scaled * vector[k]
        start += i + 1


@kernel
def rows(triangle: Float64) -> int:
    """Return the number of rows of the matrix."""
    return int(math.sqrt(2 * triangle.size))


@kernel
def _factorize(triangle: Float64, factor: Float64) -> bool:
    """Write the Cholesky factor of the matrix; return whether there is one."""
    start = 0
    for i in range(rows(triangle)):
        row = factor[start : start + i]
        other = 0
        for k in range(i):
            rest = triangle[start + k] - dot(row[:k], factor[other : other + k])
            row[k] = rest / factor[other + k]
            other += k + 1
        rest = triangle[start + i] - dot(row, row)
        if not rest > 0.0:
            return False
        factor[start + i] = math.sqrt(rest)
        start += i + 1
    return True


def check_positive_definite(triangles: Iterable[Float64]) -> None:
    """Raise ValueError unless all matrices are positive definite.

    LAPACK does the same for full matrices, but its threads make it slow for small matrices, especially when
    other processes use the cores.
    """
    for triangle in triangles:
        if not _factorize(triangle, np.empty_like(triangle)):
            raise ValueError("a matrix is not positive definite")


def pack(matrix: Float64) -> Float64:
    """Return the lower triangle of a symmetric matrix."""
    return matrix[np.tril_indices(len(matrix))]


def unpack(triangle: Float64) -> Float64:
    """Return the full matrix."""
    size = rows(triangle)
    matrix = np.zeros((size, size))
    matrix[np.tril_indices(size)] = triangle
    full: Float64 = matrix + np.tril(matrix, -1).T
    return full
