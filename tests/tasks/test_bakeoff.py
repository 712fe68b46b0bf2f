"""The folder of data sets that take part in the bake-off."""

import gzip
import lzma
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from glcb import DataError, InvalidSettings, tasks
from glcb.tasks.bakeoff import BakeoffTask
from glcb.tasks.data import cache
from glcb.tasks.file_task import file_tasks

AddFile = Callable[[str, str], Path]


@pytest.fixture
def add(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AddFile:
    """Return a function that adds a file to the folder."""
    monkeypatch.setenv("GLCB_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("GLCB_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "bakeoff").mkdir()

    def write(name: str, text: str) -> Path:
        path = tmp_path / "bakeoff" / name
        path.write_bytes(text.encode())
        return path

    return write


def load(name: str) -> BakeoffTask:
    task = tasks.get(name)
    assert isinstance(task, BakeoffTask)
    return task


def table(columns: dict[str, list[object]], delimiter: str = "\t") -> str:
    rows = [list(columns), *zip(*columns.values(), strict=True)]
    return "".join(delimiter.join(map(str, row)) + "\n" for row in rows)


COLUMNS: dict[str, list[object]] = {
    "id": list(range(100, 126)),
    "price": [0.5 * row for row in range(26)],
    "flag": [row % 2 for row in range(26)],
    "three": [row % 3 for row in range(26)],
    "twelve": [row % 12 for row in range(26)],
    "thirteen": [row % 13 for row in range(26)],
    "count": [f"{row % 3}.0" for row in range(26)],
    "city": ["Oslo", "Rome"] * 13,
    "target": ["no", "yes"] * 13,
}


def test_columns_are_interpreted_by_how_they_are_written(add: AddFile) -> None:
    add("own.tsv", table(COLUMNS))
    data = load("bakeoff/own").data.table
    assert data.number_names == ("price", "flag", "thirteen", "count")
    assert data.category_names == ("three", "twelve", "city")
    assert data.features == 4 + 3 + 12 + 2


def test_the_codes_of_an_ordinal_data_set_are_numbers(add: AddFile) -> None:
    add("coil2000.tsv", table(COLUMNS))
    data = load("bakeoff/coil2000").data.table
    assert data.number_names == ("price", "flag", "three", "twelve", "thirteen", "count")
    assert data.category_names == ("city",)


def test_an_integer_with_missing_values_is_still_an_identifier(add: AddFile) -> None:
    add("own.csv", "id,x,target\n1,0.5,a\n?,0.1,b\n3,0.2,a\n7,NA,b\n")
    data = load("bakeoff/own").data
    assert data.table.number_names == ("x",)
    assert data.table.rows == 3  # the row without x is dropped


@pytest.mark.parametrize(
    "name", ["own.tsv", "own.tsv.xz", "own.tsv.gz", "own.csv", "own.csv.xz", "own.csv.gz"]
)
def test_your_own_file_takes_part(add: AddFile, name: str) -> None:
    text = table(COLUMNS, "\t" if ".tsv" in name else ",")
    path = add(name, text)
    if name.endswith(".xz"):
        path.write_bytes(lzma.compress(text.encode()))
    elif name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    assert "bakeoff/own" in tasks.names()
    task = tasks.get("bakeoff/own")
    assert (task.name, task.arms, task.features, task.rewards) == ("bakeoff/own", ("no", "yes"), 21, "binary")
    one, two = task.stream(3), task.stream(3)
    assert one.steps == 26
    assert one.optimum == 26
    assert np.array_equal(one.contexts, two.contexts)
    assert not np.array_equal(one.contexts, task.stream(4).contexts)


def test_a_name_keeps_its_dots_and_other_files_are_not_tasks(add: AddFile) -> None:
    for name in ("my.data.tsv", "notes.txt", "README", ".hidden.tsv", ".tsv"):
        add(name, table(COLUMNS))
    assert [name for name in tasks.names() if "/" in name] == ["bakeoff/my.data"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"x,y\n1,2\n", "no column 'target'"),
        (b"x,target\n", "there are no rows"),
        (b"x,target\n0.5,a\n0.1,a\n", "at least two classes"),
        (b"id,target\n1,a\n2,b\n", "at least one context column"),
        (b"x,target\n0.5,a\n0.1\n", "row 3 of .* has 1 columns"),
        (b"\xff\xfe\x00\x01target", "is not UTF-8 text"),
        (b"\xfd7zXZ\x00garbage", "is damaged"),
    ],
)
def test_a_broken_file_is_named_and_the_others_still_work(add: AddFile, content: bytes, message: str) -> None:
    path = add("broken.csv", "")
    path.write_bytes(content)
    add("good.tsv", table(COLUMNS))
    assert tasks.get("bakeoff/good").stream(0).steps == 26
    broken = tasks.get("bakeoff/broken")
    with pytest.raises(DataError, match=message) as error:
        broken.stream(0)
    assert str(path) in str(error.value)


