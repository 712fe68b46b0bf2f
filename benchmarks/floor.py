"""The memory floor: the time to read, once and at random addresses, the bytes that a decision must read."""

import time
from dataclasses import dataclass

import numpy as np

from benchmarks.timing import Seconds, Step
from glcb._arrays import Float64, Int64
from glcb._numba.compile import kernel
from glcb.policies.glcb.policy import GLCB

_LINE = 64
"""Bytes per cache line."""
_MIN_BYTES = 1 << 19
"""Minimum number of bytes read per call, so that the overhead of the call is negligible."""


@dataclass(frozen=True)
class Footprint:
    """Bytes that a decision must read, without padding, visit counts and mixture weights."""

    weights: int
    """Weights of the active cells."""
    hyperplanes: int
    """Normals and thresholds of all gates."""
    cell: int
    """Mean size of a cell."""
    bank: int
    """All cells together, from which the active ones are selected."""

    @property
    def total(self) -> int:
        """Bytes read by one decision."""
        return self.weights + self.hyperplanes


def footprint(bandit: GLCB) -> Footprint:
    """Return the footprint of a decision, computed from the sizes of the policy's own arrays."""
    gates, bank = bandit._gates, bandit._bank
    weights = sum(bank.weights(unit, 0).nbytes for unit in range(bank.units))
    return Footprint(
        weights=weights,
        hyperplanes=gates.normals.nbytes + gates.thresholds.nbytes,
        cell=weights // bank.units,
        bank=bank.snapshot()["weights"].nbytes,
    )


@kernel
def _read(memory: Int64, picked: Int64) -> int:
    """Sum the selected blocks; integer sums vectorize because their order does not matter."""
    total = 0
    for place in picked:
        block = memory[place]
        for i in range(block.size):
            total += block[i]
    return total


def floor_step(needed: Footprint, rng: np.random.Generator) -> Step:
    """Return a step that reads random cell-sized blocks from a buffer as large as the bank.

    One step reads the footprint of one decision, or a multiple of it if the footprint is small.
    """
    block = max(round(needed.cell / _LINE), 1) * _LINE
    memory = rng.integers(1 << 62, size=(max(needed.bank // block, 1), block // 8))
    count = max(round(max(needed.total, _MIN_BYTES) / block), 1)
    decisions = count * block / needed.total

    def step(_: Float64) -> Seconds:
        picked = rng.integers(len(memory), size=count)
        start = time.perf_counter()
        _read(memory, picked)
        return {"floor": (time.perf_counter() - start) / decisions}

    return step
