"""How the weights of the bank move: the paper's plain step, and a preconditioned one.

A step is told the inputs that all units of the first layer share, and answers with the directions in which
they may go, and with the rate of every unit. The bank does the rest: a unit whose probability is off by
p − r goes −rate · (p − r) along its direction. Above the first layer, units go along their own inputs.
"""

import math
from typing import Literal, NamedTuple

import numpy as np

from glcb._arrays import State, fill
from glcb._forgetting import halve_moment
from glcb._numba.compile import kernel
from glcb._types import Float32, Float64, Int64

OptimizerKind = Literal["plain", "newton"]


class Move(NamedTuple):
    """Where the units may go from here."""

    directions: Float32
    """The ways that units of the first layer can go, padded as the inputs are."""
    direction_of: Int64
    """Which of these each unit of the first layer takes."""
    rates: Float32
    """How far each unit goes for an error of 1."""


class OptimizerArrays(NamedTuple):
    """All that the kernels need to know of a step."""

    factors: Float64
    """Rates as multiples of the learning rate, for all units or for those of the first layer."""
    direction_of: Int64
    inverses: Float64
    """P for each kind of direction; none if units go along their inputs."""
    taken: Int64
    """How many inputs were taken in; one number."""
    damping: float
    upper_rates: Float32
    """The rates of all other units."""


@kernel
def _dot(a: Float64, b: Float64) -> float:
    """Return a · b in double precision. Sums stand in loops of their own: see ``glcb._numba.compile``."""
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@kernel
def _take_in(inputs: Float32, inverses: Float64, step: int, directions: Float32, lengths: Float64) -> None:
    """Let every inverse P take in z zᵀ (Sherman–Morrison); write q = t·P z and z·q for each."""
    kinds, size, _ = inverses.shape
    z = inputs[:size].astype(np.float64)
    q = np.empty(size)
    for kind in range(kinds):
        inverse = inverses[kind]
        for i in range(size):
            q[i] = _dot(inverse[i], z)
        spread = _dot(z, q)
        # h hᵀ is symmetric to the last bit, so the inverse stays symmetric for ever.
        shrink = 1 / math.sqrt(1 + spread)
        for i in range(size):
            q[i] *= shrink
        for i in range(size):
            for k in range(size):
                inverse[i, k] -= q[i] * q[k]
        for i in range(size):
            q[i] *= shrink * step
            directions[kind, i] = q[i]
        lengths[kind] = _dot(z, q)


@kernel
def _newton(inputs: Float32, learning_rate: float, stepper: OptimizerArrays) -> Move:
    """Go along q; no step moves a logit by more than the error / damping."""
    factors, direction_of, inverses = stepper.factors, stepper.direction_of, stepper.inverses
    directions = np.zeros((len(inverses), inputs.size), np.float32)
    lengths = np.empty(len(inverses))
    stepper.taken[0] += 1
    _take_in(inputs, inverses, stepper.taken[0], directions, lengths)
    rates = np.empty(factors.size + stepper.upper_rates.size, np.float32)
    for unit in range(factors.size):
        rate = learning_rate * factors[unit]
        rates[unit] = rate / (1 + stepper.damping * rate * lengths[direction_of[unit]])
    for unit in range(stepper.upper_rates.size):
        rates[factors.size + unit] = stepper.upper_rates[unit]
    return Move(directions, direction_of, rates)


@kernel
def move_for(inputs: Float32, learning_rate: float, stepper: OptimizerArrays) -> Move:
    """Take in the inputs of one step; ``learning_rate`` scales the rates of units that have a factor."""
    if len(stepper.inverses) > 0:
        return _newton(inputs, learning_rate, stepper)
    rates = (learning_rate * stepper.factors).astype(np.float32)
    return Move(inputs.reshape(1, inputs.size), stepper.direction_of, rates)


class Step:
    """What the bank asks of a step; the kernels take in inputs by themselves, with its ``stepper``."""

    adapts: bool
    """Whether layers above the first step by the size of their gradients so far (AdaGrad)."""
    stepper: OptimizerArrays

    def take(self, inputs: Float32, learning_rate: float) -> Move:
        """Take in the inputs of one step; ``learning_rate`` scales the rates of units that have a factor."""
        return move_for(inputs, learning_rate, self.stepper)

    def forget(self) -> None:
        """Let what has been taken in count half."""

    def state(self) -> State:
        """Return what has been taken in."""
        return {}

    def restore(self, state: State) -> None:
        """Take over what :meth:`state` returned; raise ValueError or KeyError if it cannot be ours."""
        fill(self.state(), state)


class GradientDescent(Step):
    """Every unit goes along its inputs (the paper); the units take ``factors`` of the rate in turn."""

    adapts = False

    def __init__(self, layers: tuple[int, ...], factors: tuple[float, ...] = (1.0,)) -> None:
        units = sum(layers)
        self.stepper = OptimizerArrays(
            factors=np.resize(np.array(factors), units),
            direction_of=np.zeros(units, np.int64),
            inverses=np.zeros((0, 0, 0)),
            taken=np.zeros(1, np.int64),
            damping=0.0,
            upper_rates=np.zeros(0, np.float32),
        )


class Newton(Step):
    """The first layer goes along q = t·P z, where P is the inverse of λI + Σ z zᵀ over all inputs so far.

    P is shared by all networks. Each of ``ridges``, times the number of inputs, is one λ, with a P of its
    own. Units of the first layer get their factor of the rate and their P in turn, a factor for each of
    ``stretch`` units and then the next; so a layer that is large enough has all combinations, with each of
    ``stretch`` kinds of gates. Damping is for a category that is seen for the first time.
    The layers above have inputs of their own in every network, too many for a P each: there, every weight has
    a rate of its own, which falls with the gradients that it has seen.
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
        stretch: int,
    ) -> None:
        size = features + 1
        turn = np.arange(layers[0]) // stretch
        self._ridges = [ridge * size for ridge in ridges]
        inverses = np.zeros((len(ridges), size, size))
        for inverse, ridge in zip(inverses, self._ridges, strict=True):
            np.fill_diagonal(inverse, 1 / ridge)
        self.stepper = OptimizerArrays(
            factors=np.array(factors)[turn % len(factors)],
            direction_of=(turn // len(factors)) % len(ridges),
            inverses=inverses,
            taken=np.zeros(1, np.int64),
            damping=damping,
            upper_rates=np.full(sum(layers[1:]), self.upper_rate, np.float32),
        )

    @staticmethod
    def bytes_needed(features: int, ridges: tuple[float, ...]) -> int:
        """Return the memory that the inverses need."""
        return 8 * len(ridges) * (features + 1) ** 2

    @property
    def inverses(self) -> Float64:
        """P for each ridge."""
        return self.stepper.inverses

    def forget(self) -> None:
        """Let all inputs so far count half, in the second moment and in t; λ stays."""
        for inverse, ridge in zip(self.inverses, self._ridges, strict=True):
            halve_moment(inverse, ridge)
        taken = self.stepper.taken
        taken >>= 1

    def state(self) -> State:
        """Return the inverses and how many inputs they have taken in."""
        return {"inverses": self.inverses, "inputs_taken": self.stepper.taken}

    def restore(self, state: State) -> None:
        """Take over what :meth:`state` returned; raise ValueError or KeyError if it cannot be ours."""
        super().restore(state)
        np.linalg.cholesky(self.inverses)  # raises a ValueError unless they are positive definite
        if not (self.inverses == self.inverses.swapaxes(1, 2)).all():
            raise ValueError("an inverse of the second moment is not symmetric")
