"""The floor: the time that it takes to read once what a decision must read, at random places in memory."""

import time
from dataclasses import dataclass

import numpy as np

from benchmarks.clock import Seconds, Step
from glcb._numba.compile import kernel
from glcb._types import Float64, Int64
from glcb.policies.glcb.policy import GLCB

_LINE = 64
"""Bytes of a cache line."""
_LEAST = 1 << 19
"""Bytes to read in one call, at least, so that the call itself does not count."""


@dataclass(frozen=True)
class Reading:
    """What a decision must read, in bytes; padding, counts and the mixture not included."""

    weights: int
    """Weights of the active cells."""
    hyperplanes: int
    """Normals and thresholds of all gates."""
    cell: int
    """Mean size of a cell."""
    bank: int
    """All cells together, from which the active ones are drawn."""

    @property
    def total(self) -> int:
        """All that one decision must read."""
        return self.weights + self.hyperplanes


def reading(bandit: GLCB) -> Reading:
    """Return what a decision of ``bandit`` must read, from the sizes of its own arrays."""
    gates, bank = bandit._gates, bandit._bank
    weights = sum(bank.weights(unit, 0).nbytes for unit in range(bank.units))
    return Reading(
        weights=weights,
        hyperplanes=gates.normals.nbytes + gates.thresholds.nbytes,
        cell=weights // bank.units,
        bank=bank.state()["weights"].nbytes,
    )


@kernel
def _read(memory: Int64, picked: Int64) -> int:
    """Add up all numbers in the blocks picked: integers, because their sums vectorize in any order."""
    total = 0
    for place in picked:
        block = memory[place]
        for i in range(block.size):
            total += block[i]
    return total


def floor_step(needed: Reading, rng: np.random.Generator) -> Step:
    """Return a step that reads random blocks, each as large as a cell, from a buffer as large as the bank.

    They are as many as have the size of what a decision must read, or some times that if it is little.
    """
    block = max(round(needed.cell / _LINE), 1) * _LINE
    memory = rng.integers(1 << 62, size=(max(needed.bank // block, 1), block // 8))
    count = max(round(max(needed.total, _LEAST) / block), 1)
    decisions = count * block / needed.total

    def step(_: Float64) -> Seconds:
        picked = rng.integers(len(memory), size=count)
        start = time.perf_counter()
        _read(memory, picked)
        return {"floor": (time.perf_counter() - start) / decisions}

    return step
