"""Halving of second moments, and the argument ``half_life``."""

import numpy as np
import pytest

from glcb import InvalidSettings
from glcb._forgetting import check_half_life, halve_moment


@pytest.mark.parametrize("size", [1, 3, 40])
@pytest.mark.parametrize("ridge", [0.01, 10.0])
def test_the_moment_is_halved_and_the_ridge_is_not(size: int, ridge: float) -> None:
    inputs = np.random.default_rng(size).normal(size=(500, size))
    moment = inputs.T @ inputs
    inverse = np.linalg.inv(ridge * np.eye(size) + moment)
    inverse = (inverse + inverse.T) / 2
    halve_moment(inverse, ridge)
    np.testing.assert_allclose(
        inverse, np.linalg.inv(ridge * np.eye(size) + moment / 2), rtol=1e-9, atol=1e-14
    )
    np.testing.assert_array_equal(inverse, inverse.T)


def test_a_direction_that_never_occurs_keeps_its_ridge() -> None:
    inverse = np.diag([1 / (2.0 + 1e6), 1 / 2.0])
    for _ in range(5000):
        halve_moment(inverse, 2.0)
    np.testing.assert_allclose(inverse, np.eye(2) / 2, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("half_life", [0, 1, -5, 2.5, True, "long", float("inf")])
def test_half_life_must_be_an_integer_of_at_least_two(half_life: object) -> None:
    with pytest.raises(InvalidSettings, match="half_life must be an integer from 2"):
        check_half_life(half_life)
    assert check_half_life(None) is None
    assert check_half_life(np.int64(7)) == 7
