"""Arrays that are handed to kernels by their places."""

import gc
import weakref
from typing import NamedTuple

import numpy as np
import pytest
from numba import boolean, float32, float64, int64, uint32

from glcb._numba.compile import kernel
from glcb._numba.packed import Packed, named_tuple, unpack
from glcb._types import Float32, Float64, Int64, UInt32


class Inner(NamedTuple):
    table: UInt32
    factor: float
    doubled: bool


class Outer(NamedTuple):
    first: Inner
    cube: Float32
    second: Inner
    steps: Int64


INNER = named_tuple((uint32[:, ::1], float64, boolean), Inner)
OUTER = named_tuple((INNER, float32[:, :, ::1], INNER, int64[::1]), Outer)


def outer(rng: np.random.Generator) -> Outer:
    inners = [
        Inner(rng.integers(0, 2**32, (3, n), np.uint32), float(rng.normal()), bool(n % 2)) for n in (4, 5)
    ]
    return Outer(inners[0], rng.random((2, 3, 5), np.float32), inners[1], np.arange(7))


@kernel
def use(places: Int64, numbers: Float64) -> None:
    parts = unpack(places, OUTER)
    numbers[0] = parts.first.table[2, 3]
    numbers[1] = parts.first.factor
    numbers[2] = parts.second.table[2, 4]
    numbers[3] = parts.second.factor
    numbers[4] = 1.0 if parts.second.doubled else 0.0
    numbers[5] = 1.0 if parts.first.doubled else 0.0
    numbers[6] = parts.cube[1, 2, 4]
    numbers[7] = parts.cube.size + parts.steps.size
    parts.steps[6] = 70


def test_a_kernel_reads_and_changes_what_is_pinned() -> None:
    parts = outer(np.random.default_rng(0))
    pinned, numbers = Packed(parts, OUTER), np.zeros(8)
    use(pinned.places, numbers)
    assert numbers.tolist() == [
        parts.first.table[2, 3],
        parts.first.factor,
        parts.second.table[2, 4],
        parts.second.factor,
        1.0,
        0.0,
        parts.cube[1, 2, 4],
        30 + 7,
    ]
    assert parts.steps[6] == 70


def test_what_is_pinned_stays_as_long_as_the_pin() -> None:
    parts = outer(np.random.default_rng(0))
    cube = weakref.ref(parts.cube)
    pinned = Packed(parts, OUTER)
    del parts
    gc.collect()
    assert cube() is not None
    use(pinned.places, np.zeros(8))
    del pinned
    assert cube() is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"cube": np.zeros((2, 3, 5))},
        {"cube": np.zeros((2, 3), np.float32)},
        {"cube": np.zeros((2, 3, 5), np.float32)[:, :, ::2]},
        {"steps": 3},
        {"steps": np.frombuffer(bytes(16), np.int64)},
    ],
)
def test_what_kernels_would_misread_is_refused(wrong: dict[str, object]) -> None:
    parts = outer(np.random.default_rng(0))._replace(**wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected Outer"):
        Packed(parts, OUTER)
