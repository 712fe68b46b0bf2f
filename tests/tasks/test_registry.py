"""Tasks by name."""

import gzip
import lzma
from pathlib import Path

import pytest

from glcb import DataError, InvalidSettings, tasks
from glcb.tasks.file_task import FileTask, file_tasks


def test_all_tasks_of_the_paper_are_registered() -> None:
    paper = {"adult", "census", "covertype", "financial", "jester", "statlog", "wheel"}
    assert paper | {"mushroom", "linear", "sparse-linear"} <= set(tasks.names())
    assert tasks.names() == sorted(tasks.names())
    assert all(tasks.get(name).name == name for name in tasks.names())


def test_an_unknown_task_lists_the_available_ones() -> None:
    with pytest.raises(InvalidSettings, match=r"no task 'whele'; the tasks are adult, .* wheel"):
        tasks.get("whele")


@pytest.mark.parametrize("task", file_tasks(), ids=lambda task: task.name)
def test_missing_data_names_the_fetch_command(
    task: FileTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLCB_DATA_DIR", str(tmp_path))
    fresh = tasks.get(task.name)
    with pytest.raises(DataError, match=f"glcb data fetch {fresh.name}"):
        fresh.stream(0, 10)


def test_a_task_can_be_created_without_its_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLCB_DATA_DIR", str(tmp_path))
    task = tasks.get("adult")
    assert task.rewards == "binary"
    with pytest.raises(DataError, match=r"adult\.full"):
        _ = task.arms


def test_a_synthetic_task_has_nothing_to_fetch() -> None:
    with pytest.raises(InvalidSettings, match="'wheel' needs no data"):
        file_tasks("adult", "wheel")


def test_the_whole_census_is_preferred_to_its_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLCB_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("GLCB_CACHE_DIR", str(tmp_path / "cache"))
    (census,) = file_tasks("census")
    sample, whole = tmp_path / "USCensus1990.first15k.csv.xz", tmp_path / "USCensus1990.data.txt.gz"
    rows = "caseid,dAge,dOccup\n1,5,0\n2,6,3\n"
    sample.write_bytes(lzma.compress(rows.encode()))
    assert census.source == sample
    assert tasks.get("census").features == 2
    whole.write_bytes(gzip.compress((rows + "3,7,8\n").encode()))
    assert census.source == whole
    assert tasks.get("census").features == 3
    assert tasks.get("census").arms == (0, 3, 8)
