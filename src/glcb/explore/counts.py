"""Counts of decisions per unit, signature and arm, and the pseudocounts of a context."""

import math
from typing import NamedTuple

import numpy as np
from numba import int64, uint32

from glcb._arrays import Arrays, Float64, Int64, UInt32, check_values, copy_into, take_rows
from glcb._numba.arrays import as_vector, new_matrix, new_vector
from glcb._numba.cell_index import (
    MIN_STEPS,
    UNLIMITED,
    check_visited_cells,
    empty_index,
    lookup,
    visited_cells,
)
from glcb._numba.compile import kernel
from glcb._numba.packed import named_tuple_type
from glcb._numba.prefetch import prefetch

LOG2_E, LN_2 = 1 / math.log(2), math.log(2)
SERIES = tuple(1 / math.factorial(k) for k in range(11, -1, -1))
"""Taylor coefficients of e^r, highest power first. For |r| ≤ ln 2 / 2, more terms change nothing."""

MAX_COUNT = 2**32 - 1
"""Counts saturate at this value."""


@kernel
def _exp(x: float) -> float:
    """Return e^x for −700 < x ≤ 0, without a branch or a call, so that loops vectorize."""
    power = np.rint(x * LOG2_E)
    r = x - power * LN_2
    series = SERIES[0]
    for k in range(1, len(SERIES)):
        series = SERIES[k] + r * series
    # 2**power is the float64 with this exponent and an empty mantissa.
    factor: float = np.int64((np.int64(np.int32(power)) + 1023) << 52).view(np.float64)
    return series * factor


class CountArrays(NamedTuple):
    """The kernels' view of :class:`VisitCounts`."""

    row_at: Int64
    """The row of each unit and signature in ``table``, or −1."""
    table: UInt32
    """One row per visited signature of a unit, one column per arm. A decision reads one random row per unit;
    32-bit counts keep rows short and reads fast."""
    used: Int64
    """Number of rows in use; a single element."""
    total: Int64
    """Number of counted decisions; a single element."""


COUNT_ARRAYS = named_tuple_type(CountArrays, int64[:, ::1], uint32[:, ::1], int64[::1], int64[::1])


@kernel
def write_pseudocounts(signature: Int64, counts: CountArrays, result: Float64) -> None:
    """Write N̂ for each arm: the mean of N_u over the units, weighted by total^(−N_u / max N_u).

    Rows are scattered in memory, so all are prefetched before the first is read. One long loop for the powers
    vectorizes for any number of arms.
    """
    table = counts.table
    units, arms = signature.size, table.shape[1]
    rows = lookup(counts.row_at, signature)
    for row in rows:
        if row >= 0:
            prefetch(as_vector(table), row * arms, arms)
    unit_counts, weights = new_matrix(np.float64, units, arms), new_matrix(np.float64, units, arms)
    largest, slopes = new_vector(np.float64, arms), new_vector(np.float64, arms)
    weighted, total_weight = new_vector(np.float64, arms), new_vector(np.float64, arms)
    for arm in range(arms):
        largest[arm] = weighted[arm] = total_weight[arm] = 0.0
    for unit in range(units):
        for arm in range(arms):
            unit_counts[unit, arm] = 0.0
        if rows[unit] >= 0:
            for arm in range(arms):
                unit_counts[unit, arm] = table[rows[unit], arm]
                largest[arm] = max(largest[arm], unit_counts[unit, arm])
    log_total = math.log(max(counts.total[0], 1))
    for arm in range(arms):
        slopes[arm] = -log_total / max(largest[arm], 1.0)
    for unit in range(units):
        for arm in range(arms):
            weights[unit, arm] = slopes[arm] * unit_counts[unit, arm]
    flat = as_vector(weights)
    for i in range(flat.size):
        flat[i] = _exp(flat[i])
    for unit in range(units):
        for arm in range(arms):
            weighted[arm] += weights[unit, arm] * unit_counts[unit, arm]
            total_weight[arm] += weights[unit, arm]
    for arm in range(arms):
        result[arm] = weighted[arm] / total_weight[arm]


@kernel
def add_count(signature: Int64, arm: int, counts: CountArrays) -> None:
    """Count one decision for ``arm``. The table must have space for one new row per unit."""
    row_at, used = counts.row_at, counts.used
    for unit in range(signature.size):
        row = row_at[unit, signature[unit]]
        if row < 0:
            row = used[0]
            row_at[unit, signature[unit]] = row
            for other in range(counts.table.shape[1]):
                counts.table[row, other] = np.uint32(0)
            used[0] += 1
        if counts.table[row, arm] < MAX_COUNT:
            counts.table[row, arm] += np.uint32(1)
    counts.total[0] += 1


