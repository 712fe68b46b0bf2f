"""New arrays and parts of arrays in kernels."""

import gc

import numpy as np
import pytest
from numba.core.errors import TypingError

from glcb._arrays import Float32, Float64, Int64
from glcb._numba.arrays import as_matrix, as_vector, new_matrix, new_vector
from glcb._numba.compile import kernel


@kernel
def _part(numbers: Float32, start: int, rows: int, columns: int) -> Float32:
    return as_matrix(numbers, start, rows, columns)


@kernel
def _flat(matrix: Int64) -> Int64:
    return as_vector(matrix)


@kernel
def _vector(size: int) -> Float64:
    result: Float64 = new_vector(np.float64, size)
    for i in range(size):
        result[i] = i
    return result


@kernel
def _view_of_new_matrix(rows: int, columns: int) -> Float32:
    matrix: Float32 = new_matrix(np.float32, rows, columns)
    for i in range(rows):
        for j in range(columns):
            matrix[i, j] = 10 * i + j
    return as_vector(matrix)


def test_a_part_of_a_vector_is_a_matrix_on_the_same_memory() -> None:
    numbers = np.arange(20, dtype=np.float32)
    part = _part(numbers, 3, 4, 2)
    np.testing.assert_array_equal(part, numbers[3:11].reshape(4, 2))
    part[1, 1] = -1
    assert numbers[6] == -1


def test_a_matrix_is_a_vector_on_the_same_memory() -> None:
    matrix = np.arange(6).reshape(2, 3)
    flat = _flat(matrix)
    np.testing.assert_array_equal(flat, matrix.ravel())
    flat[4] = -1
    assert matrix[1, 1] == -1


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_a_new_vector_is_contiguous_and_writable(size: int) -> None:
    vector = _vector(size)
    np.testing.assert_array_equal(vector, np.arange(size, dtype=np.float64))
    assert vector.flags.c_contiguous
    assert vector.flags.writeable


def test_a_view_keeps_a_new_matrix_alive() -> None:
    views = [_view_of_new_matrix(30, 7) for _ in range(100)]
    gc.collect()
    expected = (10 * np.arange(30)[:, None] + np.arange(7)).ravel()
    for view in views:
        np.testing.assert_array_equal(view, expected)


def test_an_array_that_is_not_contiguous_is_refused() -> None:
    with pytest.raises(TypingError, match="expected an array with 2 dimensions in C order"):
        _flat(np.arange(6).reshape(2, 3)[:, :2])


def test_too_large_an_array_is_a_memory_error() -> None:
    with pytest.raises(MemoryError):
        _vector(2**58)
