"""Optimizers: how the weights of the bank move.

An optimizer receives the inputs that all units of the first layer share. It returns the directions in which
these units can move and the rate of every unit. The bank applies them: a unit with probability p and target r
moves by −rate · (p − r) along its direction. Units above the first layer move along their own inputs.
"""

from typing import NamedTuple

import numpy as np
from numba import float32, float64, int64

from glcb._arrays import Arrays, Float32, Float64, Int64, copy_into
from glcb._forgetting import halve_moment
from glcb._numba.arrays import as_matrix, new_matrix, new_vector
from glcb._numba.compile import kernel
from glcb._numba.packed import named_tuple_type
from glcb._numba.triangle import check_positive_definite, dot, multiply, pack, rows, subtract_square, unpack


class Move(NamedTuple):
    """The direction and rate of every unit for one update."""

    directions: Float32
    """The possible directions of units of the first layer, padded like the inputs."""
    direction_of: Int64
    """The index of the direction of each unit of the first layer."""
    rates: Float32
    """The step of each unit for an error of 1."""


class OptimizerArrays(NamedTuple):
    """The kernels' view of an optimizer."""

    factors: Float64
    """Rates as multiples of the learning rate, for all units or for the first layer."""
    direction_of: Int64
    """The index of the direction of each unit with a rate."""
    inverses: Float64
    """The lower triangle of P for each direction; nothing if units move along their inputs."""
    input_count: Int64
    """Number of inputs accumulated in the inverses; a single element."""
    damping: float
    """No update moves a logit by more than the error / damping."""
    upper_rates: Float32
    """The rates of all other units."""


OPTIMIZER_ARRAYS = named_tuple_type(
    OptimizerArrays, float64[::1], int64[::1], float64[:, ::1], int64[::1], float64, float32[::1]
)


@kernel
def _accumulate(inputs: Float32, inverses: Float64, t: int, directions: Float32, lengths: Float64) -> None:
    """Add z zᵀ to the matrix behind every inverse P (Sherman–Morrison); write q = t·P z and z·q for each."""
    size = rows(inverses[0])
    z, q = new_vector(np.float64, size), new_vector(np.float64, size)
    for i in range(size):
        z[i] = inputs[i]
    for kind in range(len(inverses)):
        multiply(inverses[kind], z, q)
        length = dot(z, q)
        shrink = 1 / (1 + length)
        subtract_square(inverses[kind], shrink, q)
        for i in range(size):
            directions[kind, i] = shrink * t * q[i]
        lengths[kind] = shrink * t * length


@kernel
def _newton_move(inputs: Float32, learning_rate: float, optimizer: OptimizerArrays) -> Move:
    """Return moves along q that change no logit by more than the error / damping."""
    factors, direction_of, inverses = optimizer.factors, optimizer.direction_of, optimizer.inverses
    directions = new_matrix(np.float32, len(inverses), inputs.size)
    for kind in range(len(inverses)):
        for i in range(inputs.size):
            directions[kind, i] = np.float32(0)
    lengths = new_vector(np.float64, len(inverses))
    optimizer.input_count[0] += 1
    _accumulate(inputs, inverses, optimizer.input_count[0], directions, lengths)
    rates = new_vector(np.float32, factors.size + optimizer.upper_rates.size)
    for unit in range(factors.size):
        rate = learning_rate * factors[unit]
        rates[unit] = rate / (1 + optimizer.damping * rate * lengths[direction_of[unit]])
    for unit in range(optimizer.upper_rates.size):
        rates[factors.size + unit] = optimizer.upper_rates[unit]
    return Move(directions, direction_of, rates)


@kernel
def compute_move(inputs: Float32, learning_rate: float, optimizer: OptimizerArrays) -> Move:
    """Accumulate ``inputs`` and return the move. ``learning_rate`` scales all rates but ``upper_rates``."""
    if len(optimizer.inverses) > 0:
        return _newton_move(inputs, learning_rate, optimizer)
    rates = new_vector(np.float32, optimizer.factors.size)
    for unit in range(rates.size):
        rates[unit] = learning_rate * optimizer.factors[unit]
    return Move(as_matrix(inputs, 0, 1, inputs.size), optimizer.direction_of, rates)


