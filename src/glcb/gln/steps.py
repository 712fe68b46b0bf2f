"""How the weights of the bank move: the paper's plain step, and a preconditioned one.

A step is told the inputs that all units of the first layer share, and answers with the directions in which
they may go, and with the rate of every unit. The bank does the rest: a unit whose probability is off by
p − r goes −rate · (p − r) along its direction. Above the first layer, units go along their own inputs.
"""

import math
from typing import Literal, NamedTuple, Protocol

import numpy as np

from glcb._compile import kernel
from glcb._forgetting import halve_moment
from glcb._state import State, fill
from glcb._types import Float32, Float64, Int64

StepKind = Literal["plain", "newton"]


class Move(NamedTuple):
    """Where the units may go from here."""

    directions: Float32
    """The ways that units of the first layer can go, padded as the inputs are."""
    direction_of: Int64
    """Which of these each unit of the first layer takes."""
    rates: Float32
    """How far each unit goes for an error of 1."""


class Step(Protocol):
    """What the bank asks of a step."""

    @property
    def adapts(self) -> bool:
        """Whether layers above the first step by the size of their gradients so far (AdaGrad)."""

    def take(self, inputs: Float32, learning_rate: float) -> Move:
        """Take in the inputs of one step; ``learning_rate`` scales the rates of all units."""

    def forget(self) -> None:
        """Let what has been taken in count half."""

    def state(self) -> State:
        """Return what has been taken in."""

    def restore(self, state: State) -> None:
        """Take over what :meth:`state` returned; raise ValueError or KeyError if it cannot be ours."""


class PlainStep:
    """Every unit goes along its inputs (the paper); the units take ``factors`` of the rate in turn."""

    adapts = False

    def __init__(self, layers: tuple[int, ...], factors: tuple[float, ...] = (1.0,)) -> None:
        units = sum(layers)
        self._factors = np.resize(np.array(factors), units)
        self._only = np.zeros(units, np.int64)

    def take(self, inputs: Float32, learning_rate: float) -> Move:
        """Go along the inputs."""
        return Move(inputs[None], self._only, (learning_rate * self._factors).astype(np.float32))

    def forget(self) -> None:
        """Have nothing to forget."""

    def state(self) -> State:
        """Return nothing: a plain step remembers nothing."""
        return {}

    def restore(self, state: State) -> None:
        """Take over nothing."""


@kernel
def _dot(a: Float64, b: Float64) -> float:
    """Return a · b. Sums stand in loops of their own, that write nothing: see ``glcb._compile``."""
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@kernel
def _take_in(inputs: Float32, inverses: Float64, step: int, directions: Float32, lengths: Float64) -> None:
    """Let every inverse P take in z zᵀ (Sherman–Morrison); write q = t·P z and z·q for each."""
    kinds, size, _ = inverses.shape
    z = np.empty(size)
    z[:] = inputs[:size]
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
def _damp(
    factors: Float64,
    direction_of: Int64,
    lengths: Float64,
    learning_rate: float,
    damping: float,
    rates: Float32,
) -> None:
    """Write the rate of every unit; no step moves a logit by more than the error / damping."""
    for unit in range(factors.size):
        rate = learning_rate * factors[unit]
        rates[unit] = rate / (1 + damping * rate * lengths[direction_of[unit]])


class NewtonStep:
    """The first layer goes along q = t·P z, where P is the inverse of λI + Σ z zᵀ over all inputs so far.

    P is shared by all networks. Each of ``ridges``, times the number of inputs, is one λ, with a P of its
    own. Units of the first layer get their factor of the rate and their P in turn, a factor for each of
    ``stretch`` units and then the next; so a layer that is large enough has all combinations, with each of
    ``stretch`` kinds of gates.
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
        self._first_layer = layers[0]
        self._damping = damping
        self._units = sum(layers)
        turn = np.arange(self._first_layer) // stretch
        self._factors = np.array(factors)[turn % len(factors)]
        self._direction_of = (turn // len(factors)) % len(ridges)
        self._ridges = [ridge * size for ridge in ridges]
        self._inverses = np.zeros((len(ridges), size, size))
        for inverse, ridge in zip(self._inverses, self._ridges, strict=True):
            np.fill_diagonal(inverse, 1 / ridge)
        self._steps = np.zeros(1, np.int64)

    @staticmethod
    def bytes_needed(features: int, ridges: tuple[float, ...]) -> int:
        """Return the memory that the inverses need."""
        return 8 * len(ridges) * (features + 1) ** 2

    @property
    def inverses(self) -> Float64:
        """P for each ridge."""
        return self._inverses

    def take(self, inputs: Float32, learning_rate: float) -> Move:
        """Take in the inputs and go along q, a category that is seen for the first time with caution."""
        directions = np.zeros((len(self._inverses), inputs.size), np.float32)
        lengths = np.empty(len(self._inverses))
        rates = np.empty(self._units, np.float32)
        self._steps += 1
        _take_in(inputs, self._inverses, int(self._steps[0]), directions, lengths)
        _damp(
            self._factors,
            self._direction_of,
            lengths,
            learning_rate,
            self._damping,
            rates[: self._first_layer],
        )
        rates[self._first_layer :] = self.upper_rate
        return Move(directions, self._direction_of, rates)

    def forget(self) -> None:
        """Let all inputs so far count half, in the second moment and in t; λ stays."""
        for inverse, ridge in zip(self._inverses, self._ridges, strict=True):
            halve_moment(inverse, ridge)
        self._steps >>= 1

    def state(self) -> State:
        """Return the inverses and how many inputs they have taken in."""
        return {"inverses": self._inverses, "inputs_taken": self._steps}

    def restore(self, state: State) -> None:
        """Take over what :meth:`state` returned; raise ValueError or KeyError if it cannot be ours."""
        fill(self.state(), state)
        np.linalg.cholesky(self._inverses)  # raises a ValueError unless they are positive definite
        if not (self._inverses == self._inverses.swapaxes(1, 2)).all():
            raise ValueError("an inverse of the second moment is not symmetric")
