"""Regressions for wide contexts, one per arm, that ignore dependencies between features.

A regression holds weights w and, instead of an inverse matrix, the evidence q of each feature: λ plus the sum
of h x², where h is the curvature of the loss, as in ``regression.py``. With every target, weights move by
(r − r̂) x / q, divided by 1 + h Σ x²/q: a damped Newton step. Features that are 0 cost and learn nothing, so
features are not centered.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import boolean, float64

from glcb._arrays import Arrays, Float32, Float64, Int64, copy_into, take_rows
from glcb._numba.compile import kernel
from glcb._numba.packed import named_tuple_type
from glcb.experts.regression import MIN_CURVATURE


class DiagonalArrays(NamedTuple):
    """The kernels' view of :class:`DiagonalRegression`."""

    weights: Float64
    """w, one row per arm. The last weight belongs to the constant."""
    evidence: Float64
    """q, one row per arm."""
    logistic: bool
    """Whether the target is a probability, predicted as σ(w·x)."""


DIAGONAL_ARRAYS = named_tuple_type(DiagonalArrays, float64[:, ::1], float64[:, ::1], boolean)


@kernel
def predict_diagonal(x: Float32, arm: int, regression: DiagonalArrays) -> float:
    """Return the predicted target of one arm, not clipped."""
    weights = regression.weights[arm]
    output = weights[x.size]
    for i in range(x.size):
        if x[i] != 0:
            output += weights[i] * x[i]
    return 1 / (1 + math.exp(-output)) if regression.logistic else output


@kernel
def diagonal_square(x: Float32, arm: int, regression: DiagonalArrays) -> float:
    """Return Σ x²/q, the squared uncertainty of w·x."""
    evidence = regression.evidence[arm]
    total: float = 1 / evidence[x.size]
    for i in range(x.size):
        if x[i] != 0:
            total += x[i] * x[i] / evidence[i]
    return total


@kernel
def learn_diagonal(x: Float32, arm: int, target: float, regression: DiagonalArrays) -> None:
    """Move the regression of ``arm`` toward ``target``."""
    weights, evidence = regression.weights[arm], regression.evidence[arm]
    prediction = predict_diagonal(x, arm, regression)
    curvature = max(prediction * (1 - prediction), MIN_CURVATURE) if regression.logistic else 1.0
    step = (target - prediction) / (1 + curvature * diagonal_square(x, arm, regression))
    for i in range(x.size):
        if x[i] != 0:
            evidence[i] += curvature * x[i] * x[i]
            weights[i] += step * x[i] / evidence[i]
    evidence[x.size] += curvature
    weights[x.size] += step / evidence[x.size]


class DiagonalRegression:
    """One regression per arm.

    Parameters
    ----------
    arms
        Number of arms.
    inputs
        Number of features plus one for the constant; 0 if there is no regression.
    ridge
        λ: the weight of the prior, under which all weights are 0.
    logistic
        Whether targets are 0 or 1 and predictions are probabilities.
    """

    def __init__(self, arms: int, inputs: int, ridge: float, logistic: bool) -> None:
        self.ridge = ridge
        evidence = np.full((arms, inputs), ridge)
        self.arrays = DiagonalArrays(np.zeros((arms, inputs)), evidence, logistic)

    @staticmethod
    def bytes_needed(arms: int, inputs: int) -> int:
        """Return the memory needed for weights and evidence."""
        return 16 * arms * inputs

    def forget(self, arms: slice | None = None) -> None:
        """Halve the weight of all past targets, for all or some arms. λ and the weights stay."""
        evidence = self.arrays.evidence[arms or slice(None)]
        evidence[:] = (evidence + self.ridge) / 2

    def reorder(self, sources: Int64) -> None:
        """Replace arm j with the old arm ``sources[j]``, or with a new arm for −1."""
        self.arrays = self.arrays._replace(
            weights=take_rows(self.arrays.weights, sources, 0),
            evidence=take_rows(self.arrays.evidence, sources, self.ridge),
        )

    def snapshot(self) -> Arrays:
        """Return weights and evidence."""
        return {"diagonal_weights": self.arrays.weights, "diagonal_evidence": self.arrays.evidence}

    def restore(self, arrays: Arrays) -> None:
        """Restore a snapshot; raise KeyError or ValueError if it is invalid."""
        copy_into(self.snapshot(), arrays)
        if self.arrays.evidence.min(initial=self.ridge) < self.ridge:
            raise ValueError(f"the evidence of features must be at least {self.ridge:g}")
