"""The bank: many gated linear networks that share inputs and gates."""

import math
from typing import Literal

import numpy as np

from glcb._arrays import Arrays, Float32, Int64, check_values, copy_into, take_rows
from glcb._numba.cell_index import MIN_STEPS, UNLIMITED, check_visited_cells, empty_index, visited_cells
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
    write_reordered,
)
from glcb.gln.learn import learn
from glcb.gln.optimizer import GradientDescent, Optimizer
from glcb.gln.predict import predict, write_inputs

Output = Literal["switching", "last"]
"""How a network's probability is computed: a switching mixture of all units, or the last unit alone."""

Initialization = Literal["inputs", "frequency"]
"""What an untrained network predicts: the mean of its inputs, or an offset that follows its past targets."""


class Bank:
    """Networks of gated geometric mixing units, each of which learns its own target within [0, 1] online.

    A cell holds the weights of one (unit, signature) for all networks. Cells are allocated from a pool on
    their first update, so only visited cells use memory.

    Parameters
    ----------
    features
        Number of features of a context.
    networks
        Number of networks.
    layers
        Number of units per layer.
    signatures
        Number of possible signatures of a unit.
    optimizer
        How weights move; plain gradient descent by default.
    initialization
        What an untrained network predicts: the mean of its inputs, or an offset based on past targets.
    output
        The probability of a network: a switching mixture of all units, or the last unit alone.
    clip
        Probabilities of units are clipped to [clip, 1 − clip].
    input_clip
        Contexts are clipped to [input_clip, 1 − input_clip].
    bias
        The constant input of every unit.
    weight_bound
        The largest absolute weight.
    """

    def __init__(
        self,
        features: int,
        networks: int,
        layers: tuple[int, ...],
        signatures: int,
        *,
        optimizer: Optimizer | None = None,
        initialization: Initialization = "inputs",
        output: Output = "switching",
        clip: float = 0.01,
        input_clip: float = 0.01,
        bias: float = 1.0,
        weight_bound: float = 200.0,
    ) -> None:
        self.optimizer = optimizer or GradientDescent(layers)
        layout = _layout(features, layers, self.optimizer.adapts)
        # The most that one update can add to the pool per network: a row in every unit.
        self._update_size = int((layout[:, ROW] * layout[:, SIZE]).sum())
        self.arrays = BankArrays(
            layout=layout,
            cell_at=empty_index(sum(layers), signatures),
            weights=np.empty(0, np.float32),
            used=np.zeros(1, np.int64),
            mixture=np.tile(_initial_mixture(sum(layers), output == "switching"), (networks, 1)),
            tally=np.zeros((networks, 2), np.int64),
            offsets=np.zeros(networks, np.float32),
            from_zero=initialization == "frequency",
            switches=output == "switching",
            bound=math.log((1 - clip) / clip),
            box=weight_bound,
            lowest_input=input_clip,
            bias=bias,
        )

    @staticmethod
    def bytes_needed(features: int, networks: int, layers: tuple[int, ...], signatures: int) -> int:
        """Return the most memory that a bank of this size needs for its first update."""
        layout = _layout(features, layers, adapts=True)
        update_size = sum(int(size) * int(row) for size, row in layout[:, [SIZE, ROW]]) * networks
        return 4 * MIN_STEPS * update_size + 8 * sum(layers) * signatures + 4 * sum(layers) * networks

    @staticmethod
    def bytes_grown(features: int, networks: int, layers: tuple[int, ...], hyperplanes: list[int]) -> int:
        """Return the memory of the weights once every unit has seen all its contexts."""
        layout = _layout(features, layers, adapts=True)
        rows = [int(row) for size, row in layout[:, [SIZE, ROW]] for _ in range(size)]
        return 4 * networks * sum(row << count for row, count in zip(rows, hyperplanes, strict=True))

    @property
    def networks(self) -> int:
        """Number of networks."""
        return len(self.arrays.mixture)

    @property
    def units(self) -> int:
        """Number of units in each network."""
        return len(self.arrays.cell_at)

    @property
    def mixture(self) -> Float32:
        """The share of each unit in the probability of each network."""
        return self.arrays.mixture

    @property
    def cells(self) -> int:
        """Number of allocated cells."""
        return int(np.count_nonzero(self.arrays.cell_at >= 0))

    def predict(self, x: Float32, signature: Int64) -> Float32:
        """Return the probability of each network that its target is 1."""
        probabilities = np.empty(self.networks, np.float32)
        predict(self._inputs(x), signature, 0, self.arrays, probabilities)
        return probabilities

    def attribution(self, x: Float32, baseline: Float32, signature: Int64) -> Attribution:
        """Return the contribution of each feature to each probability, with the signature fixed."""
        return attribution(
            lambda unit: self.weights(unit, int(signature[unit])),
            self.arrays.layout[:, SIZE].tolist(),
            np.stack([self._inputs(x), self._inputs(baseline)])[:, : x.size + 1],
            self.arrays.offsets,
            self.arrays.mixture,
            self.arrays.bound,
        )

    def _inputs(self, x: Float32) -> Float32:
        inputs: Float32 = np.zeros(self.arrays.layout[0, STRIDE], np.float32)
        write_inputs(x, self.arrays.lowest_input, self.arrays.bias, inputs)
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
        """Update each of ``networks`` toward its target. Other networks are unchanged."""
        self.ensure_capacity()
        learn(
            self._inputs(x),
            signature,
            networks,
            targets,
            learning_rate,
            switching_rate,
            self.optimizer.arrays,
            self.arrays,
        )

    def forget(self, networks: slice | None = None) -> None:
        """Halve everything that determines step sizes: past inputs, gradients and targets. Weights stay.

        If only some networks forget, the past inputs, which all networks share, stay as well.
        """
        bank, chosen = self.arrays, networks or slice(None)
        for size, _, stride, row, unit, _, _ in bank.layout.tolist():
            if row > stride:
                starts = bank.cell_at[unit : unit + size]
                for start in starts[starts >= 0]:
                    cell = bank.weights[start : start + row * self.networks].reshape(-1, row)
                    cell[chosen, stride:] /= 2
        bank.tally[chosen] >>= 1
        write_offsets(bank)
        if networks is None:
            self.optimizer.forget()

    def reorder(self, sources: Int64) -> None:
        """Replace network j with the old network ``sources[j]``, or with a new network for −1.

        No array is changed in place, so a shallow copy of the bank keeps the old networks.
        """
        bank = self.arrays
        order = visited_cells(bank.cell_at)
        units = order // bank.cell_at.shape[1]
        layer_of = np.repeat(np.arange(len(bank.layout)), bank.layout[:, SIZE])[units]
        starts = bank.cell_at.ravel()[order]
        sizes = bank.layout[layer_of, ROW] * sources.size
        weights = np.empty(int(sizes.sum()), np.float32)
        write_reordered(bank, starts, layer_of, sources, weights)
        cell_at = bank.cell_at.copy()
        cell_at.ravel()[order] = np.cumsum(sizes) - sizes
        self.arrays = bank._replace(
            cell_at=cell_at,
            weights=weights,
            used=np.array([weights.size]),
            mixture=take_rows(bank.mixture, sources, _initial_mixture(self.units, bank.switches)),
            tally=take_rows(bank.tally, sources, 0),
            offsets=take_rows(bank.offsets, sources, 0),
        )

    def weights(self, unit: int, signature: int) -> Float32:
        """Return the weights of every network in one cell."""
        bank = self.arrays
        layer = int(np.searchsorted(np.cumsum(bank.layout[:, SIZE]), unit, side="right"))
        fan_in, row = bank.layout[layer, FAN_IN], bank.layout[layer, ROW]
        start = bank.cell_at[unit, signature]
        if start < 0:
            initial = 0 if bank.from_zero and layer == 0 else 1 / fan_in
            return np.full((self.networks, fan_in), initial, np.float32)
        cell = bank.weights[start : start + self.networks * row]
        return cell.reshape(self.networks, row)[:, :fan_in].copy()

    def ensure_capacity(self) -> int:
        """Grow the pool if it has no space for `MIN_STEPS` updates, each with a new cell per unit.

        Returns
        -------
        int
            The number of updates that fit in the pool now.
        """
        bank, update_size = self.arrays, self._update_size * self.networks
        capacity, used = update_size * bank.cell_at.shape[1], int(bank.used[0])
        if bank.weights.size - used < MIN_STEPS * update_size and bank.weights.size < capacity:
            # Doubling makes the amortized cost of copying constant; untouched pages use no memory.
            size = min(max(2 * bank.weights.size, used + MIN_STEPS * update_size), capacity)
            larger = np.empty(size, np.float32)
            larger[:used] = bank.weights[:used]
            self.arrays = bank._replace(weights=larger)
        size = self.arrays.weights.size
        return UNLIMITED if size == capacity else (size - used) // update_size

    def snapshot(self) -> Arrays:
        """Return everything learned: visited cells in order, their weights, the mixture and the tally."""
        bank = self.arrays
        return {
            "cells": visited_cells(bank.cell_at),
            "weights": bank.weights[: bank.used[0]],
            "mixture": bank.mixture,
            "tally": bank.tally,
            **self.optimizer.snapshot(),
        }

    def restore(self, arrays: Arrays) -> None:
        """Restore a snapshot; raise KeyError or ValueError if it is invalid."""
        bank = self.arrays
        order = check_visited_cells(arrays["cells"], bank.cell_at)
        weights, mixture = arrays["weights"], arrays["mixture"]
        if mixture.shape != bank.mixture.shape or mixture.dtype != np.float32:
            raise ValueError(
                f"mixture must be float32 {bank.mixture.shape}, got {mixture.dtype} {mixture.shape}"
            )
        if mixture.min() < 0 or not np.allclose(mixture.sum(axis=1), 1, atol=1e-3):
            raise ValueError("the shares of a mixture must not be negative and must add up to 1")
        if not bank.switches and not (mixture == _initial_mixture(self.units, switches=False)).all():
            raise ValueError("the mixture must select the last unit")
        sizes = np.repeat(bank.layout[:, ROW] * self.networks, bank.layout[:, SIZE])
        ends = np.cumsum(sizes[order // bank.cell_at.shape[1]])
        if weights.shape != (ends[-1] if order.size else 0,) or weights.dtype != np.float32:
            raise ValueError(f"weights do not match the cells: got {weights.dtype} {weights.shape}")
        bank.cell_at.fill(-1)
        bank.cell_at.ravel()[order[1:]] = ends[:-1]
        bank.cell_at.ravel()[order[:1]] = 0
        self._check_pool(check_values("weights", weights))
        copy_into({"tally": bank.tally}, arrays)
        if (bank.tally[:, ONES] > bank.tally[:, TARGETS]).any():
            raise ValueError("a network has more targets close to 1 than targets")
        self.arrays = bank._replace(
            weights=weights.copy(), used=np.array([weights.size]), mixture=mixture.copy()
        )
        write_offsets(self.arrays)
        self.optimizer.restore(arrays)

    def _check_pool(self, pool: Float32) -> None:
        """Raise ValueError if a weight is out of bounds or a sum of squares is negative."""
        for size, _, stride, row, unit, _, _ in self.arrays.layout.tolist():
            starts = self.arrays.cell_at[unit : unit + size]
            cells = starts[starts >= 0][:, None] + np.arange(row * self.networks)
            rows = pool[cells].reshape(-1, row)
            if (np.abs(rows[:, :stride]) > np.float32(self.arrays.box)).any() or (rows[:, stride:] < 0).any():
                raise ValueError("a weight is out of bounds or a sum of squared gradients is negative")


def _initial_mixture(units: int, switches: bool) -> Float32:
    """Return the initial shares of the units: equal, or everything for the last unit."""
    if switches:
        return np.full(units, 1 / units, np.float32)
    shares: Float32 = np.zeros(units, np.float32)
    shares[-1] = 1
    return shares


def _layout(features: int, layers: tuple[int, ...], adapts: bool) -> Int64:
    """Return the layout table, one row per layer; see ``glcb.gln.layout``."""
    rows = []
    fan_in, source, target, unit = features + 1, -1, 0, 0
    for size in layers:
        row = padded(fan_in) * (2 if adapts and source >= 0 else 1)
        rows.append((size, fan_in, padded(fan_in), row, unit, source, target))
        fan_in, source = size + 1, target
        target += padded(fan_in)
        unit += size
    return np.array(rows, np.int64)