class VisitCounts:
    """Decision counts N_u(s, a) for every unit u, signature s and arm a.

    Only visited signatures use memory. The methods are for standalone use; a policy passes ``arrays`` to its
    kernels.
    """

    def __init__(self, units: int, signatures: int, arms: int) -> None:
        self.arrays = CountArrays(
            row_at=empty_index(units, signatures),
            table=np.empty((0, arms), np.uint32),
            used=np.zeros(1, np.int64),
            total=np.zeros(1, np.int64),
        )

    @staticmethod
    def bytes_needed(units: int, signatures: int, arms: int) -> int:
        """Return the memory that counts of this size need for the first decision."""
        return units * (8 * signatures + 4 * MIN_STEPS * arms)

    @property
    def arms(self) -> int:
        """Number of arms."""
        arms: int = self.arrays.table.shape[1]
        return arms

    @property
    def total(self) -> int:
        """Number of counted decisions, halved by forgetting."""
        return int(self.arrays.total[0])

    def pseudocounts(self, signature: Int64) -> Float64:
        """Return N̂ for each arm: the mean of N_u, weighted by (t − 1)^(−N_u / max N_u) before step t.

        The weights favor small counts, so this is a soft minimum: it is between the smallest and the largest
        N_u.
        """
        result = np.empty(self.arms)
        write_pseudocounts(signature, self.arrays, result)
        return result

    def add(self, signature: Int64, arm: int) -> None:
        """Count one decision for ``arm`` under ``signature``."""
        self.ensure_capacity()
        add_count(signature, arm, self.arrays)

    def forget(self, arms: slice | None = None) -> None:
        """Halve all counts, or the counts of some arms, rounded down."""
        rows = self._rows
        rows[:, arms or slice(None)] >>= 1
        if arms is None:
            np.right_shift(self.arrays.total, 1, out=self.arrays.total)

    def ensure_capacity(self) -> int:
        """Grow the table if it has no space for `MIN_STEPS` decisions, each with a new row per unit.

        Returns
        -------
        int
            The number of decisions that fit in the table now.
        """
        own = self.arrays
        units, max_rows, used = len(own.row_at), own.row_at.size, int(own.used[0])
        if len(own.table) < min(used + MIN_STEPS * units, max_rows):
            rows = min(max(2 * len(own.table), used + MIN_STEPS * units), max_rows)
            larger = np.empty((rows, self.arms), np.uint32)
            larger[:used] = own.table[:used]
            self.arrays = own._replace(table=larger)
        rows = len(self.arrays.table)
        return UNLIMITED if rows == max_rows else (rows - used) // units

    def reorder(self, sources: Int64) -> None:
        """Replace the counts of arm j with the old counts of arm ``sources[j]``, or with zero for −1.

        No array is changed in place, so a shallow copy keeps the old counts.
        """
        rows = take_rows(self._rows.T, sources, 0).T
        self.arrays = self.arrays._replace(table=np.ascontiguousarray(rows))

    @property
    def _rows(self) -> UInt32:
        return self.arrays.table[: self.arrays.used[0]]

    def of(self, unit: int, signature: int) -> Int64:
        """Return the count of each arm under one signature of one unit."""
        row = self.arrays.row_at[unit, signature]
        return self.arrays.table[row].astype(np.int64) if row >= 0 else np.zeros(self.arms, np.int64)

    def snapshot(self) -> Arrays:
        """Return all counts: the visited signatures in order, and a row for each."""
        return {
            "count_cells": visited_cells(self.arrays.row_at),
            "counts": self._rows.astype(np.int64),
            "count_total": self.arrays.total,
        }

    def restore(self, arrays: Arrays) -> None:
        """Restore a snapshot; raise KeyError or ValueError if it is invalid."""
        own = self.arrays
        order, counts = check_visited_cells(arrays["count_cells"], own.row_at), arrays["counts"]
        if counts.shape != (order.size, self.arms) or counts.dtype != np.int64:
            raise ValueError(
                f"counts must be int64 {(order.size, self.arms)}, got {counts.dtype} {counts.shape}"
            )
        copy_into({"count_total": own.total}, arrays)
        own.row_at.fill(-1)
        own.row_at.ravel()[order] = np.arange(order.size)
        own.used[0] = order.size
        self.arrays = own._replace(
            table=np.minimum(check_values("counts", counts), MAX_COUNT).astype(np.uint32)
        )