def test_two_files_of_one_name_are_refused_when_they_are_used(add: AddFile) -> None:
    add("own.tsv", table(COLUMNS))
    add("own.csv", table(COLUMNS, ","))
    with pytest.raises(DataError, match=r"several files in .*, keep one: own\.csv, own\.tsv"):
        _ = tasks.get("bakeoff/own").arms


def test_a_misspelled_name_lists_the_data_sets(add: AddFile) -> None:
    add("magic.tsv", table(COLUMNS))
    with pytest.raises(InvalidSettings, match=r"no task 'bakeoff/magik'; .* are bakeoff/magic"):
        tasks.get("bakeoff/magik")


@pytest.mark.parametrize("directory", ["", "absent"])
def test_without_data_sets_a_task_says_where_to_put_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, directory: str
) -> None:
    monkeypatch.setenv("GLCB_DATA_DIR", str(tmp_path / directory))
    task = tasks.get("bakeoff/magic")
    with pytest.raises(
        DataError, match=r"put data sets with a column 'target' into .*bakeoff.*GLCB_DATA_DIR"
    ):
        task.stream(0, 10)


def test_a_copy_in_another_process_opens_the_file_itself(add: AddFile) -> None:
    add("own.tsv", table(COLUMNS))
    task = load("bakeoff/own")
    expected = task.stream(0)
    pickled = pickle.dumps(task)
    assert len(pickled) < 200
    assert np.array_equal(pickle.loads(pickled).stream(0).contexts, expected.contexts)


def test_a_file_is_parsed_once_until_it_changes(add: AddFile, monkeypatch: pytest.MonkeyPatch) -> None:
    path = add("my data [1].tsv", table(COLUMNS))
    before = load("bakeoff/my data [1]").data.table
    assert [entry.name.startswith("bakeoff-my-data--1--") for entry in cache.cache_directory().iterdir()] == [
        True
    ]
    with monkeypatch.context() as patch:
        patch.setattr("glcb.tasks.bakeoff.read_text_file", None)
        assert np.array_equal(load("bakeoff/my data [1]").data.table.numbers, before.numbers)
    path.write_text(table(COLUMNS | {"price": [0.25 * row for row in range(26)]}))
    assert not np.array_equal(load("bakeoff/my data [1]").data.table.numbers, before.numbers)
    assert len(list(cache.cache_directory().iterdir())) == 1


def test_a_data_set_is_not_a_file_that_can_be_fetched(add: AddFile) -> None:
    add("own.tsv", table(COLUMNS))
    assert "bakeoff/own" not in [task.name for task in file_tasks()]
    with pytest.raises(InvalidSettings, match="'bakeoff/own' is a data set of your own"):
        file_tasks("bakeoff/own")


SIZES = {
    "allhypo": (3_770, 35, 3),
    "ann_thyroid": (7_200, 21, 3),
    "car": (1_728, 21, 4),
    "churn": (5_000, 19, 2),
    "coil2000": (9_822, 85, 2),
    "credit_g": (1_000, 59, 2),
    "fars": (100_968, 118, 8),
    "kddcup": (60_000, 79, 20),
    "krkopt": (28_056, 40, 18),
    "optdigits": (5_620, 64, 10),
    "tic_tac_toe": (958, 27, 2),
    "yeast": (1_479, 8, 9),
}


@pytest.mark.data
@pytest.mark.parametrize(("name", "size"), SIZES.items())
def test_a_public_data_set_has_its_rows_features_and_classes(name: str, size: tuple[int, int, int]) -> None:
    if f"bakeoff/{name}" not in tasks.names():
        pytest.skip("the data set is not in the data directory")
    task = load(f"bakeoff/{name}")
    assert (task.data.table.rows, task.features, len(task.arms)) == size
    stream = task.stream(0)
    assert stream.steps == min(5000, size[0])
    assert stream.optimum == stream.steps
