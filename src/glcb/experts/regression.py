"""Recursive regressions, one per arm: linear, or logistic for targets of 0 and 1.

A regression holds weights w and the inverse P of λI + Σ h z zᵀ, where h is the curvature of the loss: 1 for
squared errors, p (1 − p) for the logistic loss. With every target, P follows by Sherman–Morrison and w by a
Newton step. For squared errors this is ridge regression, exactly (recursive least squares). For the logistic
loss it is the extended Kalman filter of a constant state: one Newton step per target.

P is float64, because a running inverse in float32 drifts. Only its lower triangle is stored.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import boolean, float32, float64

from glcb._arrays import Arrays, Float32, Float64, Int64, copy_into, take_rows
from glcb._forgetting import halve_moment
from glcb._numba.arrays import new_vector
from glcb._numba.compile import kernel
from glcb._numba.packed import named_tuple_type
from glcb._numba.triangle import check_positive_definite, dot, multiply, pack, subtract_square, unpack

MIN_CURVATURE = 1e-4
"""The minimum curvature of a logistic loss, so that even certain predictions gain evidence."""


class RegressionArrays(NamedTuple):
    """The kernels' view of :class:`Regression`."""

    weights: Float64
    """w, one row per arm."""
    inverses: Float64
    """The lower triangle of P, one row per arm."""
    rounded: Float32
    """The inverses in float32, or empty if no uncertainty is needed. A decision reads the inverses of all
    arms; most of its time is spent waiting for memory."""
    logistic: bool
    """Whether the target is a probability, predicted as σ(w·z)."""


REGRESSION_ARRAYS = named_tuple_type(
    RegressionArrays, float64[:, ::1], float64[:, ::1], float32[:, ::1], boolean
)


@kernel
def predict_target(z: Float64, arm: int, regression: RegressionArrays) -> float:
    """Return the predicted target of one arm, not clipped."""
    output = dot(regression.weights[arm], z)
    return 1 / (1 + math.exp(-output)) if regression.logistic else output


@kernel
def square(z: Float64) -> Float32:
    """Return the lower triangle of z zᵀ, with the elements off the diagonal doubled."""
    rounded = new_vector(np.float32, z.size)
    for i in range(z.size):
        rounded[i] = z[i]
    result: Float32 = new_vector(np.float32, z.size * (z.size + 1) // 2)
    start = 0
    for i in range(z.size):
        doubled = rounded[i] + rounded[i]
        row = result[start : start + i]
        for k in range(i):
            row[k] = doubled * rounded[k]
        result[start + i] = rounded[i] * rounded[i]
        start += i + 1
    return result


@kernel
def dot32(a: Float32, b: Float32) -> np.float32:
    """Return a · b in float32."""
    total = np.float32(0)
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@kernel
def uncertainty(squared: Float32, arm: int, regression: RegressionArrays) -> float:
    """Return √(zᵀPz), the uncertainty of w·z: large where the arm has not learned from similar inputs.

    ``squared`` is ``square(z)``. With it, zᵀPz is a single long sum for each arm.
    """
    return math.sqrt(max(dot32(regression.rounded[arm], squared), np.float32(0)))


@kernel
def learn_target(z: Float64, arm: int, target: float, regression: RegressionArrays) -> None:
    """Move the regression of ``arm`` toward ``target``."""
    weights, triangle = regression.weights[arm], regression.inverses[arm]
    prediction = predict_target(z, arm, regression)
    curvature = max(prediction * (1 - prediction), MIN_CURVATURE) if regression.logistic else 1.0
    product = new_vector(np.float64, z.size)
    multiply(triangle, z, product)
    shrink = 1 / (1 + curvature * dot(z, product))
    step = shrink * (target - prediction)
    for i in range(z.size):
        weights[i] += step * product[i]
    subtract_square(triangle, shrink * curvature, product)
    for k in range(regression.rounded.shape[1]):
        regression.rounded[arm, k] = triangle[k]


class Regression:
    """One regression per arm on the same inputs.

    Parameters
    ----------
    arms
        Number of arms.
    inputs
        Number of inputs, including a constant one.
    ridge
        λ: the weight of the prior, under which all weights are 0.
    logistic
        Whether targets are 0 or 1 and predictions are probabilities.
    has_uncertainty
        Whether :func:`uncertainty` is needed.
    constant_ridge
        λ of the last input, which is constant; by default the λ of the other inputs. Forgetting moves it
        toward the other λ: otherwise, a single target could move a neglected constant far.
    """

    def __init__(
        self,
        arms: int,
        inputs: int,
        ridge: float,
        logistic: bool,
        has_uncertainty: bool = False,
        constant_ridge: float | None = None,
    ) -> None:
        self.ridge = ridge
        ridges = np.full(inputs, ridge)
        ridges[-1:] = ridge if constant_ridge is None else constant_ridge
        self.has_uncertainty = has_uncertainty
        self._initial_inverse = pack(np.diag(1 / ridges))
        inverses = np.tile(self._initial_inverse, (arms, 1))
        self.arrays = RegressionArrays(np.zeros((arms, inputs)), inverses, self._rounded(inverses), logistic)

    @staticmethod
    def bytes_needed(arms: int, inputs: int, has_uncertainty: bool = False) -> int:
        """Return the memory needed for the weights and inverses."""
        return arms * (8 * inputs + (12 if has_uncertainty else 8) * (inputs * (inputs + 1) // 2))

    def _rounded(self, inverses: Float64) -> Float32:
        return (inverses if self.has_uncertainty else inverses[:, :0]).astype(np.float32)

    @property
    def inputs(self) -> int:
        """Number of inputs."""
        inputs: int = self.arrays.weights.shape[1]
        return inputs

    def inverse(self, arm: int) -> Float64:
        """Return P of one arm as a full matrix."""
        return unpack(self.arrays.inverses[arm])

    def reset(self) -> None:
        """Forget all targets."""
        self.arrays.weights[:] = 0
        self.arrays.inverses[:] = self._initial_inverse
        self.arrays.rounded[:] = self._rounded(self.arrays.inverses)

    def forget(self, arms: slice | None = None) -> None:
        """Halve the weight of all past targets, for all or some arms. λ and the weights stay."""
        for arm in range(len(self.arrays.weights))[arms or slice(None)]:
            inverse = self.inverse(arm)
            halve_moment(inverse, self.ridge)
            self.arrays.inverses[arm] = pack(inverse)
        self.arrays.rounded[:] = self._rounded(self.arrays.inverses)

    def reorder(self, sources: Int64) -> None:
        """Replace arm j with the old arm ``sources[j]``, or with a new arm for −1."""
        inverses = take_rows(self.arrays.inverses, sources, self._initial_inverse)
        self.arrays = self.arrays._replace(
            weights=take_rows(self.arrays.weights, sources, 0),
            inverses=inverses,
            rounded=self._rounded(inverses),
        )

    def snapshot(self, name: str) -> Arrays:
        """Return the weights and inverses."""
        return {f"{name}_weights": self.arrays.weights, f"{name}_inverses": self.arrays.inverses}

    def restore(self, name: str, arrays: Arrays) -> None:
        """Restore a snapshot; raise KeyError or ValueError if it is invalid."""
        copy_into(self.snapshot(name), arrays)
        check_positive_definite(self.arrays.inverses)
        self.arrays.rounded[:] = self._rounded(self.arrays.inverses)
