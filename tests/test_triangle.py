"""Symmetric matrices of which only the lower triangle is stored."""

import numpy as np
import pytest

from glcb._arrays import Float64
from glcb._numba.triangle import check_positive_definite, pack, unpack


def moment(size: int, rows: int) -> Float64:
    """Return the second moment of random rows."""
    sample = np.random.default_rng(size).normal(size=(rows, size))
    found: Float64 = sample.T @ sample
    return found


@pytest.mark.parametrize("size", [1, 2, 7, 60])
def test_a_packed_matrix_is_unpacked_unchanged(size: int) -> None:
    matrix = moment(size, size)
    assert (unpack(pack(matrix)) == matrix).all()


@pytest.mark.parametrize("size", [1, 2, 7, 60])
def test_a_matrix_is_accepted_only_if_it_is_positive_definite(size: int) -> None:
    good = pack(moment(size, 3 * size))
    check_positive_definite([good, good])
    indefinite, negative, unknown = (unpack(good) for _ in range(3))
    indefinite -= 1.01 * np.linalg.eigvalsh(indefinite)[0] * np.eye(size)
    negative[-1, -1] = -1e-9
    unknown[0, 0] = np.nan
    for bad in (indefinite, negative, unknown, np.zeros((size, size))):
        with pytest.raises(ValueError, match="not positive definite"):
            check_positive_definite([good, pack(bad)])
