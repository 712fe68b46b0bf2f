"""Recursive regressions agree with direct solutions and stay accurate."""

from collections.abc import Callable

import numpy as np
import pytest

from glcb._arrays import Float64
from glcb.experts.regression import Regression, learn_target, predict_target, square, uncertainty


def inputs(rng: np.random.Generator, rows: int, size: int) -> Float64:
    return np.column_stack([rng.random((rows, size - 1)) - 0.5, np.ones(rows)])


def one_hot(rows: int) -> Float64:
    z = np.full((rows, 30), -0.5)
    z[np.arange(rows), np.arange(rows) % 29] = 0.5
    z[:, -1] = 1
    return z


def test_a_linear_regression_is_ridge_regression() -> None:
    rng = np.random.default_rng(0)
    regression = Regression(2, 6, ridge=0.3, logistic=False, has_uncertainty=True)
    z, targets, arms = inputs(rng, 200, 6), rng.random(200), rng.integers(2, size=200)
    for row, target, arm in zip(z, targets, arms, strict=True):
        learn_target(row, arm, target, regression.arrays)
    for arm in range(2):
        own = z[arms == arm]
        moment = 0.3 * np.eye(6) + own.T @ own
        np.testing.assert_allclose(regression.inverse(arm), np.linalg.inv(moment), rtol=1e-9, atol=1e-12)
        weights = np.linalg.solve(moment, own.T @ targets[arms == arm])
        np.testing.assert_allclose(regression.arrays.weights[arm], weights, rtol=1e-9)
        assert predict_target(z[0], arm, regression.arrays) == pytest.approx(z[0] @ weights)
        width = np.sqrt(z[0] @ np.linalg.solve(moment, z[0]))
        assert uncertainty(square(z[0]), arm, regression.arrays) == pytest.approx(width)


def test_a_logistic_regression_takes_one_newton_step_per_target() -> None:
    rng = np.random.default_rng(1)
    regression = Regression(1, 4, ridge=10.0, logistic=True)
    weights, precision = np.zeros(4), 10 * np.eye(4)
    for row in inputs(rng, 300, 4):
        target = float(rng.random() < 1 / (1 + np.exp(-4 * row[0])))
        learn_target(row, 0, target, regression.arrays)
        p = 1 / (1 + np.exp(-row @ weights))
        precision += p * (1 - p) * np.outer(row, row)
        weights += np.linalg.solve(precision, row) * (target - p)
    np.testing.assert_allclose(regression.arrays.weights[0], weights, rtol=1e-8)
    np.testing.assert_allclose(regression.inverse(0), np.linalg.inv(precision), rtol=1e-8, atol=1e-12)
    assert weights[0] > 1


def constant(rows: int) -> Float64:
    return np.tile([0.5, -0.5, 0.25, 1.0], (rows, 1))


def collinear(rows: int) -> Float64:
    return np.repeat(inputs(np.random.default_rng(2), rows, 3), [1, 2, 1], axis=1)


@pytest.mark.parametrize("steps", [20_000, pytest.param(200_000, marks=pytest.mark.live)])
@pytest.mark.parametrize("contexts", [constant, collinear, one_hot])
@pytest.mark.parametrize("logistic", [False, True])
def test_an_inverse_stays_accurate_and_positive(
    contexts: Callable[[int], Float64], logistic: bool, steps: int
) -> None:
    rng = np.random.default_rng(3)
    z = contexts(steps)
    ridge = 10.0 if logistic else 0.1
    regression = Regression(1, z.shape[1], ridge, logistic)
    curvatures = np.ones(steps)
    for step, target in enumerate((rng.random(steps) < 0.2).tolist()):
        if logistic:
            p = predict_target(z[step], 0, regression.arrays)
            curvatures[step] = max(p * (1 - p), 1e-4)
        learn_target(z[step], 0, float(target), regression.arrays)
    inverse, exact = regression.inverse(0), np.linalg.inv(ridge * np.eye(z.shape[1]) + (z.T * curvatures) @ z)
    assert np.abs(inverse - exact).max() < 1e-8 * np.abs(exact).max()
    assert np.linalg.eigvalsh(inverse).min() > 0
    assert predict_target(z[-1], 0, regression.arrays) == pytest.approx(0.2, abs=0.08)


def test_forgetting_halves_the_moment_and_keeps_the_ridge() -> None:
    regression = Regression(2, 3, ridge=2.0, logistic=False)
    z = inputs(np.random.default_rng(4), 50, 3)
    for row in z:
        learn_target(row, 1, 1.0, regression.arrays)
    weights = regression.arrays.weights.copy()
    regression.forget()
    np.testing.assert_allclose(regression.inverse(1), np.linalg.inv(2 * np.eye(3) + z.T @ z / 2))
    np.testing.assert_allclose(regression.inverse(0), np.eye(3) / 2)
    np.testing.assert_array_equal(regression.arrays.weights, weights)


def test_arms_are_copied_and_new_arms_know_nothing() -> None:
    regression = Regression(2, 3, ridge=2.0, logistic=True)
    learn_target(np.ones(3), 1, 1.0, regression.arrays)
    before = regression.arrays
    regression.reorder(np.array([1, -1, 1]))
    np.testing.assert_array_equal(regression.arrays.weights[0], before.weights[1])
    np.testing.assert_array_equal(regression.inverse(2), regression.inverse(0))
    np.testing.assert_array_equal(regression.inverse(1), np.eye(3) / 2)
    assert not regression.arrays.weights[1].any()
    assert len(before.weights) == 2


def test_an_inverse_that_is_not_positive_definite_is_refused() -> None:
    regression = Regression(1, 2, ridge=1.0, logistic=False)
    arrays = regression.snapshot("linear")
    broken = {**arrays, "linear_inverses": np.array([[1.0, 3.0, 1.0]])}
    with pytest.raises(ValueError, match="positive definite"):
        regression.restore("linear", broken)
