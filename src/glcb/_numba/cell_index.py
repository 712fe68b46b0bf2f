"""A directory says where the cell of a (unit, signature) stands, or −1 where nobody has been yet.

Cells are handed out in the order of their first visit, so that order is all there is to store.
"""

import numpy as np

from glcb._numba.compile import kernel
from glcb._types import Int64

FOR_EVER = 2**62
"""For so many steps there is room where all cells are there: more than anybody takes."""


def empty_directory(units: int, signatures: int) -> Int64:
    """Return a directory in which nobody has been anywhere."""
    return np.full((units, signatures), -1, np.int64)


@kernel
def entries(directory: Int64, signature: Int64) -> Int64:
    """Return where the cell of every unit stands: random places in memory, asked for all at once."""
    places = np.empty(signature.size, np.int64)
    for unit in range(signature.size):
        places[unit] = directory[unit, signature[unit]]
    return places


def visits(directory: Int64) -> Int64:
    """Return the visited places as flat indices, first visit first."""
    visited = np.flatnonzero(directory.ravel() >= 0)
    return visited[np.argsort(directory.ravel()[visited])]


def checked_visits(order: Int64, directory: Int64) -> Int64:
    """Return ``order`` if it can be a list of visits to ``directory``; else raise ValueError."""
    if order.dtype != np.int64 or order.ndim != 1:
        raise ValueError("the list of visited cells is not a list of integers")
    if order.size and not 0 <= order.min() <= order.max() < directory.size:
        raise ValueError("a visited cell lies outside the network")
    if np.unique(order).size != order.size:
        raise ValueError("a visited cell occurs twice")
    return order
