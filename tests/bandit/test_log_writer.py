"""The log that a bandit writes: complete lines that match its state, whatever fails."""

import copy
import datetime
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glcb import Bandit, InvalidInput, LogError
from glcb.bandit.logs import LogWriter
from glcb.bandit.logs.format import header_event
from tests.support.bandits import ARMS, FAST, full_state, run
from tests.support.logs import full_disk
from tests.support.manual_clock import CONTEXT, ManualClock


def lines(path: Path) -> list[dict[str, Any]]:
    text = path.read_text("utf-8")
    assert text == "" or text.endswith("\n")
    events = [json.loads(line) for line in text.splitlines()]
    assert events.pop(0) == header_event()
    return events


def test_every_decision_and_reward_is_a_line(tmp_path: Path) -> None:
    clock = ManualClock()
    bandit = Bandit(ARMS, clock=clock, **FAST)
    bandit.log_to(tmp_path / "log.jsonl")
    one, other = bandit.decide({"age": 31, "country": "FR"}), bandit.decide({"age": None, "country": "Zoë"})
    clock.now += 2.5
    bandit.reward(other.id, 1, idempotency_key="order 7")
    assert not bandit.reward(other.id, 1, idempotency_key="order 7")
    bandit.reward(one.id, 0)
    shown = {"event": "decision", "time": 1000.0}
    assert lines(tmp_path / "log.jsonl") == [
        {
            **shown,
            "id": one.id,
            "arm": one.arm,
            "propensity": one.propensity,
            "context": {"age": 31, "country": "FR"},
        },
        {
            **shown,
            "id": other.id,
            "arm": other.arm,
            "propensity": other.propensity,
            "context": {"age": None, "country": "Zoë"},
        },
        {"event": "reward", "id": other.id, "time": 1002.5, "reward": 1.0, "idempotency_key": "order 7"},
        {"event": "reward", "id": one.id, "time": 1002.5, "reward": 0.0},
    ]


def test_rewards_learned_at_the_timeout_are_logged_as_outcomes(tmp_path: Path) -> None:
    clock = ManualClock()
    bandit = Bandit(
        ARMS,
        rewards=(0.0, 9.0),
        clock=clock,
        reward_timeout=60,
        reward_aggregation="sum",
        default_reward=0.5,
        **FAST,
    )
    bandit.log_to(tmp_path / "log.jsonl")
    one, other = bandit.decide(CONTEXT), bandit.decide(CONTEXT)
    bandit.reward(one.id, 2.0)
    bandit.reward(one.id, 3.0)
    clock.now += 61
    bandit.settle()
    events = [{name: line[name] for name in line if name != "time"} for line in lines(tmp_path / "log.jsonl")]
    assert events[2:] == [
        {"event": "reward", "id": one.id, "reward": 2.0, "final": False},
        {"event": "reward", "id": one.id, "reward": 3.0, "final": False},
        {"event": "outcome", "id": one.id, "reward": 5.0},
        {"event": "outcome", "id": other.id, "reward": 0.5},
    ]


def test_a_log_does_not_affect_the_bandit(tmp_path: Path) -> None:
    silent, logging = Bandit(ARMS, **FAST), Bandit(ARMS, **FAST)
    logging.log_to(tmp_path / "log.jsonl")
    assert full_state(run(logging, 100)) == full_state(run(silent, 100))


