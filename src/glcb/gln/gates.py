"""The gates: random half-spaces that turn a context into one signature per unit."""

from collections.abc import Sequence

import numpy as np

from glcb._compile import kernel
from glcb._state import State, fill
from glcb._types import Float32, Int64
from glcb.gln.kernels import padded
from glcb.gln.memo import Memo


@kernel
def _signature_of(
    x: Float32, normals: Float32, thresholds: Float32, hyperplanes: Int64, signature: Int64
) -> None:
    """Write the signature of every unit: bit k is set where w_k·x > threshold_k."""
    width = normals.shape[1]
    point = np.zeros(width, np.float32)
    point[: x.size] = x
    plane = 0
    for unit in range(hyperplanes.size):
        bits = 0
        for k in range(hyperplanes[unit]):
            total = np.float32(0)
            for i in range(width):
                total += normals[plane, i] * point[i]
            if total > thresholds[plane]:
                bits |= 1 << k
            plane += 1
        signature[unit] = bits


@kernel
def _signatures_of(
    contexts: Float32, normals: Float32, thresholds: Float32, hyperplanes: Int64, signatures: Int64
) -> None:
    """Write the signatures of many contexts, one row each."""
    for row in range(len(contexts)):
        _signature_of(contexts[row], normals, thresholds, hyperplanes, signatures[row])


class Gates:
    """Random half-spaces of the unit cube; ``hyperplanes`` says how many each unit has.

    Normals are uniform on the unit sphere. Thresholds put every hyperplane near the centre of the cube:
    w·(x − ½) > N(0, ``bias_scale``). The signature of a unit is the integer whose bit k says on which
    side of its hyperplane k the context lies.
    """

    def __init__(
        self, features: int, hyperplanes: Sequence[int], bias_scale: float, rng: np.random.Generator
    ) -> None:
        self.features = features
        self.hyperplanes: Int64 = np.array(hyperplanes, np.int64)
        total = int(self.hyperplanes.sum())
        normals = rng.standard_normal((total, features))
        normals /= np.linalg.norm(normals, axis=-1, keepdims=True)
        offsets = rng.normal(0.0, bias_scale, total)
        self._normals: Float32 = np.zeros((total, padded(features)), np.float32)
        self._normals[:, :features] = normals
        self._thresholds: Float32 = (normals.sum(axis=-1) / 2 + offsets).astype(np.float32)
        self._signature: Memo[Int64] = Memo()

    @staticmethod
    def bytes_needed(features: int, hyperplanes: Sequence[int]) -> int:
        """Return the memory that gates of this size need; they are drawn in double precision."""
        return sum(hyperplanes) * (4 * padded(features) + 2 * 8 * features)

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
        return self._normals[:, : self.features]

    @property
    def thresholds(self) -> Float32:
        """The threshold that w·x must exceed, per hyperplane."""
        return self._thresholds

    def signature(self, x: Float32) -> Int64:
        """Return the signature of every unit for the context ``x``."""
        return self._signature(self._find_signature, x)

    def _find_signature(self, x: Float32) -> Int64:
        signature = np.empty(self.units, np.int64)
        _signature_of(x, self._normals, self._thresholds, self.hyperplanes, signature)
        return signature

    def signatures(self, contexts: Float32) -> Int64:
        """Return the signatures of many contexts, one row each."""
        signatures = np.empty((len(contexts), self.units), np.int64)
        _signatures_of(contexts, self._normals, self._thresholds, self.hyperplanes, signatures)
        return signatures

    def state(self) -> State:
        """Return what must be stored to have the same gates again."""
        return {"normals": self.normals, "thresholds": self._thresholds}

    def restore(self, state: State) -> None:
        """Take over gates that :meth:`state` returned; raise ValueError if they cannot be ours."""
        fill(self.state(), state)
        self._signature.clear()
