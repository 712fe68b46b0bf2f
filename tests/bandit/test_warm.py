"""Kernels are compiled ahead of time, in processes that share a cache."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from glcb import NotSupported
from glcb._files import lock_file
from glcb.bandit import warm
from glcb.cli import app

LISTENER = """
from numba.core import event

compiled = []

class Listener(event.Listener):
    def on_start(self, event):
        compiled.append(event.data["dispatcher"].py_func.__name__)

    def on_end(self, event):
        pass

event.register("numba:compile", Listener())
from glcb import Bandit
"""

FIRST_STEPS = """
from glcb.bandit import warm
warm.exercise()
for rewards in ("binary", (0.0, 9.0)):
    bandit = Bandit(["x", "y"], rewards=rewards, half_life=2)
    for _ in range(40):
        bandit.reward(bandit.decide({"age": 31, "country": "FR"}).id, 1)
    bandit.explain({"age": 31})
    bandit.add_arm("new", like="x")
bandit = Bandit(["x", "y"], policy="linucb")
bandit.reward(bandit.decide({"age": 31}).id, 1)
for rewards in ("binary", (0.0, 9.0)):
    bandit = Bandit({}, rewards=rewards, slots=2)
    arms = {"x": {"price": 3, "tags": ["a", "b"]}, "y": {"price": 2}}
    for _ in range(2):
        bandit.reward(bandit.decide({"age": 31}, arms=arms).id, 1)
        bandit.reward(bandit.rank({"age": 31, "vector": [0.5] * 384}, k=2, arms=arms).id, 1, slot=1)
    bandit.explain({"age": 31}, arms=arms)
assert not compiled, compiled
"""


def files(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*.nb?")}


OWN_USE = """
bandit = Bandit(["x", "y"], policy="ucb1")
bandit.reward(bandit.decide({"age": 31}, eligible=["x"]).id, 1)
bandit = Bandit(["x", "y"], rewards=(0.0, 1.0))
bandit.reward(bandit.decide({"age": 31}).id, 1)
from glcb.bandit import warm
assert not any(map(warm.is_compiled, warm.PARTS))
"""


@pytest.mark.live
def test_the_kernels_that_a_bandit_compiles_do_not_count_as_compiled_parts(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", LISTENER + OWN_USE], env=environment, check=True)


@pytest.mark.live
def test_nothing_is_left_to_compile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    command = [sys.executable, "-m", "glcb", "warm"]
    first = subprocess.run(command, capture_output=True, text=True, check=True)
    *progress, last = first.stdout.splitlines()
    assert progress[0] == "compiling decisions, rewards, secondary, rare"
    assert sorted(line.split(":")[0] for line in progress[1:]) == [
        "decisions",
        "rare",
        "rewards",
        "secondary",
    ]
    assert str(tmp_path) in last
    subprocess.run([sys.executable, "-c", LISTENER + FIRST_STEPS], check=True)

    compiled = files(tmp_path)
    subprocess.run(command, capture_output=True, check=True)
    assert files(tmp_path) == compiled, "the second time, nothing is compiled"


def test_without_a_writable_cache_the_command_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "cache_folder", lambda kernel: None)
    result = CliRunner().invoke(app, ["warm"])
    assert isinstance(result.exception, NotSupported)
    assert "set NUMBA_CACHE_DIR to a folder that this user can write to" in str(result.exception)
    assert not warm.has_folder()


def test_a_process_that_fails_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "start", lambda part: start("raise SystemExit('out of disk space')"))
    with pytest.raises(NotSupported, match="the kernels of rare could not be compiled: out of disk space"):
        warm.compile_in_processes(["rare"])


def test_an_error_ends_the_other_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    started = {"slow": start("import time; time.sleep(600)"), "broken": start("raise SystemExit('no')")}
    monkeypatch.setattr(warm, "start", started.__getitem__)
    with pytest.raises(NotSupported, match="broken"):
        warm.compile_in_processes(started, processes=2)
    assert started["slow"].poll() is not None


def test_no_more_processes_run_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[str]] = []

    def start_alone(part: str) -> subprocess.Popen[str]:
        assert all(process.poll() is not None for process in started)
        started.append(start("pass"))
        return started[-1]

    monkeypatch.setattr(warm, "start", start_alone)
    finished: list[str] = []
    warm.compile_in_processes(["a", "b", "c"], 1, lambda part, seconds: finished.append(part))
    assert finished == ["a", "b", "c"]


def test_one_process_compiles_while_others_wait(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiled = threading.Event()
    monkeypatch.setattr(warm, "folder", lambda: str(tmp_path))
    monkeypatch.setitem(warm.PARTS, "rare", compiled.set)
    with (tmp_path / "rare.lock").open("a") as other:
        lock_file(other.fileno())
        waiting = threading.Thread(target=warm.compile_part, args=["rare"])
        waiting.start()
        assert not compiled.wait(0.1)
    waiting.join(10)
    assert compiled.is_set()


def test_a_process_that_compiles_ends_with_the_one_that_started_it() -> None:
    process = warm.start("rare")
    _, errors = process.communicate()  # closes the pipe, like the end of this process
    assert (process.returncode, errors) == (1, "")


def start(program: str, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, **options)
