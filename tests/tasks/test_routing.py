"""Tasks of routing between language models."""

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glcb import DataError, InvalidSettings, tasks
from glcb.tasks.prompts import WordComponents
from glcb.tasks.routing import Routing4, Routing9, RoutingTask

SHAPES: list[tuple[type[RoutingTask], int, int]] = [(Routing9, 4600, 9), (Routing4, 1500, 4)]


@pytest.mark.data
@pytest.mark.parametrize(("kind", "steps", "arms"), SHAPES)
def test_a_stream_has_contexts_rewards_and_costs(kind: type[RoutingTask], steps: int, arms: int) -> None:
    task = tasks.get(kind.name)
    assert isinstance(task, kind)
    stream = task.stream(seed=0)
    assert (stream.steps, task.steps, len(task.arms)) == (steps, steps, arms)
    assert stream.contexts.shape == (steps, 7 + 25)
    assert stream.rewards.shape == stream.costs.shape == (steps, arms)
    assert 0 <= stream.rewards.min() < stream.rewards.max() <= 1
    assert stream.costs.min() > 0
    assert set(stream.features(3)) >= {"words", "code", "embedding"}
    other = task.stream(seed=1)
    assert (stream.rewards != other.rewards).any()
    assert stream.rewards.sum(axis=0) == pytest.approx(other.rewards.sum(axis=0))


@pytest.mark.data
def test_the_number_of_components_can_be_chosen() -> None:
    wide = pickle.loads(pickle.dumps(Routing9(384)))
    assert wide.features == 7 + 384
    stream, narrow = wide.stream(0, 20), Routing9().stream(0, 20)
    assert (stream.embeddings[:, :25] == narrow.embeddings).all()
    for components in (0, 769):
        with pytest.raises(InvalidSettings, match="components must be from 1 to 768"):
            Routing9(components)


def write_table(folder: Path, rows: list[dict[str, Any]]) -> None:
    (folder / "routing").mkdir()
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "routing" / "paretobandit_val_k4.jsonl").write_text(lines)


def test_an_invalid_table_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLCB_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("GLCB_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(DataError, match=r"paretobandit_val_k4\.jsonl"):
        Routing4().stream(0)
    write_table(tmp_path, [{"prompt": "Hello"}])
    with pytest.raises(DataError, match="must hold prompts with the scores of models"):
        Routing4().stream(0)


def test_word_components_depend_on_the_fitted_texts_alone() -> None:
    texts = ["one small model", "one large model", "the price of a model", "a large price"]
    words = WordComponents(texts[:3], 2)
    together, alone = words(texts), words(texts[3:])
    assert together.shape == (4, 2)
    assert together[3] == pytest.approx(alone[0])
    assert (words(["nothing known here?"]) == 0).all()
    assert np.isfinite(together).all()
