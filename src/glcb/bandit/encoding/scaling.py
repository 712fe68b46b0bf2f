"""Scaling of numbers to [0, 1] by rank.

A number is scaled to its rank among the numbers observed so far. Ranks are robust: an outlier counts as one
number among many, and the result is uniform regardless of the unit. Each column keeps a sample: all numbers
at first, then a uniform sample of all numbers (Vitter's algorithm R), which changes less and less often.
After `WINDOW` numbers the rate of change stays the same, so that older numbers fade: a scale forgets any
number of wrong ones, and follows a change of the unit. Memory is bounded.
"""

from bisect import insort
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numba import float64, int64

from glcb._arrays import Arrays, Float32, Float64, Int64, check_values
from glcb._numba.compile import strict_kernel
from glcb._numba.packed import PackedArguments, named_tuple_type, unpack
from glcb.bandit.encoding.values import MAX_NUMBER

SAMPLE = 256
"""Size of the sample of a column. The error of a rank is about one over the square root of this."""
WINDOW = 4_000
"""The sample represents about this many of the latest numbers."""
MIN_SAMPLE = 30
"""A column needs this many numbers before it can report a number as out of range."""


class ScaleArrays(NamedTuple):
    """The kernels' view of the scales."""

    ranges: Float64
    samples: Float64
    """Sorted numbers, one row per column."""
    counts: Int64
    slots: Int64
    outliers: Int64
    """The columns with a number out of range, as `place` lists them."""


SCALE_ARRAYS = named_tuple_type(
    ScaleArrays, float64[:, ::1], float64[:, ::1], int64[::1], int64[::1], int64[::1]
)


class Scales:
    """The scales of the numbers of a context: one column each, with a declared range or a sample."""

    def __init__(self) -> None:
        self._columns = 0
        self._free: list[int] = []
        self._bind(ScaleArrays(np.zeros((0, 2)), np.zeros((0, SAMPLE)), *np.zeros((3, 0), np.int64)))

    def _bind(self, arrays: ScaleArrays) -> None:
        """Point the kernels to these arrays."""
        self._arrays = arrays
        self._packed = PackedArguments(arrays, SCALE_ARRAYS)

    def __len__(self) -> int:
        return self._columns

    def add(self, slot: int, limits: tuple[float, float] | None) -> int:
        """Return a new column that writes to `slot`, with its range if it is declared."""
        if self._free:
            column = self._free.pop(0)
        else:
            column = self._columns
            if column == len(self._arrays.slots):
                self._bind(ScaleArrays(*map(_double, self._arrays)))
            self._columns += 1
        self._arrays.slots[column] = slot
        self.set_limits(column, limits)
        return column

    def set_limits(self, column: int, limits: tuple[float, float] | None) -> None:
        """Set or remove the range of a column."""
        self._arrays.ranges[column] = limits or (0.0, 0.0)

    def remove(self, column: int) -> None:
        """Remove a column. Its numbers are NaN from now on, until another one takes its place."""
        insort(self._free, column)
        self._arrays.counts[column] = 0

    def place(self, inputs: Float64, x: Float32) -> list[int] | None:
        """Encode numbers, and set slots to 1.

        Parameters
        ----------
        inputs
            The numbers by column, NaN for none, followed by the slots to set.
        x
            The encoded context to write to.

        Returns
        -------
        list of int or None
            The columns out of range; None if a number is infinite or too large.
        """
        count = place_numbers(inputs, self._columns, x, self._packed.addresses)
        if count == 0:
            return []
        return None if count < 0 else self._arrays.outliers[:count].tolist()

    def slots_of(self, inputs: Float64) -> list[int]:
        """Return the slots of these numbers, except NaN."""
        own: list[int] = self._arrays.slots[: self._columns][~np.isnan(inputs)].tolist()
        return own

    def observe(self, inputs: Float64, x: Float32, uses: Int64) -> None:
        """Add these numbers to the samples, except NaN, and count the slots of `x` that are not 0."""
        observe_numbers(inputs, self._columns, x, uses, self._packed.addresses)

    def limits(self, column: int) -> tuple[float, float] | None:
        """Return the declared range of a column, or the lowest and highest number in its sample, if any."""
        arrays = self._arrays
        low, high = arrays.ranges[column].tolist()
        if low < high:
            return low, high
        size = min(int(arrays.counts[column]), SAMPLE)
        return (float(arrays.samples[column, 0]), float(arrays.samples[column, size - 1])) if size else None

    def snapshot(self) -> Arrays:
        """Return the scales as arrays."""
        own = self._arrays._asdict()
        return {name: own[name][: self._columns] for name in ("ranges", "samples", "counts", "slots")}

    def restore(self, arrays: Arrays, width: int, columns: Iterable[int]) -> None:
        """Replace the scales from a snapshot, of which only these columns are in use.

        Raises
        ------
        KeyError, ValueError
            If the snapshot is invalid.
        """
        count = len(arrays["slots"])
        for name, own in self.snapshot().items():
            array = arrays[name]
            shape = (count, *own.shape[1:])
            if array.dtype != own.dtype or array.shape != shape:
                raise ValueError(f"{name} is {array.dtype} {array.shape}, expected {own.dtype} {shape}")
            check_values(name, array)
        if count and arrays["slots"].max() >= width:
            raise ValueError(f"a number has a slot beyond the {width} slots")
        for sample, size in zip(arrays["samples"], arrays["counts"], strict=True):
            numbers = sample[: min(size, SAMPLE)]
            if (numbers[1:] < numbers[:-1]).any():
                raise ValueError("a sample of numbers is not sorted")
        used = sorted(columns)
        free = sorted(set(range(count)) - set(used))
        if len(used) + len(free) != count or arrays["counts"][free].any():
            raise ValueError("the scales do not match the features")
        self._columns, self._free = count, free
        ranges, samples, counts, slots = (
            arrays[name].copy() for name in ("ranges", "samples", "counts", "slots")
        )
        self._bind(ScaleArrays(ranges, samples, counts, slots, np.zeros(count, np.int64)))


