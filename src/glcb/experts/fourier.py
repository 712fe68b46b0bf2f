"""Random Fourier features of a context (Rahimi, Recht 2007).

A linear function of the features √(2/m) cos(ω·(x − ½) + φ) approximates a function from the space of a
Gaussian kernel. The directions ω are N(0, 1/ℓ²), the phases φ uniform. ℓ² is the total variance of the
contexts: half the mean squared distance between successive contexts, measured over the first
``CONTEXTS_TO_MEASURE``; the random features are 0 until then. These contexts are kept, so that their rewards
can be learned again with random features. The context itself and a constant follow the random features, so
that a linear function costs nothing.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import float32, float64, int64

from glcb._arrays import Arrays, Float32, Float64, Int64, copy_into
from glcb._numba.arrays import new_vector
from glcb._numba.compile import kernel
from glcb._numba.packed import named_tuple_type
from glcb.experts.regression import dot32

CONTEXTS_TO_MEASURE = 32
"""The length of the kernel is fixed after this many contexts."""
UNIFORM_VARIANCE = 1 / 12
"""The variance of a uniform number within [0, 1]."""

ZERO, HALF = np.float32(0), np.float32(0.5)
LANES = 8
"""Elements per SIMD vector. Directions are padded to a multiple of it."""
COSINE = tuple(
    np.float32((-1) ** k * (2 * math.pi) ** (2 * k) / math.factorial(2 * k)) for k in range(9, -1, -1)
)
"""Taylor coefficients of cos(2πr) in r², highest power first; accurate to float32 for |r| ≤ ½."""


class FourierArrays(NamedTuple):
    """The kernels' view of :class:`FourierFeatures`."""

    directions: Float32
    """One row per random feature, in turns per unit of distance for a length of 1; padded with zeros."""
    phases: Float32
    """The phase of each random feature, in turns."""
    first: Float32
    """The contexts measured so far, one per row."""
    square: Float64
    """Sum of the squared distances of successive contexts; a single element."""
    contexts: Int64
    """Number of contexts measured; a single element."""


FOURIER_ARRAYS = named_tuple_type(
    FourierArrays, float32[:, ::1], float32[::1], float32[:, ::1], float64[::1], int64[::1]
)


@kernel
def length(fourier: FourierArrays) -> float:
    """Return ℓ, with the variance of uniform contexts as one prior observation."""
    prior = UNIFORM_VARIANCE * fourier.first.shape[1]
    return math.sqrt((fourier.square[0] / 2 + prior) / max(fourier.contexts[0], 1))


@kernel
def write_linear(x: Float32, z: Float64) -> None:
    """Write [x − ½, 1] to the end of ``z``."""
    start = z.size - x.size - 1
    for i in range(x.size):
        z[start + i] = x[i] - 0.5
    z[z.size - 1] = 1.0


@kernel
def write_features(x: Float32, fourier: FourierArrays, z: Float64) -> None:
    """Write [random features, x − ½, 1] to ``z``. Random features are 0 until the length is known."""
    count = fourier.phases.size
    write_linear(x, z)
    if fourier.contexts[0] < CONTEXTS_TO_MEASURE:
        for k in range(count):
            z[k] = 0.0
        return
    frequency = np.float32(1 / length(fourier))
    center, turns = new_vector(np.float32, fourier.directions.shape[1]), new_vector(np.float32, count)
    for i in range(center.size):
        center[i] = x[i] - HALF if i < x.size else ZERO
    for k in range(count):
        turns[k] = dot32(fourier.directions[k], center)
    amplitude = np.float32(math.sqrt(2 / count))
    for k in range(count):
        turn = turns[k] * frequency + fourier.phases[k]
        r = turn - np.rint(turn)
        square = r * r
        series = COSINE[0]
        for j in range(1, len(COSINE)):
            series = COSINE[j] + square * series
        z[k] = amplitude * series


@kernel
def measure(x: Float32, fourier: FourierArrays) -> None:
    """Add the distance from the previous context to the measurement of the length, and keep ``x``."""
    step = fourier.contexts[0]
    total = 0.0
    if step > 0:
        previous = fourier.first[step - 1]
        for i in range(x.size):
            difference = np.float64(x[i]) - previous[i]
            total += difference * difference
    fourier.square[0] += total
    for i in range(x.size):
        fourier.first[step, i] = x[i]
    fourier.contexts[0] += 1


class FourierFeatures:
    """Random Fourier features, followed by the context and a constant.

    Parameters
    ----------
    features
        Number of features of a context.
    count
        Number of random features.
    rng
        Source of the directions and phases.
    """

    def __init__(self, features: int, count: int, rng: np.random.Generator) -> None:
        self.features = features
        directions: Float32 = np.zeros((count, -(-features // LANES) * LANES), np.float32)
        directions[:, :features] = rng.standard_normal((count, features)) / (2 * math.pi)
        self.arrays = FourierArrays(
            directions=directions,
            phases=rng.random(count).astype(np.float32),
            first=np.zeros((CONTEXTS_TO_MEASURE, features), np.float32),
            square=np.zeros(1),
            contexts=np.zeros(1, np.int64),
        )

    @property
    def inputs(self) -> int:
        """Number of features including the context and the constant."""
        return self.arrays.phases.size + self.features + 1

    def at(self, x: Float32) -> Float64:
        """Return the features of ``x``."""
        z = np.empty(self.inputs)
        write_features(x, self.arrays, z)
        return z

    def slopes(self, x: Float32, baseline: Float32) -> Float64:
        """Return how much each feature changes per change of the context from ``baseline`` to ``x``.

        One row per feature. A random feature depends only on its projection, so its mean derivative along the
        straight line is Δcos(u) / Δu in its direction: integrated gradients in closed form. Rows times
        x − baseline are the differences of the features.
        """
        own, count, features = self.arrays, self.arrays.phases.size, self.features
        result = np.zeros((self.inputs, features))
        result[count:-1] = np.eye(features)
        if own.contexts[0] >= CONTEXTS_TO_MEASURE:
            angular = 2 * math.pi * own.directions[:, :features].astype(np.float64) / length(own)
            ends = np.stack([x, baseline]).astype(np.float64) - 0.5
            angles = ends @ angular.T + 2 * math.pi * own.phases
            half = (angles[0] - angles[1]) / 2
            change = -np.sin(angles.mean(axis=0)) * np.sinc(half / math.pi)
            result[:count] = math.sqrt(2 / count) * change[:, None] * angular
        return result

    def snapshot(self) -> Arrays:
        """Return the random features and the measurement of the length."""
        own = self.arrays
        return {
            "wave_directions": own.directions[:, : self.features],
            "wave_phases": own.phases,
            "wave_first": own.first,
            "wave_square": own.square,
            "wave_contexts": own.contexts,
        }

    def restore(self, arrays: Arrays) -> None:
        """Restore a snapshot; raise KeyError or ValueError if it is invalid."""
        copy_into(self.snapshot(), arrays)
        if self.arrays.square[0] < 0:
            raise ValueError("the sum of squared distances of contexts is negative")
