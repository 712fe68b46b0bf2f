"""How often each arm was played under each unit's signature, and what follows for one context."""

import math
from typing import NamedTuple

import numpy as np

from glcb._arrays import State, fill, rearranged, sane
from glcb._numba.cell_index import FOR_EVER, checked_visits, empty_directory, entries, visits
from glcb._numba.compile import kernel
from glcb._numba.prefetch import prefetch
from glcb._types import Float64, Int64, UInt32

LOG2_E, LN_2 = 1 / math.log(2), math.log(2)
SERIES = tuple(1 / math.factorial(k) for k in range(11, -1, -1))
"""Coefficients of e^r, highest power first; with r up to ln 2 / 2, more would make no difference."""

LARGEST = 2**32 - 1
"""The largest count."""


@kernel
def _exp(x: float) -> float:
    """Return e^x for −700 < x ≤ 0. There is no branch and no call in it, so loops over it vectorize."""
    power = np.rint(x * LOG2_E)
    r = x - power * LN_2
    series = SERIES[0]
    for k in range(1, len(SERIES)):
        series = SERIES[k] + r * series
    # 2 to a whole power is a number with nothing but that power in it.
    factor: float = np.int64((np.int64(np.int32(power)) + 1023) << 52).view(np.float64)
    return series * factor


class CountArrays(NamedTuple):
    """All that the kernels need to know of counts."""

    row_at: Int64
    """Where in ``table`` the counts of each unit and signature stand, or −1."""
    table: UInt32
    """One row for each signature of a unit that occurred, one column per arm. A decision reads a row of every
    unit, at random places: the shorter, the sooner. Counts beyond what fits stay at that."""
    used: Int64
    """How many rows of the table are taken; one number."""
    turns: Int64
    """How many plays were counted; one number."""


@kernel
def write_pseudocounts(signature: Int64, tries: CountArrays, result: Float64) -> None:
    """Write N̂ for each arm: the mean of N_u over the units, weighted by turns^(−N_u / max N_u).

    Counts stand at random places in memory, so all are asked for before the first is needed. Then there is
    one long loop for the powers: it vectorizes, whatever the number of arms.
    """
    table = tries.table
    units, arms = signature.size, table.shape[1]
    rows = entries(tries.row_at, signature)
    for row in rows:
        if row >= 0:
            prefetch(table.ravel(), row * arms, arms)
    counts = np.zeros((units, arms))
    largest = np.zeros(arms)
    for unit in range(units):
        if rows[unit] >= 0:
            for arm in range(arms):
                counts[unit, arm] = table[rows[unit], arm]
                largest[arm] = max(largest[arm], counts[unit, arm])
    heat = math.log(max(tries.turns[0], 1))
    slopes = np.empty(arms)
    for arm in range(arms):
        slopes[arm] = -heat / max(largest[arm], 1.0)
    weights = np.empty((units, arms))
    for unit in range(units):
        for arm in range(arms):
            weights[unit, arm] = slopes[arm] * counts[unit, arm]
    flat = weights.ravel()
    for i in range(flat.size):
        flat[i] = _exp(flat[i])
    weighted = np.zeros(arms)
    total = np.zeros(arms)
    for unit in range(units):
        for arm in range(arms):
            weighted[arm] += weights[unit, arm] * counts[unit, arm]
            total[arm] += weights[unit, arm]
    for arm in range(arms):
        result[arm] = weighted[arm] / total[arm]


@kernel
def add_try(signature: Int64, arm: int, tries: CountArrays) -> None:
    """Count one play of ``arm``. The table must have room for one new row per unit."""
    row_at, used = tries.row_at, tries.used
    for unit in range(signature.size):
        row = row_at[unit, signature[unit]]
        if row < 0:
            row = used[0]
            row_at[unit, signature[unit]] = row
            tries.table[row] = 0
            used[0] += 1
        if tries.table[row, arm] < LARGEST:
            tries.table[row, arm] += np.uint32(1)
    tries.turns[0] += 1


_FIRST_VISITS = 4
"""There is room at first for this many contexts that have no signature in common."""


