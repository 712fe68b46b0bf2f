"""Scaling of numbers to [0, 1] by rank.

A number is scaled to its rank among the numbers observed so far. Ranks are robust: an outlier counts as one
number among many, and the result is uniform regardless of the unit. Each column keeps a sample: all numbers
at first, then a uniform sample of all numbers (Vitter's algorithm R), which changes less and less often.
Scales therefore converge, and memory is bounded.
"""

import numpy as np

from glcb._arrays import Arrays, Float32, Float64, Int64, check_values
from glcb._numba.compile import kernel

SAMPLE = 256
"""Size of the sample of a column. The error of a rank is about one over the square root of this."""
MIN_SAMPLE = 30
"""A column needs this many numbers before it can report a number as out of range."""


class Scales:
    """The scales of the numbers of a context: one column each, with a declared range or a sample."""

    def __init__(self) -> None:
        self._columns = 0
        self._ranges: Float64 = np.zeros((0, 2))
        self._samples: Float64 = np.zeros((0, SAMPLE))
        self._counts: Int64 = np.zeros(0, np.int64)
        self._slots: Int64 = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return self._columns

    def add(self, slot: int, limits: tuple[float, float] | None) -> None:
        """Add a column that writes to `slot`, with its range if it is declared."""
        if self._columns == len(self._slots):
            arrays = (self._ranges, self._samples, self._counts, self._slots)
            self._ranges, self._samples, self._counts, self._slots = map(_double, arrays)
        self._slots[self._columns] = slot
        self._ranges[self._columns] = limits or (0.0, 0.0)
        self._columns += 1

    def place(self, numbers: Float64, x: Float32) -> list[int]:
        """Write the scaled numbers to their slots of `x`, except NaN; return the columns out of range."""
        outliers = np.empty(self._columns, np.int64)
        count = _place(numbers, self._ranges, self._samples, self._counts, self._slots, x, outliers)
        return outliers[:count].tolist() if count else []

    def observe(self, numbers: Float64) -> None:
        """Add these numbers to the samples, except NaN."""
        _observe(numbers, self._ranges, self._samples, self._counts)

    def limits(self, column: int) -> tuple[float, float] | None:
        """Return the declared range of a column, or the lowest and highest number in its sample, if any."""
        low, high = self._ranges[column].tolist()
        if low < high:
            return low, high
        size = min(int(self._counts[column]), SAMPLE)
        return (float(self._samples[column, 0]), float(self._samples[column, size - 1])) if size else None

    def snapshot(self) -> Arrays:
        """Return the scales as arrays."""
        return {
            "ranges": self._ranges[: self._columns],
            "samples": self._samples[: self._columns],
            "counts": self._counts[: self._columns],
            "slots": self._slots[: self._columns],
        }

    def restore(self, arrays: Arrays, width: int) -> None:
        """Replace the scales with those of a snapshot; raise ValueError or KeyError if it is invalid."""
        columns = len(arrays["slots"])
        for name, own in self.snapshot().items():
            array = arrays[name]
            shape = (columns, *own.shape[1:])
            if array.dtype != own.dtype or array.shape != shape:
                raise ValueError(f"{name} is {array.dtype} {array.shape}, expected {own.dtype} {shape}")
            check_values(name, array)
        if columns and arrays["slots"].max() >= width:
            raise ValueError(f"a number has a slot beyond the {width} slots in use")
        for sample, count in zip(arrays["samples"], arrays["counts"], strict=True):
            numbers = sample[: min(count, SAMPLE)]
            if (numbers[1:] < numbers[:-1]).any():
                raise ValueError("a sample of numbers is not sorted")
        self._columns = columns
        self._ranges, self._samples = arrays["ranges"].copy(), arrays["samples"].copy()
        self._counts, self._slots = arrays["counts"].copy(), arrays["slots"].copy()


def _double(array: np.ndarray) -> np.ndarray:
    """Return `array` with twice the capacity, so that adding rows one by one is cheap."""
    return np.concatenate([array, np.zeros((max(4, len(array)), *array.shape[1:]), array.dtype)])


@kernel
def _rank(sample: Float64, size: int, number: float, or_equal: bool) -> int:
    """Return how many of the first `size` numbers are less than `number`, or less than or equal to it."""
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
    outliers: Int64,
) -> int:
    """Write the scaled numbers to their slots; list the columns out of range and return their number."""
    out_of_range = 0
    for column in range(numbers.size):
        number = numbers[column]
        if number != number:
            continue
        low = ranges[column, 0]
        high = ranges[column, 1]
        if low < high:
            x[slots[column]] = (min(max(number, low), high) - low) / (high - low)
            is_outlier = number < low or number > high
        else:
            size = min(counts[column], samples.shape[1])
            sample = samples[column]
            # The middle rank among equals, counting the number itself, so that a first number is not extreme.
            below = _rank(sample, size, number, False)
            up_to = below
            if below < size and sample[below] == number:
                up_to = _rank(sample, size, number, True)
            x[slots[column]] = (below + up_to + 1) / (2 * (size + 1))
            is_outlier = False
            if size >= MIN_SAMPLE:
                span = sample[size - 1] - sample[0]
                is_outlier = number < sample[0] - span or number > sample[size - 1] + span
        if is_outlier:
            outliers[out_of_range] = column
            out_of_range += 1
    return out_of_range


@kernel
def _observe(numbers: Float64, ranges: Float64, samples: Float64, counts: Int64) -> None:
    """Add the numbers to the samples."""
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
            hole = _hash(count, column) % (count + 1)
            if hole >= most:
                continue
        # Shift the sorted sample until the hole is at the position of the number.
        while hole > 0 and sample[hole - 1] > number:
            sample[hole] = sample[hole - 1]
            hole -= 1
        end = min(count, most - 1)
        while hole < end and sample[hole + 1] < number:
            sample[hole] = sample[hole + 1]
            hole += 1
        sample[hole] = number


@kernel
def _hash(count: int, column: int) -> int:
    """Return a pseudorandom number that depends on the arguments only (SplitMix64, Steele et al. 2014)."""
    z = np.uint64(count) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(column) * np.uint64(0xD1B54A32D192ED03)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return int((z ^ (z >> np.uint64(31))) >> np.uint64(1))
