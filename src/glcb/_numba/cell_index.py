"""The cell index: maps each (unit, signature) to the position of its cell, or to −1 if it was never visited.

Cells are allocated in the order of their first visit, so this order is all that has to be stored.
"""

import numpy as np

from glcb._arrays import Int64
from glcb._numba.arrays import new_vector
from glcb._numba.compile import kernel

UNLIMITED = 2**62
"""The number of further updates that fit when every possible cell is allocated."""
MIN_STEPS = 16
"""A pool grows when it has space for fewer steps than this, so that its capacity is rarely checked."""


def empty_index(units: int, signatures: int) -> Int64:
    """Return an index without any visited cell."""
    return np.full((units, signatures), -1, np.int64)


@kernel
def lookup(index: Int64, signature: Int64) -> Int64:
    """Return the position of each unit's cell. One loop issues all random memory accesses together."""
    positions: Int64 = new_vector(np.int64, signature.size)
    for unit in range(signature.size):
        positions[unit] = index[unit, signature[unit]]
    return positions


def visited_cells(index: Int64) -> Int64:
    """Return the visited entries as flat indices, in the order of their first visit."""
    visited = np.flatnonzero(index.ravel() >= 0)
    return visited[np.argsort(index.ravel()[visited])]


def check_visited_cells(order: Int64, index: Int64) -> Int64:
    """Return ``order`` if it is a valid list of visited cells of ``index``; raise ValueError otherwise."""
    if order.dtype != np.int64 or order.ndim != 1:
        raise ValueError(f"visited cells must be a list of int64, got {order.dtype} {order.shape}")
    if order.size and not 0 <= order.min() <= order.max() < index.size:
        raise ValueError("a visited cell is outside the index")
    if np.unique(order).size != order.size:
        raise ValueError("a visited cell occurs twice")
    return order
