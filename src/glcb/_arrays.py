"""Types of arrays, and snapshots as named arrays: check, restore and reorder them."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]
UInt32 = NDArray[np.uint32]
Bool = NDArray[np.bool_]

Arrays = dict[str, np.ndarray]
"""Arrays by name, returned by ``snapshot()`` and accepted by ``restore()`` of every component."""

_MAX_COUNT = 2**53


def copy_into(targets: Arrays, sources: Arrays) -> None:
    """Copy each source into the target of the same name.

    Raises
    ------
    KeyError
        If a source is missing.
    ValueError
        If a source has the wrong dtype or shape, or invalid values.
    """
    for name, target in targets.items():
        source = sources[name]
        if source.shape != target.shape or source.dtype != target.dtype:
            raise ValueError(
                f"{name} must be {target.dtype} {target.shape}, got {source.dtype} {source.shape}"
            )
        target[...] = check_values(name, source)


def check_values(name: str, array: np.ndarray) -> np.ndarray:
    """Return ``array`` if its floats are finite and its integers are counts; raise ValueError otherwise."""
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, but contains NaN or infinity")
    if array.dtype.kind == "i" and array.size and not 0 <= array.min() <= array.max() <= _MAX_COUNT:
        raise ValueError(f"{name} must contain counts from 0 to 2**53")
    return array


def take_rows(array: np.ndarray, sources: np.ndarray, default: ArrayLike) -> np.ndarray:
    """Return the rows ``sources`` of ``array``, with ``default`` where the source is −1.

    >>> take_rows(np.array([5, 6, 7]), np.array([0, 2, -1, 2]), 1)
    array([5, 7, 1, 7])
    """
    rows: np.ndarray = array[sources]
    rows[sources < 0] = default
    return rows
