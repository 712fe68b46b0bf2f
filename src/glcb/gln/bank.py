"""The bank: many gated linear networks that see the same context through the same gates."""

from typing import Literal

import numpy as np

from glcb._directory import checked_visits, empty_directory, visits
from glcb._state import State, sane
from glcb._types import Float32, Int64
from glcb.gln import kernels
from glcb.gln.kernels import FAN_IN, SIZE, STRIDE, padded

Output = Literal["switching", "last"]
"""How a network's units become its one probability: a mixture that switches, or the last unit alone."""

_FIRST_VISITS = 4
"""The pool starts with room for this many contexts that have no cell in common."""


class Bank:
    """``networks`` networks of gated geometric mixing units, each learning its own 0/1 target online.

    A cell is what one (unit, signature) has learnt for all networks. Only cells in which something was
    learnt take memory: they stand in a pool in the order of their first visit.
    """

    def __init__(
        self,
        features: int,
        networks: int,
        layers: tuple[int, ...],
        signatures: int,
        *,
        output: Output = "switching",
        clip: float = 0.01,
        bias: float = 1.0,
        weight_box: float = 200.0,
    ) -> None:
        self.networks = networks
        self.output = output
        self._clip = clip
        self._bias = bias
        self._box = weight_box
        self._layout = _layout(features, layers)
        units = sum(layers)
        self._cell_at = empty_directory(units, signatures)
        self._weights = np.empty(0, np.float32)
        self._used = 0
        self._mixture = np.full((networks, units), 1 / units, np.float32)
        if output == "last":
            self._mixture[:] = 0
            self._mixture[:, -1] = 1

    @staticmethod
    def bytes_needed(features: int, networks: int, layers: tuple[int, ...], signatures: int) -> int:
        """Return the memory that a bank of this size needs to learn its first step."""
        layout = _layout(features, layers)
        visit = sum(int(size) * int(stride) for size, stride in layout[:, [SIZE, STRIDE]]) * networks
        return 4 * _FIRST_VISITS * visit + 8 * sum(layers) * signatures + 4 * sum(layers) * networks

    @property
    def units(self) -> int:
        """Number of units in each network."""
        return len(self._cell_at)

    @property
    def mixture(self) -> Float32:
        """The share that each unit has in the output of each network."""
        return self._mixture

    @property
    def cells(self) -> int:
        """Number of cells in which something was learnt."""
        return int(np.count_nonzero(self._cell_at >= 0))

    def predict(self, x: Float32, signature: Int64) -> Float32:
        """Return the probability that each network gives to its target being 1."""
        probabilities = np.empty(self.networks, np.float32)
        kernels.predict(
            x,
            signature,
            self._layout,
            self._weights,
            self._cell_at,
            self._mixture,
            self._clip,
            self._bias,
            probabilities,
        )
        return probabilities

    def learn(
        self,
        x: Float32,
        signature: Int64,
        networks: Int64,
        targets: Float32,
        learning_rate: float,
        switching_rate: float,
    ) -> None:
        """Teach each of ``networks`` its 0/1 target, all others stay as they are."""
        self.make_room()
        self._used = kernels.learn(
            x,
            signature,
            networks,
            targets,
            learning_rate,
            switching_rate if self.output == "switching" else -1.0,
            self._layout,
            self._weights,
            self._used,
            self._cell_at,
            self._mixture,
            self._clip,
            self._bias,
            self._box,
        )

    def weights(self, unit: int, signature: int) -> Float32:
        """Return the weights that every network has in one cell."""
        layer = int(np.searchsorted(np.cumsum(self._layout[:, SIZE]), unit, side="right"))
        fan_in, stride = self._layout[layer, FAN_IN], self._layout[layer, STRIDE]
        start = self._cell_at[unit, signature]
        if start < 0:
            return np.full((self.networks, fan_in), 1 / fan_in, np.float32)
        cell = self._weights[start : start + self.networks * stride]
        return cell.reshape(self.networks, stride)[:, :fan_in].copy()

    def _cell_sizes(self) -> Int64:
        """Return the length in the pool of a cell of each unit."""
        return np.repeat(self._layout[:, STRIDE] * self.networks, self._layout[:, SIZE])

    def make_room(self) -> None:
        """Let the pool hold one more cell per unit, the most that one step can open."""
        room = self._weights.size - self._used
        visit = int((self._layout[:, STRIDE] * self._layout[:, SIZE]).sum()) * self.networks
        if room >= visit:
            return
        everything = visit * self._cell_at.shape[1]
        if self._weights.size == everything:
            return
        # Doubling keeps the copying to a constant per cell; pages that nobody wrote cost nothing.
        larger = np.empty(min(max(2 * self._weights.size, _FIRST_VISITS * visit), everything), np.float32)
        larger[: self._used] = self._weights[: self._used]
        self._weights = larger

    def state(self) -> State:
        """Return everything learnt: the cells in the order of their first visit, and the mixture."""
        return {
            "cells": visits(self._cell_at),
            "weights": self._weights[: self._used],
            "mixture": self._mixture,
        }

    def restore(self, state: State) -> None:
        """Take over what :meth:`state` returned; raise ValueError if it cannot be ours."""
        order = checked_visits(state["cells"], self._cell_at)
        weights, mixture = state["weights"], state["mixture"]
        if mixture.shape != self._mixture.shape or mixture.dtype != np.float32:
            raise ValueError(
                f"the mixture is {mixture.dtype} {mixture.shape}, expected {self._mixture.shape}"
            )
        if mixture.min() < 0 or not np.allclose(mixture.sum(axis=1), 1, atol=1e-3):
            raise ValueError("the mixture is not one of shares that add up to 1")
        ends = np.cumsum(self._cell_sizes()[order // self._cell_at.shape[1]])
        if weights.shape != (ends[-1] if order.size else 0,) or weights.dtype != np.float32:
            raise ValueError(f"the pool is {weights.dtype} {weights.shape}, which does not fit its cells")
        self._cell_at.fill(-1)
        self._cell_at.ravel()[order[1:]] = ends[:-1]
        self._cell_at.ravel()[order[:1]] = 0
        self._weights = sane("weights", weights).copy()
        self._used = weights.size
        self._mixture = mixture.copy()


def _layout(features: int, layers: tuple[int, ...]) -> Int64:
    """Return one row per layer, as described at the top of the kernels."""
    rows = []
    fan_in, source, target, unit = features + 1, -1, 0, 0
    for size in layers:
        rows.append((size, fan_in, padded(fan_in), unit, source, target))
        fan_in, source = size + 1, target
        target += padded(fan_in)
        unit += size
    return np.array(rows, np.int64)
