"""The gates: random half-spaces that turn a context into one signature per unit."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from glcb._arrays import State, fill
from glcb._numba.compile import kernel
from glcb._types import Float32, Int64
from glcb.gln.arithmetic import dot, padded


class GateArrays(NamedTuple):
    """All that the kernels need to know of gates."""

    normals: Float32
    """One row per hyperplane, unit after unit, padded to whole vectors."""
    thresholds: Float32
    of_units: Int64
    """How many hyperplanes each unit has."""


@kernel
def write_signature(x: Float32, planes: GateArrays, signature: Int64) -> None:
    """Write the signature of every unit: bit k is set where w_k·x > threshold_k."""
    normals = planes.normals
    point = np.zeros(normals.shape[1], np.float32)
    for i in range(x.size):
        point[i] = x[i]
    plane = 0
    for unit in range(planes.of_units.size):
        bits = 0
        for k in range(planes.of_units[unit]):
            if dot(normals[plane], point) > planes.thresholds[plane]:
                bits |= 1 << k
            plane += 1
        signature[unit] = bits


class Gates:
    """Random half-spaces of the unit cube; ``hyperplanes`` says how many each unit has.

    Normals are uniform on the unit sphere. Thresholds put every hyperplane near the center of the cube:
    w·(x − ½) > N(0, ``bias_scale``). The signature of a unit is the integer whose bit k says on which
    side of its hyperplane k the context lies.
    """

    def __init__(
        self, features: int, hyperplanes: Sequence[int], bias_scale: float, rng: np.random.Generator
    ) -> None:
        self.features = features
        total = sum(hyperplanes)
        normals = rng.standard_normal((total, features))
        normals /= np.linalg.norm(normals, axis=-1, keepdims=True)
        offsets = rng.normal(0.0, bias_scale, total)
        self.planes = GateArrays(
            normals=np.zeros((total, padded(features)), np.float32),
            thresholds=(normals.sum(axis=-1) / 2 + offsets).astype(np.float32),
            of_units=np.array(hyperplanes, np.int64),
        )
        self.normals[:] = normals

    @staticmethod
    def bytes_needed(features: int, hyperplanes: Sequence[int]) -> int:
        """Return the memory that gates of this size need; they are drawn in double precision."""
        return sum(hyperplanes) * (4 * padded(features) + 2 * 8 * features)

    @property
    def hyperplanes(self) -> Int64:
        """How many hyperplanes each unit has."""
        return self.planes.of_units

    @property
    def units(self) -> int:
        """Number of units that have gates."""
        return len(self.hyperplanes)

    @property
    def most_signatures(self) -> int:
        """Number of different signatures that the unit with most hyperplanes can have."""
        return 1 << int(self.hyperplanes.max())

    @property
    def normals(self) -> Float32:
        """The unit normals w, one row per hyperplane, unit after unit."""
        return self.planes.normals[:, : self.features]

    @property
    def thresholds(self) -> Float32:
        """The threshold that w·x must exceed, per hyperplane."""
        return self.planes.thresholds

    def signature(self, x: Float32) -> Int64:
        """Return the signature of every unit for the context ``x``."""
        signature = np.empty(self.units, np.int64)
        write_signature(x, self.planes, signature)
        return signature

    def state(self) -> State:
        """Return what must be stored to have the same gates again."""
        return {"normals": self.normals, "thresholds": self.thresholds}

    def restore(self, state: State) -> None:
        """Take over gates that :meth:`state` returned; raise ValueError if they cannot be ours."""
        fill(self.state(), state)
