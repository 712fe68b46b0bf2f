"""The runner: parallel, interruptible at any moment, honest about what failed."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from multiprocessing import connection
from pathlib import Path
from typing import NamedTuple

import pytest

from glcb.bench.executors import LocalEngine
from glcb.bench.plan import (
    PRESETS,
    Experiment,
    carry_out,
    without_missing_data,
    without_missing_packages,
)
from glcb.bench.results import FILE, Results
from glcb.bench.run import Failure, Record, Run, execute

ARGUMENTS = ["--tasks", "wheel,linear", "--policies", "uniform,linucb", "--seeds", "8", "--steps", "3000"]


def bench(folder: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "glcb", "bench", *ARGUMENTS, "--out", str(folder), "--jobs", "2", *more]
    return subprocess.Popen(
        command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )


def outcomes(folder: Path) -> dict[str, tuple[float, list[float]]]:
    """Return what does not depend on the clock."""
    return {record.key: (record.total, record.rewards) for record in Results(folder).records}


def wait_for_a_record(folder: Path) -> None:
    """Wait until there is one more than now."""

    def lines() -> int:
        return (folder / FILE).read_text().count("\n") if (folder / FILE).exists() else 1

    before = lines()
    for _ in range(6000):
        if lines() > before:
            return
        time.sleep(0.005)
    pytest.fail("no record appeared")


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_for_the_end_of(processes: list[int]) -> None:
    """Processes whose parent was killed must not linger."""
    for _ in range(200):
        if not any(Path(f"/proc/{pid}").exists() for pid in processes):
            return
        time.sleep(0.05)
    pytest.fail("the workers outlived the process that started them")


class Calm(NamedTuple):
    """What came of an experiment that nobody disturbed."""

    folder: Path
    output: str


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Calm:
    folder = tmp_path_factory.mktemp("calm")
    with bench(folder, "--json") as process:
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0
    return Calm(folder, output)


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks into /proc")
def test_killed_and_started_again_gives_what_an_undisturbed_run_gives(tmp_path: Path, calm: Calm) -> None:
    for _ in range(2):  # twice, at different moments
        with bench(tmp_path / "killed") as process:
            wait_for_a_record(tmp_path / "killed")
            workers = children(process.pid)
            assert len(workers) >= 2
            os.kill(process.pid, signal.SIGKILL)
        wait_for_the_end_of(workers)
    before = len(Results(tmp_path / "killed").records)
    assert 0 < before < 32
    with bench(tmp_path / "killed") as process:
        assert process.wait(120) == 0
    records = Results(tmp_path / "killed").records
    assert max(Counter(record.key for record in records).values()) == 1
    assert outcomes(tmp_path / "killed") == outcomes(calm.folder)
    assert len(records) == 32


def test_interrupted_politely_it_stops_at_once(tmp_path: Path) -> None:
    with bench(tmp_path, "--seeds", "50") as process:
        wait_for_a_record(tmp_path)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(20) == 130
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
    assert 0 < len(Results(tmp_path).records) < 200


def test_json_is_all_there_is_on_standard_output(calm: Calm) -> None:
    rows = json.loads(calm.output)
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
        "us_decide",
        "us_learn",
    }
    assert all(0 < row["mean"] < row["optimum"] and row["sem"] > 0 for row in rows)


def test_a_run_that_fails_is_recorded_and_the_rest_goes_on(tmp_path: Path) -> None:
    runs = [
        Run("wheel", "uniform", 0, 50),
        Run("wheel", "epsilon-greedy", 0, 50, {"epsilon": 7}),
        Run("wheel", "uniform", 1, 50),
    ]
    came = [outcome for *_, outcome in carry_out(runs, tmp_path, LocalEngine(2)) if outcome is not None]
    assert [type(outcome) for outcome in came].count(Failure) == 1
    assert len(Results(tmp_path).records) == 2
    again = list(carry_out(runs, tmp_path, LocalEngine(1)))
    assert again[0][:2] == (2, 3)
    assert isinstance(again[-1][2], Failure)


def _die(run: Run) -> Record | Failure:
    if run.seed == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return execute(run)


def test_a_process_that_dies_takes_only_its_own_run_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glcb.bench.executors.execute", _die)
    came = list(LocalEngine(2).run([Run("wheel", "uniform", seed, 50) for seed in range(6)]))
    assert sorted(outcome.seed for outcome in came) == list(range(6))
    (failure,) = (outcome for outcome in came if isinstance(outcome, Failure))
    assert failure.seed == 3
    assert "died" in failure.error


def test_a_process_that_dies_between_two_runs_is_replaced() -> None:
    engine = LocalEngine(2)
    came = []
    for outcome in engine.run([Run("wheel", "uniform", seed, 50) for seed in range(8)]):
        came.append(outcome)
        if len(came) == 2:
            for worker in multiprocessing.active_children():
                os.kill(worker.pid or 0, signal.SIGKILL)
                connection.wait([worker.sentinel])
    assert sorted(outcome.seed for outcome in came) == list(range(8))
    assert all(isinstance(outcome, Record) for outcome in came)


def test_presets_name_what_exists_and_leave_out_what_has_no_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GLCB_DATA_DIR", str(tmp_path))
    present, absent = without_missing_data(PRESETS["paper"])
    assert present.tasks == ("wheel",)
    assert len(absent) == 6
    assert without_missing_data(PRESETS["quick"]) == (PRESETS["quick"], [])
    assert len(PRESETS["paper"].policies) == 10


def test_policies_whose_packages_are_missing_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glcb.bench.plan.find_spec", lambda package: None)
    present, absent = without_missing_packages(PRESETS["paper"])
    assert present.policies == ("glcb-paper", "linfullpost")
    assert len(absent) == 8


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
def test_nonsense_is_refused(wrong: dict[str, object]) -> None:
    arguments = {"tasks": ("wheel",), "policies": ("uniform",), "seeds": 1, "steps": 1} | wrong
    with pytest.raises(ValueError, match=r"no task|no policy|seeds|steps|more than once"):
        Experiment(**arguments)  # type: ignore[arg-type]
