"""What is learned, as arrays by name: the form in which every part hands out its state and takes it back."""

import numpy as np
from numpy.typing import ArrayLike

State = dict[str, np.ndarray]

_LARGEST_COUNT = 2**53


def fill(arrays: State, given: State) -> None:
    """Copy what is given into the arrays of the same name; raise ValueError or KeyError if it is not ours."""
    for name, own in arrays.items():
        new = given[name]
        if new.shape != own.shape or new.dtype != own.dtype:
            raise ValueError(f"{name} is {new.dtype} {new.shape}, expected {own.dtype} {own.shape}")
        own[...] = sane(name, new)


def sane(name: str, array: np.ndarray) -> np.ndarray:
    """Return ``array`` if learning can have made it: finite numbers, and counts that nobody overflowed."""
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{name} holds something that is not a finite number")
    if array.dtype.kind == "i" and array.size and not 0 <= array.min() <= array.max() <= _LARGEST_COUNT:
        raise ValueError(f"{name} holds something that is not a count")
    return array


def rearranged(array: np.ndarray, sources: np.ndarray, untried: ArrayLike) -> np.ndarray:
    """Return rows ``sources`` of an array with one row per arm, and ``untried`` where the source is −1.

    >>> rearranged(np.array([5, 6, 7]), np.array([0, 2, -1, 2]), 1)
    array([5, 7, 1, 7])
    """
    rows: np.ndarray = array[sources]
    rows[sources < 0] = untried
    return rows