class Optimizer:
    """Base class of optimizers. The kernels use only its ``arrays``."""

    adapts: bool
    """Whether layers above the first have a rate per weight that decreases with its gradients (AdaGrad)."""
    arrays: OptimizerArrays

    def move(self, inputs: Float32, learning_rate: float) -> Move:
        """Accumulate ``inputs`` and return the move, as the kernels do."""
        return compute_move(inputs, learning_rate, self.arrays)

    def forget(self) -> None:
        """Halve the weight of all accumulated inputs."""

    def snapshot(self) -> Arrays:
        """Return everything accumulated so far."""
        return {}

    def restore(self, arrays: Arrays) -> None:
        """Restore a snapshot; raise KeyError or ValueError if it is invalid."""
        copy_into(self.snapshot(), arrays)


class GradientDescent(Optimizer):
    """Online gradient descent, as in the paper: every unit moves along its inputs.

    Parameters
    ----------
    layers
        Number of units per layer.
    factors
        Factors of the learning rate. Units use them in rotation.
    """

    adapts = False

    def __init__(self, layers: tuple[int, ...], factors: tuple[float, ...] = (1.0,)) -> None:
        units = sum(layers)
        self.arrays = OptimizerArrays(
            factors=np.resize(np.array(factors), units),
            direction_of=np.zeros(units, np.int64),
            inverses=np.zeros((0, 0)),
            input_count=np.zeros(1, np.int64),
            damping=0.0,
            upper_rates=np.zeros(0, np.float32),
        )


class Newton(Optimizer):
    """Preconditioned updates in the first layer, AdaGrad above it.

    The first layer moves along q = t·P z, where P is the inverse of λI + Σ z zᵀ over all t inputs so far. P
    is shared by all networks. Upper layers have different inputs in every network, too many for separate
    inverses. There, every weight has its own rate, which decreases with its past gradients.

    Parameters
    ----------
    features
        Number of features of a context.
    layers
        Number of units per layer.
    factors
        Factors of the learning rate of units of the first layer.
    ridges
        Each ridge, times the number of inputs, is one λ with its own P.
    damping
        No update moves a logit by more than the error / damping. This limits the first updates for a category
        that appears late.
    group_size
        Number of consecutive units with the same factor and ridge. Groups rotate through the factors first
        and the ridges second, so that a large enough layer has every combination with ``group_size`` kinds of
        gates.
    """

    adapts = True
    upper_rate = 0.03

    def __init__(
        self,
        features: int,
        layers: tuple[int, ...],
        factors: tuple[float, ...],
        ridges: tuple[float, ...],
        damping: float,
        group_size: int,
    ) -> None:
        size = features + 1
        group = np.arange(layers[0]) // group_size
        self._ridges = [ridge * size for ridge in ridges]
        self.arrays = OptimizerArrays(
            factors=np.array(factors)[group % len(factors)],
            direction_of=(group // len(factors)) % len(ridges),
            inverses=np.stack([pack(np.eye(size) / ridge) for ridge in self._ridges]),
            input_count=np.zeros(1, np.int64),
            damping=damping,
            upper_rates=np.full(sum(layers[1:]), self.upper_rate, np.float32),
        )

    @staticmethod
    def bytes_needed(features: int, ridges: tuple[float, ...]) -> int:
        """Return the memory needed for the inverses."""
        return 4 * len(ridges) * (features + 1) * (features + 2)

    @property
    def inverses(self) -> Float64:
        """P for each ridge, as a full matrix."""
        return np.stack([unpack(triangle) for triangle in self.arrays.inverses])

    def forget(self) -> None:
        """Halve the weight of all inputs so far, in the second moment and in t; λ stays."""
        for triangle, ridge in zip(self.arrays.inverses, self._ridges, strict=True):
            inverse = unpack(triangle)
            halve_moment(inverse, ridge)
            triangle[:] = pack(inverse)
        input_count = self.arrays.input_count
        input_count >>= 1

    def snapshot(self) -> Arrays:
        """Return the inverses and the number of accumulated inputs."""
        return {"inverses": self.inverses, "input_count": self.arrays.input_count}

    def restore(self, arrays: Arrays) -> None:
        """Restore a snapshot; raise KeyError or ValueError if it is invalid."""
        inverses = self.inverses
        copy_into({"inverses": inverses, "input_count": self.arrays.input_count}, arrays)
        if not (inverses == inverses.swapaxes(1, 2)).all():
            raise ValueError("an inverse of the second moment is not symmetric")
        for triangle, inverse in zip(self.arrays.inverses, inverses, strict=True):
            triangle[:] = pack(inverse)
        check_positive_definite(self.arrays.inverses)
