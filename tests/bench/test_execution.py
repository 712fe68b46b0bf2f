"""Execution of benchmark plans: parallel, resumable, with failures recorded."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from multiprocessing import connection
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from glcb import DataError, InvalidSettings
from glcb.bench.executors import LocalExecutor
from glcb.bench.plan import (
    BenchmarkPlan,
    preset,
    run_missing,
    without_missing_data,
    without_missing_packages,
)
from glcb.bench.report import write
from glcb.bench.results import FILE, Results
from glcb.bench.run import Failure, Run, RunRecord, execute
from glcb.cli import app
from glcb.tasks import get
from glcb.tasks.scenarios import Scenario

ARGUMENTS = ["--tasks", "wheel,linear", "--policies", "uniform,linucb", "--seeds", "8", "--steps", "3000"]


def bench(folder: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "glcb", "bench", *ARGUMENTS, "--out", str(folder), "--jobs", "2", *more]
    return subprocess.Popen(
        command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )


def outcomes(folder: Path) -> dict[str, tuple[float, list[float]]]:
    """Return the parts of the records that do not depend on timing."""
    return {record.key: (record.total, record.rewards) for record in Results(folder).records}


def wait_for_a_record(folder: Path) -> None:
    """Wait for one more record."""

    def lines() -> int:
        return (folder / FILE).read_text().count("\n") if (folder / FILE).exists() else 0

    before = max(lines(), 2)  # the first two lines are the format and the environment
    for _ in range(6000):
        if lines() > before:
            return
        time.sleep(0.005)
    pytest.fail("no record appeared")


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_for_exit(processes: list[int]) -> None:
    """Wait until the workers of a killed process have exited."""
    for _ in range(200):
        if not any(Path(f"/proc/{pid}").exists() for pid in processes):
            return
        time.sleep(0.05)
    pytest.fail("the workers outlived the process that started them")


class Uninterrupted(NamedTuple):
    """Results of a benchmark that was not interrupted."""

    folder: Path
    output: str


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Uninterrupted:
    folder = tmp_path_factory.mktemp("uninterrupted")
    with bench(folder, "--json") as process:
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0
    return Uninterrupted(folder, output)


@pytest.mark.live
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_a_killed_benchmark_resumes_with_the_same_results(
    tmp_path: Path, uninterrupted: Uninterrupted
) -> None:
    for _ in range(2):  # twice, at different times
        with bench(tmp_path / "killed") as process:
            wait_for_a_record(tmp_path / "killed")
            workers = children(process.pid)
            assert len(workers) >= 2
            os.kill(process.pid, signal.SIGKILL)
        wait_for_exit(workers)
    before = len(Results(tmp_path / "killed").records)
    assert 0 < before < 32
    with bench(tmp_path / "killed") as process:
        assert process.wait(120) == 0
    records = Results(tmp_path / "killed").records
    assert max(Counter(record.key for record in records).values()) == 1
    assert outcomes(tmp_path / "killed") == outcomes(uninterrupted.folder)
    assert len(records) == 32


@pytest.mark.live
def test_an_interrupt_stops_the_benchmark_immediately(tmp_path: Path) -> None:
    with bench(tmp_path, "--seeds", "50") as process:
        wait_for_a_record(tmp_path)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(20) == 130
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
    assert 0 < len(Results(tmp_path).records) < 200


@pytest.mark.live
def test_standard_output_contains_only_json(uninterrupted: Uninterrupted) -> None:
    rows = json.loads(uninterrupted.output)
    assert [(row["task"], row["policy"], row["seeds"], row["steps"]) for row in rows] == [
        (task, policy, 8, 3000) for task in ("wheel", "linear") for policy in ("uniform", "linucb")
    ]
    assert set(rows[0]) == {
        "task",
        "policy",
        "seeds",
        "steps",
        "mean",
        "sem",
        "optimum",
        "decide_us",
        "learn_us",
    }
    assert all(0 < row["mean"] < row["optimum"] and row["sem"] > 0 for row in rows)


@pytest.mark.live
def test_a_failed_run_is_recorded_and_the_others_continue(tmp_path: Path) -> None:
    runs = [
        Run("wheel", "uniform", 0, 50),
        Run("wheel", "epsilon-greedy", 0, 50, {"epsilon": 7}),
        Run("wheel", "uniform", 1, 50),
    ]
    results = [
        outcome for *_, outcome in run_missing(runs, tmp_path, LocalExecutor(2)) if outcome is not None
    ]
    assert [type(outcome) for outcome in results].count(Failure) == 1
    assert len(Results(tmp_path).records) == 2
    again = list(run_missing(runs, tmp_path, LocalExecutor(1)))
    assert again[0][:2] == (2, 3)
    assert isinstance(again[-1][2], Failure)


def _die(run: Run) -> RunRecord | Failure:
    if run.seed == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return execute(run)


@pytest.mark.live
def test_a_killed_process_fails_only_its_own_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glcb.bench.executors.execute", _die)
    results = list(LocalExecutor(2).run([Run("wheel", "uniform", seed, 50) for seed in range(6)]))
    assert sorted(outcome.seed for outcome in results) == list(range(6))
    (failure,) = (outcome for outcome in results if isinstance(outcome, Failure))
    assert failure.seed == 3
    assert "died" in failure.error


@pytest.mark.live
def test_a_process_killed_between_runs_is_replaced() -> None:
    executor = LocalExecutor(2)
    results = []
    for outcome in executor.run([Run("wheel", "uniform", seed, 50) for seed in range(8)]):
        results.append(outcome)
        if len(results) == 2:
            for worker in multiprocessing.active_children():
                os.kill(worker.pid or 0, signal.SIGKILL)
                connection.wait([worker.sentinel])
    assert sorted(outcome.seed for outcome in results) == list(range(8))
    assert all(isinstance(outcome, RunRecord) for outcome in results)


def test_presets_are_valid_and_can_skip_tasks_without_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLCB_DATA_DIR", str(tmp_path))
    present, absent = without_missing_data(preset("paper"))
    assert present.tasks == ("wheel",)
    assert len(absent) == 6
    assert without_missing_data(preset("quick")) == (preset("quick"), [])
    assert len(preset("paper").policies) == 10


def test_policies_with_missing_packages_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glcb.policies.base.find_spec", lambda package: None)
    present, absent = without_missing_packages(preset("paper"))
    assert present.policies == ("glcb-paper", "linfullpost")
    assert {extra: len(names) for extra, names in absent.items()} == {"baselines": 8}


@pytest.mark.parametrize(
    "wrong",
    [
        {"tasks": ("wheel", "wheel")},
        {"tasks": ("chess",)},
        {"policies": ("psychic",)},
        {"seeds": 0},
        {"steps": 0},
    ],
)
def test_an_invalid_plan_is_refused(wrong: dict[str, object]) -> None:
    arguments = {"tasks": ("wheel",), "policies": ("uniform",), "seeds": 1, "steps": 1} | wrong
    with pytest.raises(ValueError, match=r"no task|no policy|seeds|steps|more than once"):
        BenchmarkPlan(**arguments)  # type: ignore[arg-type]


DATA_SET = "x\ttarget\n" + "".join(f"{row / 10}\t{row % 2}\n" for row in range(40))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of the bake-off in a new data directory; it does not exist yet."""
    monkeypatch.setenv("GLCB_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("GLCB_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "data" / "bakeoff"


def test_the_bakeoff_has_a_task_for_every_data_set(folder: Path) -> None:
    assert preset("bakeoff").tasks == ()
    folder.mkdir(parents=True)
    for name in ("second.csv", "first.tsv"):
        (folder / name).write_text(DATA_SET)
    assert preset("bakeoff").tasks == ("bakeoff/first", "bakeoff/second")


@pytest.mark.parametrize("exists", [False, True])
def test_the_bakeoff_without_data_sets_says_where_to_put_them(folder: Path, exists: bool) -> None:
    if exists:
        folder.mkdir(parents=True)
    result = CliRunner().invoke(app, ["bench", "--preset", "bakeoff", "--out", str(folder.parent / "out")])
    assert isinstance(result.exception, DataError)
    assert f"put data sets with a column 'target' into {folder}" in str(result.exception)
    assert not (folder.parent / "out").exists()


def test_an_unknown_preset_lists_the_presets() -> None:
    with pytest.raises(InvalidSettings, match="no preset 'papre'; the presets are quick, paper, bakeoff"):
        preset("papre")


def test_a_run_has_the_length_of_its_task_unless_the_plan_sets_one() -> None:
    tasks = ("cold-start", "clicks-1", "wheel")
    assert [run.steps for run in BenchmarkPlan(tasks, ("uniform",), seeds=1).runs()] == [200, 20_000, 5000]
    assert {run.steps for run in BenchmarkPlan(tasks, ("uniform",), seeds=1, steps=70).runs()} == {70}


def test_the_scenarios_need_no_data_and_no_package() -> None:
    plan = preset("scenarios")
    assert without_missing_data(plan) == (plan, [])
    assert all(isinstance(get(task), Scenario) for task in plan.tasks)


class InProcess:
    """An executor without processes."""

    def run(self, runs: Sequence[Run]) -> Iterator[RunRecord | Failure]:
        return map(execute, runs)


def test_tasks_with_a_missing_or_broken_data_set_fail_and_the_others_are_resumed(
    folder: Path, tmp_path: Path
) -> None:
    plan = BenchmarkPlan(("bakeoff/own", "bakeoff/broken", "wheel"), ("uniform",), seeds=1, steps=30)

    def run() -> tuple[int, dict[str, bool]]:
        (before, _, _), *rest = run_missing(plan.runs(), tmp_path / "out", InProcess())
        return before, {item.task: isinstance(item, RunRecord) for *_, item in rest if item is not None}

    assert run() == (0, {"bakeoff/own": False, "bakeoff/broken": False, "wheel": True})
    folder.mkdir(parents=True)
    (folder / "own.tsv").write_text(DATA_SET)
    (folder / "broken.tsv").write_text("x\ty\n1\t2\n")
    assert run() == (1, {"bakeoff/own": True, "bakeoff/broken": False})
    assert run() == (2, {"bakeoff/broken": False})
    assert "bakeoff/own" in write(tmp_path / "out")[1].read_text(encoding="utf-8")


@pytest.mark.live
def test_worker_processes_find_the_data_sets(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "own.tsv").write_text(DATA_SET)
    (outcome,) = LocalExecutor(1).run([Run("bakeoff/own", "uniform", 0, 30)])
    assert isinstance(outcome, RunRecord)
    assert outcome.steps_run == 30
