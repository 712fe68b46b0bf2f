"""The gates: random half-spaces that map a context to one signature per unit."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba import float32, int64

from glcb._arrays import Arrays, Float32, Int64, copy_into
from glcb._numba.arrays import new_vector
from glcb._numba.compile import kernel
from glcb._numba.packed import named_tuple_type
from glcb.gln.arithmetic import dot, padded


class GateArrays(NamedTuple):
    """The kernels' view of :class:`Gates`."""

    normals: Float32
    """One row per hyperplane, grouped by unit, padded."""
    thresholds: Float32
    """One per hyperplane."""
    hyperplanes: Int64
    """Number of hyperplanes of each unit."""


GATE_ARRAYS = named_tuple_type(GateArrays, float32[:, ::1], float32[::1], int64[::1])


@kernel
def write_signature(x: Float32, gates: GateArrays, signature: Int64) -> None:
    """Write the signature of every unit: bit k is set where w_k·x > threshold_k."""
    normals = gates.normals
    point = new_vector(np.float32, normals.shape[1])
    for i in range(point.size):
        point[i] = x[i] if i < x.size else np.float32(0)
    plane = 0
    for unit in range(gates.hyperplanes.size):
        bits = 0
        for k in range(gates.hyperplanes[unit]):
            if dot(normals[plane], point) > gates.thresholds[plane]:
                bits |= 1 << k
            plane += 1
        signature[unit] = bits


class Gates:
    """Random half-spaces of the unit cube.

    Normals are uniform on the unit sphere. Thresholds place every hyperplane near the center of the cube:
    w·(x − ½) > N(0, ``bias_scale``). Bit k of a unit's signature is set if the context is on the positive
    side of its hyperplane k.

    Parameters
    ----------
    features
        Number of features of a context.
    hyperplanes
        Number of hyperplanes of each unit.
    bias_scale
        Standard deviation of the thresholds around the center of the cube.
    rng
        Source of the normals and thresholds.
    """

    def __init__(
        self, features: int, hyperplanes: Sequence[int], bias_scale: float, rng: np.random.Generator
    ) -> None:
        self.features = features
        total = sum(hyperplanes)
        normals = rng.standard_normal((total, features))
        normals /= np.linalg.norm(normals, axis=-1, keepdims=True)
        offsets = rng.normal(0.0, bias_scale, total)
        self.arrays = GateArrays(
            normals=np.zeros((total, padded(features)), np.float32),
            thresholds=(normals.sum(axis=-1) / 2 + offsets).astype(np.float32),
            hyperplanes=np.array(hyperplanes, np.int64),
        )
        self.normals[:] = normals

    @staticmethod
    def bytes_needed(features: int, hyperplanes: Sequence[int]) -> int:
        """Return the memory needed to create gates of this size, including the draws in float64."""
        return sum(hyperplanes) * (4 * padded(features) + 2 * 8 * features)

    @property
    def hyperplanes(self) -> Int64:
        """Number of hyperplanes of each unit."""
        return self.arrays.hyperplanes

    @property
    def units(self) -> int:
        """Number of units."""
        return len(self.hyperplanes)

    @property
    def max_signatures(self) -> int:
        """Number of possible signatures of the unit with the most hyperplanes."""
        return 1 << int(self.hyperplanes.max())

    @property
    def normals(self) -> Float32:
        """The unit normals w, one row per hyperplane, grouped by unit."""
        return self.arrays.normals[:, : self.features]

    @property
    def thresholds(self) -> Float32:
        """The threshold that w·x must exceed, one per hyperplane."""
        return self.arrays.thresholds

    def signature(self, x: Float32) -> Int64:
        """Return the signature of every unit for the context ``x``."""
        signature = np.empty(self.units, np.int64)
        write_signature(x, self.arrays, signature)
        return signature

    def snapshot(self) -> Arrays:
        """Return the normals and thresholds."""
        return {"normals": self.normals, "thresholds": self.thresholds}

    def restore(self, arrays: Arrays) -> None:
        """Restore a snapshot; raise KeyError or ValueError if it is invalid."""
        copy_into(self.snapshot(), arrays)
