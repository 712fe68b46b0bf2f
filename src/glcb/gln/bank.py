"""The bank: many gated linear networks that see the same context through the same gates."""

import math
from typing import Literal

import numpy as np

from glcb._arrays import State, fill, rearranged, sane
from glcb._numba.cell_index import FOR_EVER, checked_visits, empty_directory, visits
from glcb._types import Float32, Int64
from glcb.gln.arithmetic import padded
from glcb.gln.attribution import Attribution, attribution
from glcb.gln.layout import (
    FAN_IN,
    ONES,
    ROW,
    SIZE,
    STRIDE,
    TARGETS,
    BankArrays,
    write_offsets,
    write_rearranged,
)
from glcb.gln.learn import learn
from glcb.gln.optimizer import GradientDescent, Step
from glcb.gln.predict import predict, write_inputs

Output = Literal["switching", "last"]
"""How a network's units become its one probability: a mixture that switches, or the last unit alone."""

Start = Literal["inputs", "frequency"]
"""What a network starts from: the mean of its inputs, or an offset that follows what its targets were."""

_FIRST_VISITS = 4
"""The pool starts with room for this many contexts that have no cell in common."""


class Bank:
    """``networks`` networks of gated geometric mixing units, each learning its own target (0 … 1) online.

    A cell is what one (unit, signature) has learned for all networks. Only cells in which something was
    learned take memory: they stand in a pool in the order of their first visit.
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
        self.step = step or GradientDescent(layers)
        layout = _layout(features, layers, self.step.adapts)
        # What one step can need in the pool, for each network: a new row in every unit.
        self._visit = int((layout[:, ROW] * layout[:, SIZE]).sum())
        self.memory = BankArrays(
            layout=layout,
            cell_at=empty_directory(sum(layers), signatures),
            weights=np.empty(0, np.float32),
            used=np.zeros(1, np.int64),
            mixture=np.tile(_first_mixture(sum(layers), output == "switching"), (networks, 1)),
            tally=np.zeros((networks, 2), np.int64),
            offsets=np.zeros(networks, np.float32),
            from_zero=start == "frequency",
            switches=output == "switching",
            bound=math.log((1 - clip) / clip),
            box=weight_box,
            lowest_input=input_clip,
            bias=bias,
        )

    @staticmethod
    def bytes_needed(features: int, networks: int, layers: tuple[int, ...], signatures: int) -> int:
        """Return the most memory that a bank of this size needs to learn its first step."""
        layout = _layout(features, layers, adapts=True)
        visit = sum(int(size) * int(row) for size, row in layout[:, [SIZE, ROW]]) * networks
        return 4 * _FIRST_VISITS * visit + 8 * sum(layers) * signatures + 4 * sum(layers) * networks

    @property
    def networks(self) -> int:
        """Number of networks."""
        return len(self.memory.mixture)

    @property
    def units(self) -> int:
        """Number of units in each network."""
        return len(self.memory.cell_at)

    @property
    def mixture(self) -> Float32:
        """The share that each unit has in the output of each network."""
        return self.memory.mixture

    @property
    def cells(self) -> int:
        """Number of cells in which something was learned."""
        return int(np.count_nonzero(self.memory.cell_at >= 0))

    def predict(self, x: Float32, signature: Int64) -> Float32:
        """Return the probability that each network gives to its target being 1."""
        probabilities = np.empty(self.networks, np.float32)
        predict(self._inputs(x), signature, self.memory, probabilities)
        return probabilities

    def attribution(self, x: Float32, baseline: Float32, signature: Int64) -> Attribution:
        """Return what each feature contributes to each probability, with the signature held."""
        return attribution(
            lambda unit: self.weights(unit, int(signature[unit])),
            self.memory.layout[:, SIZE].tolist(),
            np.stack([self._inputs(x), self._inputs(baseline)])[:, : x.size + 1],
            self.memory.offsets,
            self.memory.mixture,
            self.memory.bound,
        )

    def _inputs(self, x: Float32) -> Float32:
        inputs: Float32 = np.zeros(self.memory.layout[0, STRIDE], np.float32)
        write_inputs(x, self.memory.lowest_input, self.memory.bias, inputs)
        return inputs

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
        self.ensure_capacity()
        inputs, stepper = self._inputs(x), self.step.stepper
        learn(inputs, signature, networks, targets, learning_rate, switching_rate, stepper, self.memory)

    def forget(self) -> None:
        """Let what sets the size of steps count half: inputs, gradients and targets so far. Weights stay."""
        memory = self.memory
        for size, _, stride, row, unit, _, _ in memory.layout.tolist():
            if row > stride:
                starts = memory.cell_at[unit : unit + size]
                for start in starts[starts >= 0]:
                    cell = memory.weights[start : start + row * self.networks].reshape(-1, row)
                    cell[:, stride:] /= 2
        np.right_shift(memory.tally, 1, out=memory.tally)
        write_offsets(memory)
        self.step.forget()

    def rearrange(self, sources: Int64) -> None:
        """Become a bank whose network j is what network ``sources[j]`` was, or a new one for −1.

        All cells are written anew. No array is changed in place, so a shallow copy keeps what was.
        """
        memory = self.memory
        order = visits(memory.cell_at)
        units = order // memory.cell_at.shape[1]
        layer_of = np.repeat(np.arange(len(memory.layout)), memory.layout[:, SIZE])[units]
        starts = memory.cell_at.ravel()[order]
        sizes = memory.layout[layer_of, ROW] * sources.size
        weights = np.empty(int(sizes.sum()), np.float32)
        write_rearranged(memory, starts, layer_of, sources, weights)
        cell_at = memory.cell_at.copy()
        cell_at.ravel()[order] = np.cumsum(sizes) - sizes
        self.memory = memory._replace(
            cell_at=cell_at,
            weights=weights,
            used=np.array([weights.size]),
            mixture=rearranged(memory.mixture, sources, _first_mixture(self.units, memory.switches)),
            tally=rearranged(memory.tally, sources, 0),
            offsets=rearranged(memory.offsets, sources, 0),
        )

    def weights(self, unit: int, signature: int) -> Float32:
        """Return the weights that every network has in one cell."""
        memory = self.memory
        layer = int(np.searchsorted(np.cumsum(memory.layout[:, SIZE]), unit, side="right"))
        fan_in, row = memory.layout[layer, FAN_IN], memory.layout[layer, ROW]
        start = memory.cell_at[unit, signature]
        if start < 0:
            initial = 0 if memory.from_zero and layer == 0 else 1 / fan_in
            return np.full((self.networks, fan_in), initial, np.float32)
        cell = memory.weights[start : start + self.networks * row]
        return cell.reshape(self.networks, row)[:, :fan_in].copy()

    def ensure_capacity(self) -> int:
        """Let the pool hold one more cell per unit, the most that one step can open.

        Return for how many steps there is room now.
        """
        memory, visit = self.memory, self._visit * self.networks
        everything, used = visit * memory.cell_at.shape[1], int(memory.used[0])
        if memory.weights.size - used < visit and memory.weights.size < everything:
            # Doubling keeps the copying to a constant per cell; pages that nobody wrote cost nothing.
            size = min(max(2 * memory.weights.size, _FIRST_VISITS * visit), everything)
            larger = np.empty(size, np.float32)
            larger[:used] = memory.weights[:used]
            self.memory = memory._replace(weights=larger)
        size = self.memory.weights.size
        return FOR_EVER if size == everything else (size - used) // visit

    def state(self) -> State:
        """Return everything learned: the cells in the order of their first visit, the mixture, the tally."""
        memory = self.memory
        return {
            "cells": visits(memory.cell_at),
            "weights": memory.weights[: memory.used[0]],
            "mixture": memory.mixture,
            "tally": memory.tally,
            **self.step.state(),
        }

    def restore(self, state: State) -> None:
        """Take over what :meth:`state` returned; raise ValueError if it cannot be ours."""
        memory = self.memory
        order = checked_visits(state["cells"], memory.cell_at)
        weights, mixture = state["weights"], state["mixture"]
        if mixture.shape != memory.mixture.shape or mixture.dtype != np.float32:
            raise ValueError(
                f"the mixture is {mixture.dtype} {mixture.shape}, expected {memory.mixture.shape}"
            )
        if mixture.min() < 0 or not np.allclose(mixture.sum(axis=1), 1, atol=1e-3):
            raise ValueError("the mixture is not one of shares that add up to 1")
        if not memory.switches and not (mixture == _first_mixture(self.units, switches=False)).all():
            raise ValueError("the mixture is not that of the last unit alone")
        sizes = np.repeat(memory.layout[:, ROW] * self.networks, memory.layout[:, SIZE])
        ends = np.cumsum(sizes[order // memory.cell_at.shape[1]])
        if weights.shape != (ends[-1] if order.size else 0,) or weights.dtype != np.float32:
            raise ValueError(f"the pool is {weights.dtype} {weights.shape}, which does not fit its cells")
        memory.cell_at.fill(-1)
        memory.cell_at.ravel()[order[1:]] = ends[:-1]
        memory.cell_at.ravel()[order[:1]] = 0
        self._check_pool(sane("weights", weights))
        fill({"tally": memory.tally}, state)
        if (memory.tally[:, ONES] > memory.tally[:, TARGETS]).any():
            raise ValueError("a network has more targets near 1 than targets")
        self.memory = memory._replace(
            weights=weights.copy(), used=np.array([weights.size]), mixture=mixture.copy()
        )
        write_offsets(self.memory)
        self.step.restore(state)

    def _check_pool(self, pool: Float32) -> None:
        """Raise ValueError if a weight lies outside its box or a sum of squares below zero."""
        for size, _, stride, row, unit, _, _ in self.memory.layout.tolist():
            starts = self.memory.cell_at[unit : unit + size]
            cells = starts[starts >= 0][:, None] + np.arange(row * self.networks)
            rows = pool[cells].reshape(-1, row)
            if (np.abs(rows[:, :stride]) > np.float32(self.memory.box)).any() or (rows[:, stride:] < 0).any():
                raise ValueError("the pool holds weights that no step can have made")


def _first_mixture(units: int, switches: bool) -> Float32:
    """Return the shares of the units before anything is learned: all the same, or all for the last."""
    if switches:
        return np.full(units, 1 / units, np.float32)
    shares: Float32 = np.zeros(units, np.float32)
    shares[-1] = 1
    return shares


def _layout(features: int, layers: tuple[int, ...], adapts: bool) -> Int64:
    """Return one row per layer, as described in ``glcb.gln.layout``."""
    rows = []
    fan_in, source, target, unit = features + 1, -1, 0, 0
    for size in layers:
        row = padded(fan_in) * (2 if adapts and source >= 0 else 1)
        rows.append((size, fan_in, padded(fan_in), row, unit, source, target))
        fan_in, source = size + 1, target
        target += padded(fan_in)
        unit += size
    return np.array(rows, np.int64)
