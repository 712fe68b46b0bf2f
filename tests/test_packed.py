"""Arrays passed to kernels by address."""

import gc
import weakref
from typing import NamedTuple

import numpy as np
import pytest
from numba import boolean, float32, float64, int64, uint32
from numba.core.errors import TypingError

from glcb._arrays import Float32, Float64, Int64, UInt32
from glcb._numba.compile import kernel
from glcb._numba.packed import PackedArguments, View, named_tuple_type, unpack


class Inner(NamedTuple):
    table: UInt32
    factor: float
    doubled: bool


class Outer(NamedTuple):
    first: Inner
    cube: Float32
    second: Inner
    steps: Int64


INNER = named_tuple_type(Inner, uint32[:, ::1], float64, boolean)
OUTER = named_tuple_type(Outer, INNER, float32[:, :, ::1], INNER, int64[::1])


def outer(rng: np.random.Generator) -> Outer:
    inners = [
        Inner(rng.integers(0, 2**32, (3, n), np.uint32), float(rng.normal()), bool(n % 2)) for n in (4, 5)
    ]
    return Outer(inners[0], rng.random((2, 3, 5), np.float32), inners[1], np.arange(7))


@kernel
def use(addresses: Int64, results: Float64) -> None:
    arrays = unpack(addresses, OUTER)
    results[0] = arrays.first.table[2, 3]
    results[1] = arrays.first.factor
    results[2] = arrays.second.table[2, 4]
    results[3] = arrays.second.factor
    results[4] = 1.0 if arrays.second.doubled else 0.0
    results[5] = 1.0 if arrays.first.doubled else 0.0
    results[6] = arrays.cube[1, 2, 4]
    results[7] = arrays.cube.size + arrays.steps.size
    arrays.steps[6] = 70


def test_a_kernel_reads_and_changes_packed_arrays() -> None:
    arrays = outer(np.random.default_rng(0))
    packed, results = PackedArguments(arrays, OUTER), np.zeros(8)
    use(packed.addresses, results)
    assert results.tolist() == [
        arrays.first.table[2, 3],
        arrays.first.factor,
        arrays.second.table[2, 4],
        arrays.second.factor,
        1.0,
        0.0,
        arrays.cube[1, 2, 4],
        30 + 7,
    ]
    assert arrays.steps[6] == 70


@kernel
def scaled(inner: Inner) -> float:
    return inner.factor * float(inner.table[0, 0])


@kernel
def pass_on(addresses: Int64) -> float:
    result: float = scaled(unpack(addresses, OUTER).second)
    return result


def test_a_part_can_be_passed_to_another_kernel_which_also_accepts_the_named_tuple() -> None:
    arrays = outer(np.random.default_rng(0))
    packed = PackedArguments(arrays, OUTER)
    expected = arrays.second.factor * float(arrays.second.table[0, 0])
    assert pass_on(packed.addresses) == scaled(arrays.second) == expected


@kernel
def misspelled(addresses: Int64) -> float:
    return float(unpack(addresses, OUTER).third)


def test_an_unknown_field_is_an_error() -> None:
    with pytest.raises(TypingError, match="third"):
        misspelled(np.zeros(20, np.int64))


def test_views_of_tuples_with_other_field_names_differ() -> None:
    class Swapped(NamedTuple):
        doubled: bool
        factor: float

    class Original(NamedTuple):
        factor: float
        doubled: bool

    kinds = [View(named_tuple_type(cls, float64, float64)) for cls in (Swapped, Original, Original)]
    assert kinds[0] != kinds[1] == kinds[2]


def test_packed_arguments_keep_their_arrays_alive() -> None:
    arrays = outer(np.random.default_rng(0))
    cube = weakref.ref(arrays.cube)
    packed = PackedArguments(arrays, OUTER)
    del arrays
    gc.collect()
    assert cube() is not None
    use(packed.addresses, np.zeros(8))
    del packed
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
def test_arrays_of_another_type_are_refused(wrong: dict[str, object]) -> None:
    arrays = outer(np.random.default_rng(0))._replace(**wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="expected Outer"):
        PackedArguments(arrays, OUTER)