def test_logging_can_stop_and_copies_do_not_log(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    bandit = Bandit(ARMS, **FAST)
    bandit.log_to(path)
    bandit.set_params(seed=3)  # the log stays
    bandit.decide(CONTEXT)
    bandit.log_to(path)  # no effect
    copy.deepcopy(bandit).decide(CONTEXT)
    bandit.save(tmp_path / "model")
    Bandit.load(tmp_path / "model").decide(CONTEXT)
    assert len(lines(path)) == 1
    bandit.log_to(tmp_path / "other.jsonl")
    bandit.decide(CONTEXT)
    bandit.log_to(None)
    bandit.log_to(None)
    bandit.decide(CONTEXT)
    assert len(lines(path)) == len(lines(tmp_path / "other.jsonl")) == 1
    bandit.log_to(path)
    bandit.decide(CONTEXT)
    assert len(lines(path)) == 2


@pytest.mark.parametrize(
    "context",
    [
        {"n": float("nan"), "i": float("inf"), "huge": 10**400, "none": None},
        {"np": np.float32(0.1), "int": np.int64(3), "flag": np.True_, "list": [1, 2], "dict": {"a": 1}},
        {"day": datetime.date(2024, 2, 3), 7: 1, "long": "x" * 500, "y" * 300: 1},
        {"\ud800": "\udfff", "-0.0": -0.0, "tiny": 5e-324},
        [1, 2.5, "FR", None, True],
        [1, datetime.date(2024, 2, 3)],
        np.array([0.1, 0.2]),
    ],
    ids=str,
)
def test_unusual_contexts_are_encoded_the_same_from_the_log(context: Any, tmp_path: Path) -> None:
    bandit = Bandit(ARMS, policy="ucb1")
    bandit.log_to(tmp_path / "log.jsonl")
    bandit.decide(context)
    bandit.decide(context)
    if isinstance(context, dict):  # new features share slots when none is free
        for number in range(40):
            bandit.decide({**context, "late": "x" * 500 + str(number), f"text {number}": "y" * 500})
        assert bandit.schema is not None
        assert (bandit.schema.free, bandit.schema.unmapped > 10) == (0, True)
    twin = Bandit(ARMS, policy="ucb1")
    for line in lines(tmp_path / "log.jsonl"):
        twin.decide(line["context"])
    assert [d.x.tolist() for d in twin._core.pending] == [d.x.tolist() for d in bandit._core.pending]
    assert twin.schema is not None
    assert bandit.schema is not None
    if isinstance(context, dict):
        assert repr(twin.schema) == repr(bandit.schema)


# ---- failures ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["linucb", "lints"])
def test_a_full_disk_raises_and_changes_neither_log_nor_bandit(policy: str, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    bandit = Bandit(ARMS, policy=policy)
    bandit.log_to(path)
    decision = bandit.decide(CONTEXT)
    before, content = full_state(bandit), path.read_bytes()
    with full_disk(len(content) + 10):
        with pytest.raises(LogError, match=r"cannot write the log .*log\.jsonl: "):
            bandit.decide(CONTEXT)
        with pytest.raises(LogError):
            bandit.reward(decision.id, 1)
    assert path.read_bytes() == content
    assert full_state(bandit) == before
    bandit.reward(decision.id, 1)
    assert [line["event"] for line in lines(path)] == ["decision", "reward"]


def test_a_full_disk_at_the_timeout(tmp_path: Path) -> None:
    clock, path = ManualClock(), tmp_path / "log.jsonl"
    bandit = Bandit(ARMS, clock=clock, reward_timeout=60, default_reward=0, **FAST)
    bandit.log_to(path)
    bandit.decide(CONTEXT)
    bandit.decide(CONTEXT)
    clock.now += 61
    before, content = full_state(bandit), path.read_bytes()
    with full_disk(len(content) + 10), pytest.raises(LogError):
        bandit.settle()
    assert full_state(bandit) == before
    bandit.settle()
    assert [line["event"] for line in lines(path)] == ["decision", "decision", "outcome", "outcome"]
    assert sum(bandit.reward_counts.values()) == 2


@pytest.mark.parametrize(
    "torn", [b"", b'{"ev', b'{"event":"decision","id":"9-0000', b'{"event":"decision","id":1}']
)
def test_a_partial_line_of_a_killed_process_is_removed(torn: bytes, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for kept in (0, 2, 1000):
        bandit = Bandit(ARMS, **FAST)
        path.unlink(missing_ok=True)
        bandit.log_to(path)
        for _ in range(kept):
            bandit.decide({"age": 3, "text": "x" * 90})
        bandit.log_to(None)
        whole = path.read_bytes()
        path.write_bytes(whole + torn)
        bandit.log_to(path)
        assert path.read_bytes() == whole
        bandit.decide({"age": 3})
        assert len(lines(path)) == kept + 1


def test_a_kill_loses_no_decision_that_was_returned(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    program = f"""
import os, signal
from glcb import Bandit
bandit = Bandit(3, policy="ucb1")
bandit.log_to({str(path)!r})
for _ in range(20):
    bandit.decide({{"age": 3}})
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -signal.SIGKILL
    assert len(lines(path)) == 20


def test_other_files_are_not_modified(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("dear diary")
    bandit = Bandit(ARMS, **FAST)
    with pytest.raises(LogError, match="exists and is not a log of a bandit: choose another path"):
        bandit.log_to(path)
    assert path.read_text() == "dear diary"
    for impossible in (tmp_path, tmp_path / "nowhere" / "log", "a\0b"):
        with pytest.raises(LogError, match="cannot write the log"):
            bandit.log_to(impossible)
    bandit.decide(CONTEXT)


def test_a_log_has_one_writer(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    first, second = Bandit(ARMS, **FAST), Bandit(ARMS, **FAST)
    first.log_to(path)
    with pytest.raises(LogError, match="another bandit is writing"):
        second.log_to(path)
    with pytest.raises(InvalidInput, match="this bandit is writing to"):
        first.learn_from(path)
    del first  # closes the file
    second.log_to(path)


def test_a_partial_line_that_cannot_be_removed_is_removed_by_the_next_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.jsonl"
    log = LogWriter(path)
    log.write({"event": "decision"})
    whole = path.read_bytes()
    truncate = os.ftruncate

    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "ftruncate", broken)
    with full_disk(len(whole) + 5), pytest.raises(LogError):
        log.write({"event": "decision"})
    assert len(path.read_bytes()) == len(whole) + 5
    with pytest.raises(LogError, match="Input/output"):
        log.write({"event": "reward"})
    monkeypatch.setattr(os, "ftruncate", truncate)
    log.write({"event": "reward"})
    assert path.read_bytes() == whole + b'{"event":"reward"}\n'


def test_an_interrupt_during_a_write_leaves_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.jsonl"
    bandit = Bandit(ARMS, **FAST)
    bandit.log_to(path)
    bandit.decide(CONTEXT)
    before, content = full_state(bandit), path.read_bytes()
    write = os.write

    def interrupted(descriptor: int, text: bytes) -> int:
        write(descriptor, text)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bandit.decide(CONTEXT)
    monkeypatch.undo()
    assert path.read_bytes() == content
    assert full_state(copy.copy(bandit)) == before


def test_an_interrupt_after_a_write_leaves_no_line(tmp_path: Path) -> None:
    class Interrupted(int):
        def __add__(self, other: int) -> int:
            raise KeyboardInterrupt

    log = LogWriter(tmp_path / "log.jsonl")
    log.write({"event": "decision"})
    content, end = (tmp_path / "log.jsonl").read_bytes(), log._end
    log._end = Interrupted(end)
    with pytest.raises(KeyboardInterrupt):
        log.write({"event": "reward"})
    assert (tmp_path / "log.jsonl").read_bytes() == content


def test_many_threads_write_complete_lines(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    bandit = Bandit(ARMS, policy="ucb1")
    bandit.log_to(path)

    def work() -> None:
        for i in range(50):
            bandit.reward(bandit.decide({"age": i}).id, 1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    bandit.log_to(None)
    assert len(lines(path)) == 400
    twin = Bandit(ARMS, policy="ucb1")
    assert twin.learn_from(path).learned == 200
    assert twin.counts == bandit.counts
    assert twin.reward_counts == bandit.reward_counts
