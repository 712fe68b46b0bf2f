"""Tasks whose arms have features."""

import numpy as np
import pytest

from glcb import DataError, InvalidSettings, tasks
from glcb.bench.plan import tasks_without_data
from glcb.tasks.arm_features import ArmCatalog, ArmNewcomer, ModelRouting
from glcb.tasks.base import Stream


def test_the_catalog_has_arms_that_come_and_go() -> None:
    stream = ArmCatalog().stream(seed=0, steps=400)
    assert stream.available is not None
    assert stream.arm_features is not None
    assert (stream.contexts.shape, stream.arm_features.shape) == ((400, 9), (1000, 12))
    assert 20 < stream.available.sum(axis=1).mean() < 120
    assert stream.available.any(axis=1).all()
    came = ~stream.available[0] & stream.available[200]
    gone = stream.available[0] & ~stream.available[200]
    assert came.any()
    assert gone.any()
    uniform = (stream.rewards * stream.available).sum(axis=1) / stream.available.sum(axis=1)
    assert uniform.sum() < 0.6 * stream.optimum


def test_streams_depend_on_the_seed_alone() -> None:
    one, same, other = (ArmCatalog().stream(seed, 50) for seed in (3, 3, 4))
    assert (one.rewards == same.rewards).all()
    assert (one.contexts == same.contexts).all()
    assert (one.contexts != other.contexts).any()


def test_the_newcomer_is_like_a_known_arm_and_the_best_in_some_contexts() -> None:
    task = ArmNewcomer()
    stream = task.stream(seed=0, steps=600)
    assert stream.available is not None
    assert stream.arm_features is not None
    assert stream.available[:, :-1].all()
    assert stream.available[:, task.newcomer].tolist() == [False] * 300 + [True] * 300
    known, new = stream.arm_features[:-1], stream.arm_features[-1]
    assert np.abs(known - new).max(axis=1).min() <= 0.1 + 1e-6
    expected = task.expected(seed=0, steps=600)
    assert 0.1 < (expected.argmax(axis=1) == task.newcomer).mean() < 0.4
    assert abs(stream.rewards.mean() - expected.mean()) < 0.05


def test_features_of_arms_must_have_a_row_per_arm() -> None:
    contexts, rewards = np.zeros((2, 3), np.float32), np.zeros((2, 4))
    with pytest.raises(InvalidSettings, match=r"arm_features must be an array of float32 .* \(4, 5\)"):
        Stream(contexts, rewards, arm_features=np.zeros((3, 5), np.float32))


def test_routing_has_prompts_and_models() -> None:
    task = ModelRouting()
    if not task.has_data():
        pytest.skip("the routing data is missing")
    stream = task.stream(seed=0, steps=300)
    assert stream.contexts.shape == (300, task.features)
    assert stream.arm_features is not None
    assert stream.arm_features.shape == (len(task.arms), 8 + 2)
    for array in (stream.contexts, stream.arm_features, stream.rewards):
        assert np.isfinite(array).all()
        assert 0 <= array.min() <= array.max() <= 1
    assert len(np.unique(stream.arm_features, axis=0)) == 9
    assert task.stream(seed=0, steps=10_000).steps == task.rows


def test_missing_routing_data_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("GLCB_DATA_DIR", str(tmp_path))
    task = tasks.get("model-routing")
    assert (task.features, len(task.arms)) == (32, 9), "known without the data"
    assert tasks_without_data(["arm-catalog", "model-routing"]) == ["model-routing"]
    with pytest.raises(DataError, match=r"needs the file llmrouter\.json"):
        task.stream(0, 10)
