"""Symmetric matrices of which only the lower triangle is stored, row by row.

Half the memory is read and written, and the matrix is symmetric by construction.
"""

import math

import numpy as np

from glcb._arrays import Float64
from glcb._numba.compile import kernel


@kernel
def dot(a: Float64, b: Float64) -> float:
    """Return a · b in float64. A sum needs a loop of its own: see ``glcb._numba.compile``."""
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
