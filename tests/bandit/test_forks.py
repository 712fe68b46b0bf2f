"""Bandits in forked processes: they do not hang, and share neither ids nor random numbers."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

COMMON = """
import json, os, sys, threading, time
from glcb import Bandit
from glcb.bandit import access

def in_child(action):
    '''Return the result of an action in a forked process, or "hangs".'''
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            result = action()
        except Exception as error:
            result = f"{type(error).__name__}: {error}"
        os.write(writer, json.dumps(result).encode())
        os._exit(0)
    os.close(writer)
    deadline = time.monotonic() + 5
    while os.waitpid(child, os.WNOHANG)[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, 9)
            os.waitpid(child, 0)
            return "hangs"
        time.sleep(0.01)
    return json.loads(os.read(reader, 100_000))

def decisions(count=20):
    made = [bandit.decide({"age": 3}, uniform=True) for _ in range(count)]
    return [[one.id, one.arm] for one in made]

bandit = Bandit(10, policy="lints")
decisions()
"""


def run_script(script: str, *arguments: object) -> Any:
    """Run a script after the common one in a process of its own; return what it prints."""
    command = [sys.executable, "-W", "ignore", "-c", COMMON + script, *map(str, arguments)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


def test_parent_and_children_make_different_decisions() -> None:
    script = """
print(json.dumps([in_child(decisions), in_child(decisions), decisions()]))
"""
    results = run_script(script)
    ids = [one for decisions in results for one, _ in decisions]
    assert len(set(ids)) == len(ids) == 60
    arms = {tuple(arm for _, arm in decisions) for decisions in results}
    assert len(arms) == 3


def test_a_fork_before_the_first_use_is_harmless() -> None:
    script = """
bandit = Bandit(10, policy="lints")
results = in_child(decisions), in_child(decisions), decisions()
print(json.dumps(results))
"""
    first, second, own = run_script(script)
    assert len({one for decisions in (first, second, own) for one, _ in decisions}) == 60


def test_new_settings_do_not_undo_that_a_child_draws_numbers_of_its_own() -> None:
    script = """
bandit = Bandit(10, policy="lints")
def changed():
    bandit.set_params(exploration=0.3)
    return decisions()
print(json.dumps((in_child(changed), changed())))
"""
    child, own = ([arm for _, arm in decisions] for decisions in run_script(script))
    assert child != own


def test_threads_of_a_child_can_use_a_bandit_at_once() -> None:
    script = """
def in_threads():
    made = []
    threads = [threading.Thread(target=lambda: made.extend(decisions())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return made
print(json.dumps(in_child(in_threads)))
"""
    assert len({one for one, _ in run_script(script)}) == 160


def test_a_fork_does_not_change_the_parent() -> None:
    script = """
if sys.argv[1] == "fork":
    in_child(decisions)
print(json.dumps(decisions()))
"""
    assert run_script(script, "fork") == run_script(script, "no fork")


def test_a_child_does_not_write_to_the_log_of_its_parent(tmp_path: Path) -> None:
    script = """
bandit.log_to(sys.argv[1])
child = in_child(decisions)
bandit.log_to(None)
print(json.dumps(child))
"""
    assert "belongs to the process that this one was forked from" in run_script(
        script, tmp_path / "log.jsonl"
    )
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 1


def test_a_bandit_that_another_thread_is_using_raises_an_error_in_the_child() -> None:
    script = """
access._MAX_WAIT = 0.1
inside, finish = threading.Event(), threading.Event()
bandit.on_reward(lambda *_: (inside.set(), finish.wait()))
thread = threading.Thread(target=lambda: bandit.reward(bandit.decide({"age": 3}).id, 1))
thread.start()
inside.wait()
child = in_child(decisions)
finish.set()
thread.join()
decisions()
print(json.dumps(child))
"""
    assert run_script(script).startswith("NotSupported: another thread was using this bandit")