def _double(array: np.ndarray) -> np.ndarray:
    """Return `array` with twice the capacity, so that adding rows one by one is cheap."""
    return np.concatenate([array, np.zeros((max(4, len(array)), *array.shape[1:]), array.dtype)])


@strict_kernel
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


@strict_kernel
def _hash(count: int, column: int) -> int:
    """Return a pseudorandom number that depends on the arguments only (SplitMix64, Steele et al. 2014)."""
    z = np.uint64(count) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(column) * np.uint64(0xD1B54A32D192ED03)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return int((z ^ (z >> np.uint64(31))) >> np.uint64(1))


@strict_kernel
def place_numbers(inputs: Float64, columns: int, x: Float32, addresses: Int64) -> int:
    """Write the scaled numbers to their slots, and 1 to the other slots.

    Returns the number of columns out of range, which are listed, or −1 if a number is too large.
    """
    arrays = unpack(addresses, SCALE_ARRAYS)
    for i in range(columns, inputs.size):
        x[int(inputs[i])] = 1.0
    out_of_range = 0
    for column in range(columns):
        number = inputs[column]
        if number != number:
            continue
        if not -MAX_NUMBER < number < MAX_NUMBER:
            return -1
        low = arrays.ranges[column, 0]
        high = arrays.ranges[column, 1]
        if low < high:
            is_outlier = number < low or number > high
            if number <= low:
                x[arrays.slots[column]] = 0.0
            elif number >= high:
                x[arrays.slots[column]] = 1.0
            else:
                x[arrays.slots[column]] = (number - low) / (high - low)
        else:
            size = min(arrays.counts[column], arrays.samples.shape[1])
            sample = arrays.samples[column]
            # The middle rank among equals, counting the number itself, so that a first number is not extreme.
            below = _rank(sample, size, number, False)
            up_to = below
            if below < size and sample[below] == number:
                up_to = _rank(sample, size, number, True)
            x[arrays.slots[column]] = (below + up_to + 1) / (2 * (size + 1))
            is_outlier = False
            if size >= MIN_SAMPLE:
                span = sample[size - 1] - sample[0]
                is_outlier = number < sample[0] - span or number > sample[size - 1] + span
        if is_outlier:
            arrays.outliers[out_of_range] = column
            out_of_range += 1
    return out_of_range


@strict_kernel
def observe_numbers(inputs: Float64, columns: int, x: Float32, uses: Int64, addresses: Int64) -> None:
    """Add the numbers to the samples, and count the slots that are not 0."""
    for slot in range(x.size):
        if x[slot] > 0:
            uses[slot] += 1
    arrays = unpack(addresses, SCALE_ARRAYS)
    most = arrays.samples.shape[1]
    for column in range(columns):
        number = inputs[column]
        if number != number or arrays.ranges[column, 0] < arrays.ranges[column, 1]:
            continue
        sample = arrays.samples[column]
        count = arrays.counts[column]
        arrays.counts[column] += 1
        hole = count
        if count >= most:
            hole = _hash(count, column) % (min(count, WINDOW) + 1)
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
