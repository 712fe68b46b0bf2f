"""Tasks whose arms have features."""

import numpy as np
import pytest

from glcb import DataError
from glcb.tasks.arm_features import ArmCatalog, ModelRouting


def test_the_catalog_has_arms_that_come_and_go() -> None:
    stream = ArmCatalog().stream(seed=0, steps=400)
    assert (stream.contexts.shape, stream.arms.shape) == ((400, 9), (1000, 12))
    assert 20 < stream.available.sum(axis=1).mean() < 120
    assert stream.available.any(axis=1).all()
    came = ~stream.available[0] & stream.available[200]
    gone = stream.available[0] & ~stream.available[200]
    assert came.any()
    assert gone.any()
    assert stream.uniform < 0.6 * stream.optimum


def test_streams_depend_on_the_seed_alone() -> None:
    one, same, other = (ArmCatalog().stream(seed, 50) for seed in (3, 3, 4))
    assert (one.rewards == same.rewards).all()
    assert (one.contexts == same.contexts).all()
    assert (one.contexts != other.contexts).any()


def test_routing_has_prompts_and_models() -> None:
    try:
        task = ModelRouting()
    except DataError:
        pytest.skip("the routing data is missing")
    stream = task.stream(seed=0, steps=300)
    assert stream.contexts.shape == (300, 7 + 25)
    assert stream.arms.shape == (9, 8 + 2)
    for array in (stream.contexts, stream.arms, stream.rewards):
        assert np.isfinite(array).all()
        assert 0 <= array.min() <= array.max() <= 1
    assert len(np.unique(stream.arms, axis=0)) == 9


def test_missing_routing_data_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("GLCB_DATA_DIR", str(tmp_path))
    with pytest.raises(DataError, match=r"llmrouter\.json"):
        ModelRouting()