class Counts:
    """N_u(s, a) for every unit u, signature s and arm a. Only signatures that occurred take memory.

    A bandit hands ``tries`` to the kernels; ``add`` and ``pseudocounts`` are for counts that stand alone.
    """

    def __init__(self, units: int, signatures: int, arms: int) -> None:
        self.tries = CountArrays(
            row_at=empty_directory(units, signatures),
            table=np.empty((0, arms), np.uint32),
            used=np.zeros(1, np.int64),
            turns=np.zeros(1, np.int64),
        )

    @staticmethod
    def bytes_needed(units: int, signatures: int, arms: int) -> int:
        """Return the memory that counts of this size need for the first play."""
        return units * (8 * signatures + 4 * _FIRST_VISITS * arms)

    @property
    def arms(self) -> int:
        """Number of arms."""
        arms: int = self.tries.table.shape[1]
        return arms

    @property
    def turns(self) -> int:
        """Plays counted so far, as far as they still count."""
        return int(self.tries.turns[0])

    def pseudocounts(self, signature: Int64) -> Float64:
        """Return N̂ for each arm: the mean of N_u, weighted by (t − 1)^(−N_u / max N_u) before step t.

        The weights favor small counts, so this is a soft minimum; it lies between the smallest and the
        largest N_u.
        """
        result = np.empty(self.arms)
        write_pseudocounts(signature, self.tries, result)
        return result

    def add(self, signature: Int64, arm: int) -> None:
        """Count one play of ``arm`` under ``signature``."""
        self.ensure_capacity()
        add_try(signature, arm, self.tries)

    def forget(self) -> None:
        """Let everything count half, rounded down."""
        for counted in (self._rows, self.tries.turns):
            np.right_shift(counted, 1, out=counted)

    def ensure_capacity(self) -> int:
        """Have a row for every unit at hand, the most that one play can need.

        Return for how many plays there is room now.
        """
        tries = self.tries
        units, most, used = len(tries.row_at), tries.row_at.size, int(tries.used[0])
        if len(tries.table) < min(used + units, most):
            rows = min(2 * len(tries.table) + _FIRST_VISITS * units, most)
            larger = np.empty((rows, self.arms), np.uint32)
            larger[:used] = tries.table[:used]
            self.tries = tries._replace(table=larger)
        rows = len(self.tries.table)
        return FOR_EVER if rows == most else (rows - used) // units

    def rearrange(self, sources: Int64) -> None:
        """Let arm j have the counts that arm ``sources[j]`` had, or none for −1.

        No array is changed in place, so a shallow copy keeps what was.
        """
        rows = rearranged(self._rows.T, sources, 0).T
        self.tries = self.tries._replace(table=np.ascontiguousarray(rows))

    @property
    def _rows(self) -> UInt32:
        return self.tries.table[: self.tries.used[0]]

    def of(self, unit: int, signature: int) -> Int64:
        """Return the count of each arm under one signature of one unit."""
        row = self.tries.row_at[unit, signature]
        return self.tries.table[row].astype(np.int64) if row >= 0 else np.zeros(self.arms, np.int64)

    def state(self) -> State:
        """Return all counts: the signatures in the order of their first visit, and a row for each."""
        return {
            "rows": visits(self.tries.row_at),
            "counts": self._rows.astype(np.int64),
            "turns_counted": self.tries.turns,
        }

    def restore(self, state: State) -> None:
        """Take over what :meth:`state` returned; raise ValueError if it cannot be ours."""
        tries = self.tries
        order, counts = checked_visits(state["rows"], tries.row_at), state["counts"]
        if counts.shape != (order.size, self.arms) or counts.dtype != np.int64:
            raise ValueError(
                f"counts are {counts.dtype} {counts.shape}, expected int64 {(order.size, self.arms)}"
            )
        fill({"turns_counted": tries.turns}, state)
        tries.row_at.fill(-1)
        tries.row_at.ravel()[order] = np.arange(order.size)
        tries.used[0] = order.size
        self.tries = tries._replace(table=np.minimum(sane("counts", counts), LARGEST).astype(np.uint32))
