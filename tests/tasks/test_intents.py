"""Tasks made of questions and their intents."""

from pathlib import Path

import numpy as np
import pytest

from glcb import DataError, tasks


@pytest.mark.data
@pytest.mark.parametrize(("name", "features"), [("banking77", 64), ("banking77-words", 1000)])
def test_every_question_has_one_right_intent(name: str, features: int) -> None:
    task = tasks.get(name)
    stream = task.stream(10_000)
    assert (len(task.arms), task.features, stream.steps) == (77, features, 8000)
    assert (stream.rewards.sum(axis=1) == 1).all()
    assert stream.contexts.shape == (8000, features)
    assert stream.contexts.min() >= 0
    assert stream.contexts.max() <= 1
    assert np.array_equal(stream.contexts, task.stream(10_000).contexts)
    assert not np.array_equal(stream.contexts, task.stream(10_001).contexts)


def test_a_file_without_intents_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLCB_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("GLCB_CACHE_DIR", str(tmp_path / "cache"))
    with pytest.raises(DataError, match=r"banking77\.csv"):
        tasks.get("banking77").stream(0)
    (tmp_path / "intents").mkdir()
    (tmp_path / "intents" / "banking77.csv").write_text("question,answer\nWhere is my card?,arrival\n")
    with pytest.raises(DataError, match="must have the columns text and intent"):
        tasks.get("banking77").stream(0)
