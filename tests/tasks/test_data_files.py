"""The data files and the tasks made from them."""

import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from glcb import tasks
from glcb.tasks.classification import LabeledFileTask
from glcb.tasks.data.cache import cache_directory
from glcb.tasks.data.directory import open_text
from glcb.tasks.data.verify import verify
from glcb.tasks.file_task import FileTask, file_tasks
from tests.tasks.processes import digests

pytestmark = pytest.mark.data

SHAPES = {
    "adult": (45_222, 94, 14),
    "census": (15_339, 385, 9),
    "covertype": (581_012, 54, 7),
    "financial": (3_713, 21, 8),
    "jester": (19_181, 32, 8),
    "mushroom": (8_124, 117, 2),
    "statlog": (43_500, 9, 7),
}
CLASSES = {
    "census": (6259, 2115, 2740, 1278, 323, 1031, 1526, 38, 29),
    "covertype": (211840, 283301, 35754, 2747, 9493, 17367, 20510),
    "mushroom": (4208, 3916),
    "statlog": (34108, 37, 132, 6748, 2458, 6, 11),
}


@pytest.fixture(scope="module", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GLCB_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


def task_called(name: str) -> FileTask:
    (task,) = file_tasks(name)
    if task.find() is None:
        pytest.skip(f"the file of {name} is not there")
    return task


# The first test of this file: the other tests use what it parsed.
@pytest.mark.live
def test_parsing_covertype_needs_less_than_400_megabytes() -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("looks into /proc")
    task_called("covertype")
    for parsed in cache_directory().glob("covertype-*"):
        shutil.rmtree(parsed)
    # Not getrusage: what it calls the peak includes that of the process which started this one.
    code = (
        "import re; from glcb import tasks; tasks.get('covertype').stream(0, 5000);"
        "print(re.search(r'VmHWM:\\s+(\\d+) kB', open('/proc/self/status').read())[1])"
    )
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert int(ran.stdout) * 1024 < 400e6


@pytest.mark.parametrize("name", SHAPES)
def test_rows_features_and_arms_are_as_documented(name: str) -> None:
    task = task_called(name)
    found = task.find()
    assert found is not None
    rows, features, arms = SHAPES[name]
    if found[0].name == "USCensus1990.data.txt":
        rows, features = 2_458_285, 389
    assert task.facts(task._parsed).rows == rows
    stream = tasks.get(name).stream(0)
    assert stream.steps == min(5000, rows) or name == "mushroom"
    assert stream.contexts.shape[1] == tasks.get(name).features == features
    assert stream.rewards.shape[1] == len(tasks.get(name).arms) == arms
    assert stream.contexts.min() == 0
    assert stream.contexts.max() == 1


@pytest.mark.parametrize("name", CLASSES)
def test_class_counts_are_as_documented(name: str) -> None:
    task = task_called(name)
    assert isinstance(task, LabeledFileTask)
    if name == "census" and task.source.name.startswith("USCensus1990.data"):
        pytest.skip("the counts are those of the sample")
    assert task.data.counts == CLASSES[name]


@pytest.mark.parametrize("name", SHAPES)
def test_the_file_is_verified(name: str) -> None:
    task = task_called(name)
    found = task.find()
    assert found is not None
    how = verify(task, *found)
    assert how == {"covertype": "SHA-256", "statlog": "SHA-256"}.get(name, how)
    assert how in ("SHA-256", "rows, columns, classes", "rows, columns")


def test_adult_has_four_incomes_and_fourteen_occupations() -> None:
    task = task_called("adult")
    assert isinstance(task, LabeledFileTask)
    incomes = [name for name in task.data.table.feature_names if name.startswith("income=")]
    assert incomes == ["income=<=50K", "income=<=50K.", "income=>50K", "income=>50K."]
    assert len(set(task.arms)) == 14
    assert "Craft-repair" in task.arms
    assert sum(task.data.counts) == 45_222


@pytest.mark.parametrize("name", ["covertype", "statlog"])
def test_arms_are_named_after_their_labels(name: str) -> None:
    task = task_called(name)
    assert isinstance(task, LabeledFileTask)
    assert task.arms == (1, 2, 3, 4, 5, 6, 7)


def test_covertype_matches_the_lines_of_the_file() -> None:
    task = task_called("covertype")
    assert isinstance(task, LabeledFileTask)
    rows = np.array([0, 1, 300_000, 581_011])
    features, classes = task.data.contexts_and_classes(rows)
    plain = {number: line for number, line in _lines(task.source) if number in set(rows.tolist())}
    for row, own, label in zip(rows, features, classes, strict=True):
        expected = [int(value) for value in plain[int(row)].split(",")]
        assert own.tolist() == expected[:-1]
        assert label == expected[-1] - 1


def test_census_is_the_one_hot_encoding_of_every_answer() -> None:
    task = task_called("census")
    assert isinstance(task, LabeledFileTask)
    features, classes = task.data.contexts_and_classes(np.array([0]))
    (_, header), (_, line) = [pair for pair in _lines(task.source) if pair[0] in (0, 1)]
    answers = dict(zip(header.split(","), line.split(","), strict=True))
    assert classes[0] == int(answers.pop("dOccup"))
    del answers["caseid"]
    on = {name for name, value in zip(task.data.table.feature_names, features[0], strict=True) if value}
    assert on == {f"{name}={value}" for name, value in answers.items()}


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    with open_text(path) as text:
        yield from enumerate(line.strip() for line in text)


def test_a_pickled_task_is_small_and_works() -> None:
    task = task_called("statlog")
    stream = task.stream(0, 50)
    packed = pickle.dumps(task)
    assert len(packed) < 1000
    assert pickle.loads(packed).stream(0, 50).contexts.tobytes() == stream.contexts.tobytes()


def test_the_best_portfolio_pays_one_and_the_worst_zero() -> None:
    task_called("financial")
    streams = [tasks.get("financial").stream(seed) for seed in range(20)]
    for stream in streams:
        assert stream.steps == 3713
        assert (stream.rewards.max(axis=1) == 1).all()
        assert (stream.rewards.min(axis=1) == 0).all()
    assert abs(np.mean([s.rewards.mean(axis=1).sum() for s in streams]) / 1857 - 1) < 0.01
    assert not np.array_equal(streams[0].rewards, streams[1].rewards)


def test_jester_uniform_and_optimum_rewards_are_as_published() -> None:
    task_called("jester")
    streams = [tasks.get("jester").stream(seed) for seed in range(40)]
    # Which eight jokes are the arms moves the sum of one seed by some 100; over all jokes it is 2876.
    assert abs(np.mean([s.rewards.mean(axis=1).sum() for s in streams]) / 2834 - 1) < 0.03
    assert abs(np.mean([s.optimum for s in streams]) / 4114 - 1) < 0.02
    assert all(s.rewards.min() >= 0 and s.rewards.max() <= 1 for s in streams)


def test_the_reward_of_a_mushroom_depends_on_its_kind() -> None:
    task = task_called("mushroom")
    assert isinstance(task, LabeledFileTask)
    stream = task.stream(0, 20_000)
    assert stream.steps == 20_000
    eaten, left = stream.rewards.T
    assert (left == 0).all()
    assert set(np.unique(eaten)) == {-35.0, 5.0}
    assert abs((eaten < 0).mean() - 0.5 * 3916 / 8124) < 0.01
    odourless = stream.contexts[:, task.data.table.feature_names.index("4=a")] == 1
    assert (eaten[odourless] == 5).all(), "mushrooms that smell of almond are edible"


def test_two_processes_produce_identical_streams() -> None:
    there = [task.name for task in file_tasks() if task.find()]
    once, again = digests(there, salt="1"), digests(there, salt="2")
    assert once == again
    assert len(set(once)) == len(there)


@pytest.mark.parametrize("name", SHAPES)
def test_a_second_use_reads_the_cache(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    task = task_called(name)
    first = tasks.get(name).stream(1, 5000)
    monkeypatch.setattr(type(task), "read", lambda path: pytest.fail(f"{path} is parsed again"))
    assert np.array_equal(tasks.get(name).stream(1, 5000).contexts, first.contexts)
