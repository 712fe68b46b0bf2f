"""TreeTS: the schedule of its fits, the statistics of its leaves, and what it learns."""

import math
from typing import Any

import numpy as np
import pytest

from glcb._arrays import Float32, Float64
from glcb.policies.buffer import Batch
from glcb.policies.trees.ensemble import Ensemble, EnsembleArrays
from glcb.policies.trees.tree_ts import PRIOR, TreeTS

pytestmark = pytest.mark.trees

FEATURES, ARMS, RATE = 4, 3, 0.1


def data(rows: int, seed: int = 0) -> Batch:
    """Return contexts, arms and noisy targets that depend on both."""
    rng = np.random.default_rng(seed)
    contexts = rng.random((rows, FEATURES), np.float32)
    arms = rng.integers(ARMS, size=rows)
    targets = np.where(contexts[:, 0] > 0.5, arms == 0, arms == 1) + rng.normal(0, 0.1, rows)
    return Batch(contexts, arms, targets)


def fitted(rows: int = 300) -> Ensemble:
    ensemble = Ensemble(FEATURES, ARMS, trees=20, depth=4, learning_rate=RATE, prior=PRIOR)
    ensemble.fit(*data(rows))
    return ensemble


def leaves_of(trees: EnsembleArrays, x: Float32, arm: int) -> list[int]:
    """Walk all trees step by step."""
    inputs, leaves = [*x, *(np.arange(ARMS) == arm)], []
    for root in trees.roots:
        node = root
        while trees.left[node] != 0:
            is_below = inputs[trees.features[node]] < trees.thresholds[node]
            node = (trees.left if is_below else trees.right)[node]
        leaves.append(int(node))
    return leaves


def test_the_flat_trees_predict_what_xgboost_predicts(monkeypatch: pytest.MonkeyPatch) -> None:
    import xgboost

    boosters, train = [], xgboost.train

    def recorded(*arguments: Any, **settings: Any) -> Any:
        boosters.append(train(*arguments, **settings))
        return boosters[-1]

    monkeypatch.setattr(xgboost, "train", recorded)
    trees = fitted().arrays
    contexts, arms, _ = data(200, seed=1)
    expected = boosters[0].predict(xgboost.DMatrix(np.column_stack([contexts, np.eye(ARMS)[arms]])))
    predicted = [
        trees.thresholds[leaves_of(trees, x, arm)].sum() for x, arm in zip(contexts, arms, strict=True)
    ]
    np.testing.assert_allclose(predicted, expected, atol=1e-5)


def test_the_statistics_of_a_leaf_are_those_of_the_residuals_in_it() -> None:
    ensemble, (contexts, arms, residuals) = fitted(), data(300)
    trees = ensemble.arrays
    walks = np.array([leaves_of(trees, x, arm) for x, arm in zip(contexts, arms, strict=True)])
    for leaves in walks.T:
        for leaf in np.unique(leaves):
            inside = residuals[leaves == leaf]
            assert trees.counts[leaf] == inside.size >= 2
            assert trees.means[leaf] == pytest.approx(inside.mean(), abs=1e-9)
            assert trees.squares[leaf] == pytest.approx(inside.var() * inside.size, abs=1e-9)
        residuals = residuals - trees.thresholds[leaves]


def test_mean_and_variance_are_sums_over_the_leaves_of_a_context() -> None:
    ensemble = fitted()
    trees, x = ensemble.arrays, data(1, seed=2)[0][0]
    means, variances = ensemble.moments(x)
    for arm in range(ARMS):
        leaves = leaves_of(trees, x, arm)
        counts = trees.counts[leaves]
        sample_variances = (trees.squares[leaves] + PRIOR) / (counts - 1)
        assert means[arm] == pytest.approx(RATE * trees.means[leaves].sum())
        assert variances[arm] == pytest.approx(RATE**2 * (sample_variances / counts).sum())


def test_data_added_between_fits_count_as_if_they_had_been_there_at_the_fit() -> None:
    ensemble, more = fitted(), data(50, seed=3)
    for row in range(50):
        ensemble.add(*Batch(*(part[row : row + 1] for part in more)))
    everything = Batch(*(np.concatenate(parts) for parts in zip(data(300), more, strict=True)))
    again = fitted()
    again.restore(ensemble.snapshot(), *everything)
    for own, other in zip(ensemble.arrays, again.arrays, strict=True):
        np.testing.assert_array_equal(own, other)


def test_the_ensemble_is_fitted_when_the_logarithm_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(Ensemble, "fit", lambda self, contexts, arms, targets: sizes.append(len(arms)))
    policy, rng = TreeTS(2, 3), np.random.default_rng(0)
    for _ in range(500):
        policy.learn(rng.random(3), int(rng.integers(2)), float(rng.integers(2)))
    expected = [t for t in range(2, 501) if math.ceil(8 * math.log(t)) > math.ceil(8 * math.log(t - 1))]
    assert sizes == expected
    assert sizes[:8] == [2, 3, 4, 5, 6, 7, 8, 9]
    assert len(sizes) < 50


def test_values_are_on_the_scale_of_the_rewards() -> None:
    policy, rng = TreeTS(["low", "high"], 2, rewards=(100.0, 200.0)), np.random.default_rng(0)
    for _ in range(200):
        policy.learn(rng.random(2), "low", 120 + rng.normal())
        policy.learn(rng.random(2), "high", 180 + rng.normal())
    np.testing.assert_allclose(policy.estimate([0.5, 0.5]).values, [120, 180], atol=1)


def test_the_posterior_scale_scales_the_bonuses() -> None:
    def bonuses(scale: float) -> Float64:
        policy, rng = TreeTS(3, 2, posterior_scale=scale), np.random.default_rng(0)
        for _ in range(60):
            policy.learn(rng.random(2), int(rng.integers(3)), float(rng.integers(2)))
        return policy.estimate([0.3, 0.6]).bonuses

    assert (bonuses(0.5) != 0).all()
    np.testing.assert_allclose(bonuses(2.0), 4 * bonuses(0.5))
    assert not bonuses(0).any()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("left", lambda left: np.where(left > 0, 1, 0), "after its parent"),
        ("right", lambda right: right + right.size, "after its parent"),
        ("features", lambda features: features + 100, "does not exist"),
        ("roots", lambda roots: roots + 10**6, "does not exist"),
        ("thresholds", lambda thresholds: thresholds[1:], "one entry per node"),
        ("thresholds", lambda thresholds: np.full_like(thresholds, 5), "fewer than 2 rewards"),
        ("thresholds", lambda thresholds: thresholds.astype(np.float64), "float32"),
    ],
)
def test_damaged_trees_are_refused(name: str, change: Any, message: str) -> None:
    ensemble = fitted()
    before = ensemble.arrays
    arrays = ensemble.snapshot()
    with pytest.raises(ValueError, match=message):
        ensemble.restore({**arrays, name: change(arrays[name])}, *data(300))
    assert ensemble.arrays is before
