"""Numbers come to lie within [0, 1] by their rank among the numbers seen before.

Ranks are robust by nature: an absurd number is one among many, and spread evenly whatever the unit is. Each
column keeps a sample of what it has seen: everything at first, and then a fair draw from all of it (Vitter's
algorithm R), which changes ever more rarely. So the scale settles, and its memory does not grow.
"""

import numpy as np

from glcb._arrays import State, sane
from glcb._numba.compile import kernel
from glcb._types import Float32, Float64, Int64

SAMPLE = 256
"""Numbers that a column remembers; ranks are exact to about one over the root of this."""
SETTLED = 30
"""From this many numbers on, a column dares to call a number far out of range."""


class Scales:
    """One column per number of a context: with a known range, or with a sample of what has been seen."""

    def __init__(self) -> None:
        self._columns = 0
        self._ranges: Float64 = np.zeros((0, 2))
        self._samples: Float64 = np.zeros((0, SAMPLE))
        self._counts: Int64 = np.zeros(0, np.int64)
        self._slots: Int64 = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return self._columns

    def add(self, slot: int, limits: tuple[float, float] | None) -> None:
        """Add a column whose place in a context is ``slot``, with its range if that is known."""
        if self._columns == len(self._slots):
            arrays = (self._ranges, self._samples, self._counts, self._slots)
            self._ranges, self._samples, self._counts, self._slots = map(_doubled, arrays)
        self._slots[self._columns] = slot
        self._ranges[self._columns] = limits or (0.0, 0.0)
        self._columns += 1

    def place(self, numbers: Float64, x: Float32) -> list[int]:
        """Write every number that is not NaN into its slot of ``x``; return the columns that were far off."""
        far = np.empty(self._columns, np.int64)
        count = _place(numbers, self._ranges, self._samples, self._counts, self._slots, x, far)
        return far[:count].tolist() if count else []

    def observe(self, numbers: Float64) -> None:
        """Remember these numbers for those to come; NaN is none."""
        _observe(numbers, self._ranges, self._samples, self._counts)

    def limits(self, column: int) -> tuple[float, float] | None:
        """Return the known range of a column, or the lowest and highest number in its sample, if any."""
        low, high = self._ranges[column].tolist()
        if low < high:
            return low, high
        seen = min(int(self._counts[column]), SAMPLE)
        return (float(self._samples[column, 0]), float(self._samples[column, seen - 1])) if seen else None

    def state(self) -> State:
        """Return everything as arrays."""
        return {
            "ranges": self._ranges[: self._columns],
            "samples": self._samples[: self._columns],
            "counts": self._counts[: self._columns],
            "slots": self._slots[: self._columns],
        }

    def restore(self, state: State, width: int) -> None:
        """Take over what :meth:`state` returned; raise ValueError or KeyError if it cannot be ours."""
        columns = len(state["slots"])
        for name, own in self.state().items():
            given = state[name]
            if given.dtype != own.dtype or given.shape != (columns, *own.shape[1:]):
                raise ValueError(f"{name} is {given.dtype} {given.shape}, which does not fit")
            sane(name, given)
        if columns and state["slots"].max() >= width:
            raise ValueError("a number has its place outside the context")
        for sample, count in zip(state["samples"], state["counts"], strict=True):
            seen = sample[: min(count, SAMPLE)]
            if (seen[1:] < seen[:-1]).any():
                raise ValueError("a sample of numbers is not in order")
        self._columns = columns
        self._ranges, self._samples = state["ranges"].copy(), state["samples"].copy()
        self._counts, self._slots = state["counts"].copy(), state["slots"].copy()


def _doubled(array: np.ndarray) -> np.ndarray:
    """Return ``array`` with as many empty rows again, so that adding them one by one is cheap."""
    return np.concatenate([array, np.zeros((max(4, len(array)), *array.shape[1:]), array.dtype)])


@kernel
def _rank(sample: Float64, size: int, number: float, or_equal: bool) -> int:
    """Return how many of the first ``size`` are less than ``number``, or not more."""
    low = 0
    high = size
    while low < high:
        middle = (low + high) // 2
        if sample[middle] < number or (or_equal and sample[middle] == number):
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _place(
    numbers: Float64,
    ranges: Float64,
    samples: Float64,
    counts: Int64,
    slots: Int64,
    x: Float32,
    far: Int64,
) -> int:
    """Write the numbers into their slots; list the columns that were far off and return how many."""
    strays = 0
    for column in range(numbers.size):
        number = numbers[column]
        if number != number:
            continue
        low = ranges[column, 0]
        high = ranges[column, 1]
        if low < high:
            x[slots[column]] = (min(max(number, low), high) - low) / (high - low)
            stray = number < low or number > high
        else:
            size = min(counts[column], samples.shape[1])
            sample = samples[column]
            # The middle of its equals, as if it were one of the sample: at first nobody is extreme.
            below = _rank(sample, size, number, False)
            up_to = below
            if below < size and sample[below] == number:
                up_to = _rank(sample, size, number, True)
            x[slots[column]] = (below + up_to + 1) / (2 * (size + 1))
            stray = False
            if size >= SETTLED:
                span = sample[size - 1] - sample[0]
                stray = number < sample[0] - span or number > sample[size - 1] + span
        if stray:
            far[strays] = column
            strays += 1
    return strays


@kernel
def _observe(numbers: Float64, ranges: Float64, samples: Float64, counts: Int64) -> None:
    """Let the samples take in the numbers."""
    most = samples.shape[1]
    for column in range(numbers.size):
        number = numbers[column]
        if number != number or ranges[column, 0] < ranges[column, 1]:
            continue
        sample = samples[column]
        count = counts[column]
        counts[column] += 1
        hole = count
        if count >= most:
            hole = _drawn(count, column) % (count + 1)
            if hole >= most:
                continue
        # The hole moves to where the number belongs.
        while hole > 0 and sample[hole - 1] > number:
            sample[hole] = sample[hole - 1]
            hole -= 1
        end = min(count, most - 1)
        while hole < end and sample[hole + 1] < number:
            sample[hole] = sample[hole + 1]
            hole += 1
        sample[hole] = number


@kernel
def _drawn(count: int, column: int) -> int:
    """Return a number as good as random that depends on nothing else (SplitMix64, Steele and others 2014)."""
    z = np.uint64(count) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(column) * np.uint64(0xD1B54A32D192ED03)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return int((z ^ (z >> np.uint64(31))) >> np.uint64(1))
