"""The bank: many gated linear networks that see the same context through the same gates."""

import math
from typing import Literal

import numpy as np

from glcb._directory import checked_visits, empty_directory, visits
from glcb._state import State, fill, rearranged, sane
from glcb._types import Float32, Int64
from glcb.gln import kernels
from glcb.gln.attribution import Attribution, attribution
from glcb.gln.kernels import FAN_IN, ROW, SIZE, STRIDE, Memory, padded
from glcb.gln.memo import Memo
from glcb.gln.steps import PlainStep, Step

Output = Literal["switching", "last"]
"""How a network's units become its one probability: a mixture that switches, or the last unit alone."""

Start = Literal["inputs", "frequency"]
"""What a network starts from: the mean of its inputs, or an offset that follows what its targets were."""

_FIRST_VISITS = 4
"""The pool starts with room for this many contexts that have no cell in common."""


class Bank:
    """``networks`` networks of gated geometric mixing units, each learning its own target (0 … 1) online.

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
        step: Step | None = None,
        start: Start = "inputs",
        output: Output = "switching",
        clip: float = 0.01,
        input_clip: float = 0.01,
        bias: float = 1.0,
        weight_box: float = 200.0,
    ) -> None:
        self.networks = networks
        self.output = output
        self._bound = math.log((1 - clip) / clip)
        self._input_clip = input_clip
        self._bias = bias
        self._box = weight_box
        self._step = step or PlainStep(layers)
        self._layout = _layout(features, layers, self._step.adapts)
        self._stride = int(self._layout[0, STRIDE])
        # What one step can need in the pool, for each network: a new row in every unit.
        self._visit = int((self._layout[:, ROW] * self._layout[:, SIZE]).sum())
        self._from_zero = start == "frequency"
        units = sum(layers)
        self._cell_at = empty_directory(units, signatures)
        self._weights = np.empty(0, np.float32)
        self._used = 0
        self._mixture = np.tile(self._first_mixture(), (networks, 1))
        self._tally = np.zeros((networks, 2), np.int64)
        self._offsets = np.zeros(networks, np.float32)
        self._inputs: Memo[Float32] = Memo()

    @staticmethod
    def bytes_needed(features: int, networks: int, layers: tuple[int, ...], signatures: int) -> int:
        """Return the most memory that a bank of this size needs to learn its first step."""
        layout = _layout(features, layers, adapts=True)
        visit = sum(int(size) * int(row) for size, row in layout[:, [SIZE, ROW]]) * networks
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
        kernels.predict(self._inputs_of(x), signature, self._memory(), probabilities)
        return probabilities

    def predict_many(self, contexts: Float32, signatures: Int64) -> Float32:
        """Return the probabilities for many contexts, one row each."""
        probabilities = np.empty((len(contexts), self.networks), np.float32)
        kernels.predict_many(contexts, signatures, self._memory(), probabilities)
        return probabilities

    def attribution(self, x: Float32, baseline: Float32, signature: Int64) -> Attribution:
        """Return what each feature contributes to each probability, with the signature held."""
        return attribution(
            lambda unit: self.weights(unit, int(signature[unit])),
            self._layout[:, SIZE].tolist(),
            np.stack([self._inputs_of(x), self._inputs_of(baseline)])[:, : x.size + 1],
            self._offsets,
            self._mixture,
            self._bound,
        )

    def _inputs_of(self, x: Float32) -> Float32:
        return self._inputs(self._find_inputs, x)

    def _find_inputs(self, x: Float32) -> Float32:
        return kernels.base_inputs(x, self._stride, self._input_clip, self._bias)

    def _memory(self) -> Memory:
        """Return what the kernels need to know."""
        return Memory(
            self._layout,
            self._cell_at,
            self._weights,
            self._mixture,
            self._tally,
            self._offsets,
            self._from_zero,
            self._bound,
            self._box,
            self._input_clip,
            self._bias,
        )

    def learn(
        self,
        x: Float32,
        signature: Int64,
        networks: Int64,
        targets: Float32,
        learning_rate: float,
        switching_rate: float,
    ) -> None:
        """Teach each of ``networks`` its target, all others stay as they are."""
        self.make_room()
        inputs = self._inputs_of(x)
        self._used = kernels.learn(
            inputs,
            signature,
            networks,
            targets,
            self._step.take(inputs, learning_rate),
            switching_rate if self.output == "switching" else -1.0,
            self._memory(),
            self._used,
        )

    def forget(self) -> None:
        """Let what sets the size of steps count half: inputs, gradients and targets so far. Weights stay."""
        for size, _, stride, row, unit, _, _ in self._layout.tolist():
            if row > stride:
                starts = self._cell_at[unit : unit + size]
                for start in starts[starts >= 0]:
                    cell = self._weights[start : start + row * self.networks].reshape(-1, row)
                    cell[:, stride:] /= 2
        self._tally >>= 1
        kernels.write_offsets(self._memory())
        self._step.forget()

    def rearrange(self, sources: Int64) -> None:
        """Become a bank whose network j is what network ``sources[j]`` was, or a new one for −1.

        All cells are written anew. No array is changed in place, so a shallow copy keeps what was.
        """
        order = visits(self._cell_at)
        units = order // self._cell_at.shape[1]
        layer_of = np.repeat(np.arange(len(self._layout)), self._layout[:, SIZE])[units]
        starts = self._cell_at.ravel()[order]
        sizes = self._layout[layer_of, ROW] * sources.size
        weights = np.empty(int(sizes.sum()), np.float32)
        kernels.rearranged(self._memory(), starts, layer_of, sources, weights)
        self._cell_at = self._cell_at.copy()
        self._cell_at.ravel()[order] = np.cumsum(sizes) - sizes
        self._weights, self._used = weights, weights.size
        self._mixture = rearranged(self._mixture, sources, self._first_mixture())
        self._tally = rearranged(self._tally, sources, 0)
        self._offsets = rearranged(self._offsets, sources, 0)
        self.networks = sources.size

    def _first_mixture(self) -> Float32:
        """Return the shares of the units before anything is learnt."""
        shares = np.full(self.units, 1 / self.units, np.float32)
        if self.output == "last":
            shares[:] = 0
            shares[-1] = 1
        return shares

    def weights(self, unit: int, signature: int) -> Float32:
        """Return the weights that every network has in one cell."""
        layer = int(np.searchsorted(np.cumsum(self._layout[:, SIZE]), unit, side="right"))
        fan_in, row = self._layout[layer, FAN_IN], self._layout[layer, ROW]
        start = self._cell_at[unit, signature]
        if start < 0:
            initial = 0 if self._from_zero and layer == 0 else 1 / fan_in
            return np.full((self.networks, fan_in), initial, np.float32)
        cell = self._weights[start : start + self.networks * row]
        return cell.reshape(self.networks, row)[:, :fan_in].copy()

    def _cell_sizes(self) -> Int64:
        """Return the length in the pool of a cell of each unit."""
        return np.repeat(self._layout[:, ROW] * self.networks, self._layout[:, SIZE])

    def make_room(self) -> None:
        """Let the pool hold one more cell per unit, the most that one step can open."""
        visit = self._visit * self.networks
        if self._weights.size - self._used >= visit:
            return
        everything = visit * self._cell_at.shape[1]
        if self._weights.size == everything:
            return
        # Doubling keeps the copying to a constant per cell; pages that nobody wrote cost nothing.
        larger = np.empty(min(max(2 * self._weights.size, _FIRST_VISITS * visit), everything), np.float32)
        larger[: self._used] = self._weights[: self._used]
        self._weights = larger

    def state(self) -> State:
        """Return everything learnt: the cells in the order of their first visit, the mixture, the tally."""
        return {
            "cells": visits(self._cell_at),
            "weights": self._weights[: self._used],
            "mixture": self._mixture,
            "tally": self._tally,
            **self._step.state(),
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
        if self.output == "last" and not (mixture == self._first_mixture()).all():
            raise ValueError("the mixture is not that of the last unit alone")
        ends = np.cumsum(self._cell_sizes()[order // self._cell_at.shape[1]])
        if weights.shape != (ends[-1] if order.size else 0,) or weights.dtype != np.float32:
            raise ValueError(f"the pool is {weights.dtype} {weights.shape}, which does not fit its cells")
        self._cell_at.fill(-1)
        self._cell_at.ravel()[order[1:]] = ends[:-1]
        self._cell_at.ravel()[order[:1]] = 0
        self._check_pool(sane("weights", weights))
        self._weights = weights.copy()
        self._used = weights.size
        self._mixture = mixture.copy()
        fill({"tally": self._tally}, state)
        if (self._tally[:, kernels.ONES] > self._tally[:, kernels.TARGETS]).any():
            raise ValueError("a network has more targets near 1 than targets")
        kernels.write_offsets(self._memory())
        self._step.restore(state)

    def _check_pool(self, pool: Float32) -> None:
        """Raise ValueError if a weight lies outside its box or a sum of squares below zero."""
        for size, _, stride, row, unit, _, _ in self._layout.tolist():
            starts = self._cell_at[unit : unit + size]
            cells = starts[starts >= 0][:, None] + np.arange(row * self.networks)
            rows = pool[cells].reshape(-1, row)
            if (np.abs(rows[:, :stride]) > np.float32(self._box)).any() or (rows[:, stride:] < 0).any():
                raise ValueError("the pool holds weights that no step can have made")


def _layout(features: int, layers: tuple[int, ...], adapts: bool) -> Int64:
    """Return one row per layer, as described at the top of the kernels."""
    rows = []
    fan_in, source, target, unit = features + 1, -1, 0, 0
    for size in layers:
        row = padded(fan_in) * (2 if adapts and source >= 0 else 1)
        rows.append((size, fan_in, padded(fan_in), row, unit, source, target))
        fan_in, source = size + 1, target
        target += padded(fan_in)
        unit += size
    return np.array(rows, np.int64)
