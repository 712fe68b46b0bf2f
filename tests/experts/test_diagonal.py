"""Regressions for wide contexts."""

import numpy as np
import pytest

from glcb import GLCB
from glcb.experts.diagonal import DiagonalRegression, diagonal_square, learn_diagonal, predict_diagonal


def test_one_feature_at_a_time_is_ridge_regression() -> None:
    rng = np.random.default_rng(0)
    regression = DiagonalRegression(1, 4, ridge=2.0, logistic=False)
    regression.arrays.evidence[:, -1] = 1e12  # no constant, so that the features are independent
    columns, targets = rng.integers(3, size=200), rng.normal(size=200)
    contexts = np.eye(3, dtype=np.float32)[columns]
    for x, target in zip(contexts, targets, strict=True):
        learn_diagonal(x, 0, target, regression.arrays)
    expected = [targets[columns == i].sum() / (2 + (columns == i).sum()) for i in range(3)]
    np.testing.assert_allclose(regression.arrays.weights[0, :3], expected, atol=0.01)
    np.testing.assert_allclose(
        regression.arrays.evidence[0, :3], 2 + np.bincount(columns, minlength=3), rtol=1e-6
    )
    assert predict_diagonal(contexts[0], 0, regression.arrays) == pytest.approx(
        regression.arrays.weights[0, columns[0]], abs=1e-6
    )


def test_a_frequent_feature_is_more_certain_than_a_rare_one() -> None:
    regression = DiagonalRegression(2, 3, ridge=10.0, logistic=True)
    frequent, rare = np.eye(2, dtype=np.float32)
    for step in range(500):
        learn_diagonal(rare if step % 50 == 0 else frequent, 1, float(step % 2), regression.arrays)
    squares = [diagonal_square(x, 1, regression.arrays) for x in (frequent, rare)]
    assert squares[0] < squares[1] < diagonal_square(rare, 0, regression.arrays)


def test_forgetting_halves_the_evidence_but_not_the_prior() -> None:
    regression = DiagonalRegression(2, 3, ridge=10.0, logistic=False)
    for _ in range(30):
        for arm in range(2):
            learn_diagonal(np.ones(2, np.float32), arm, 1.0, regression.arrays)
    regression.forget(slice(1, 2))
    np.testing.assert_allclose(regression.arrays.evidence, [[40.0] * 3, [25.0] * 3])
    regression.reorder(np.array([1, -1]))
    np.testing.assert_allclose(regression.arrays.evidence, [[25.0] * 3, [10.0] * 3])
    assert not regression.arrays.weights[1].any()


def test_an_invalid_snapshot_is_rejected() -> None:
    regression = DiagonalRegression(1, 3, ridge=10.0, logistic=True)
    with pytest.raises(ValueError, match="must be at least 10"):
        regression.restore({**regression.snapshot(), "diagonal_evidence": np.full((1, 3), 9.0)})


def test_words_are_learned_faster_than_by_networks_alone() -> None:
    def reward_of(kinds: tuple[str, ...]) -> float:
        rng, total = np.random.default_rng(10_000), 0.0
        policy = GLCB(3, 600, seed=0, experts=kinds, layers=(10, 1))  # type: ignore[arg-type]
        for _ in range(500):
            x = np.zeros(600)
            best = rng.integers(3)
            x[rng.choice(np.arange(best, 600, 3), 8)] = 1
            arm = policy.decide(x).arm
            total += arm == best
            policy.learn(x, arm, float(arm == best))
        return total

    assert reward_of(("linear",)) > reward_of(()) + 20
