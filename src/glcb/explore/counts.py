"""How often each arm was played under each unit's signature, and what follows for one context."""

import math

import numpy as np

from glcb._compile import kernel
from glcb._directory import checked_visits, empty_directory, visits
from glcb._state import State, fill, rearranged, sane
from glcb._types import Float64, Int64

LOG2_E, LN_2 = 1 / math.log(2), math.log(2)
SERIES = tuple(1 / math.factorial(k) for k in range(11, -1, -1))
"""Coefficients of e^r, highest power first; with r up to ln 2 / 2, more would make no difference."""


@kernel
def _exp(x: float) -> float:
    """Return e^x for −700 < x ≤ 0. There is no branch and no call in it, so loops over it vectorise."""
    power = np.rint(x * LOG2_E)
    r = x - power * LN_2
    series = SERIES[0]
    for k in range(1, len(SERIES)):
        series = SERIES[k] + r * series
    # 2 to a whole power is a number with nothing but that power in it.
    factor: float = np.int64((np.int64(np.int32(power)) + 1023) << 52).view(np.float64)
    return series * factor


@kernel
def _pseudocounts(signature: Int64, row_at: Int64, counts: Int64, heat: float, result: Float64) -> None:
    """Write the soft minimum over the units, at inverse temperature ``heat``, for each arm."""
    arms = result.size
    units = signature.size
    largest = np.zeros(arms, np.int64)
    for unit in range(units):
        row = row_at[unit, signature[unit]]
        if row >= 0:
            for arm in range(arms):
                largest[arm] = max(largest[arm], counts[row, arm])
    slopes = -heat / np.maximum(largest, 1)
    weighted = np.zeros(arms)
    total = np.zeros(arms)
    for unit in range(units):
        row = row_at[unit, signature[unit]]
        if row < 0:
            total += 1.0
            continue
        for arm in range(arms):
            weight = _exp(slopes[arm] * counts[row, arm])
            weighted[arm] += weight * counts[row, arm]
            total[arm] += weight
    for arm in range(arms):
        result[arm] = weighted[arm] / total[arm]


@kernel
def _pseudocounts_many(signatures: Int64, row_at: Int64, counts: Int64, heat: float, result: Float64) -> None:
    """Write the pseudocounts for many signatures, one row each."""
    for row in range(len(signatures)):
        _pseudocounts(signatures[row], row_at, counts, heat, result[row])


@kernel
def _add(signature: Int64, arm: int, row_at: Int64, counts: Int64, used: int) -> int:
    """Count one play of ``arm``; return how many rows are used afterwards."""
    for unit in range(signature.size):
        row = row_at[unit, signature[unit]]
        if row < 0:
            row = used
            row_at[unit, signature[unit]] = row
            counts[row] = 0
            used += 1
        counts[row, arm] += 1
    return used


def _heat(step: int) -> float:
    return math.log(step - 1) if step > 1 else 0.0


_FIRST_VISITS = 4
"""There is room at first for this many contexts that have no signature in common."""


class Counts:
    """N_u(s, a) for every unit u, signature s and arm a. Only signatures that occurred take memory."""

    def __init__(self, units: int, signatures: int, arms: int) -> None:
        self.arms = arms
        self._row_at = empty_directory(units, signatures)
        self._counts = np.empty((0, arms), np.int64)
        self._used = 0
        self.turns = 0
        """Plays counted so far, as far as they still count."""

    @staticmethod
    def bytes_needed(units: int, signatures: int, arms: int) -> int:
        """Return the memory that counts of this size need for the first play."""
        return 8 * units * (signatures + _FIRST_VISITS * arms)

    def pseudocounts(self, signature: Int64, step: int) -> Float64:
        """Return N̂ for each arm before ``step`` t: the mean of N_u, weighted by (t − 1)^(−N_u / max N_u).

        The weights favour small counts, so this is a soft minimum; it lies between the smallest and the
        largest N_u.
        """
        result = np.empty(self.arms)
        _pseudocounts(signature, self._row_at, self._counts, _heat(step), result)
        return result

    def pseudocounts_many(self, signatures: Int64, step: int) -> Float64:
        """Return N̂ for many signatures before the same ``step``, one row each."""
        result = np.empty((len(signatures), self.arms))
        _pseudocounts_many(signatures, self._row_at, self._counts, _heat(step), result)
        return result

    def add(self, signature: Int64, arm: int) -> None:
        """Count one play of ``arm`` under ``signature``."""
        self.make_room()
        self._used = _add(signature, arm, self._row_at, self._counts, self._used)
        self.turns += 1

    def forget(self) -> None:
        """Let everything count half, rounded down."""
        self._counts[: self._used] >>= 1
        self.turns >>= 1

    def make_room(self) -> None:
        """Have a row for every unit at hand, the most that one play can need."""
        units, most = len(self._row_at), self._row_at.size
        if len(self._counts) < min(self._used + units, most):
            larger = np.empty((min(2 * len(self._counts) + _FIRST_VISITS * units, most), self.arms), np.int64)
            larger[: self._used] = self._counts[: self._used]
            self._counts = larger

    def rearrange(self, sources: Int64) -> None:
        """Let arm j have the counts that arm ``sources[j]`` had, or none for −1."""
        self._counts = np.ascontiguousarray(rearranged(self._counts[: self._used].T, sources, 0).T)
        self.arms = sources.size

    def of(self, unit: int, signature: int) -> Int64:
        """Return the count of each arm under one signature of one unit."""
        row = self._row_at[unit, signature]
        return self._counts[row].copy() if row >= 0 else np.zeros(self.arms, np.int64)

    def state(self) -> State:
        """Return all counts: the signatures in the order of their first visit, and a row for each."""
        return {
            "rows": visits(self._row_at),
            "counts": self._counts[: self._used],
            "turns_counted": np.array([self.turns]),
        }

    def restore(self, state: State) -> None:
        """Take over what :meth:`state` returned; raise ValueError if it cannot be ours."""
        order, counts = checked_visits(state["rows"], self._row_at), state["counts"]
        if counts.shape != (order.size, self.arms) or counts.dtype != np.int64:
            raise ValueError(
                f"counts are {counts.dtype} {counts.shape}, expected int64 {(order.size, self.arms)}"
            )
        turns = np.zeros(1, np.int64)
        fill({"turns_counted": turns}, state)
        self.turns = int(turns[0])
        self._row_at.fill(-1)
        self._row_at.ravel()[order] = np.arange(order.size)
        self._counts = sane("counts", counts).copy()
        self._used = order.size
