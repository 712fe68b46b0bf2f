"""The log that a bandit writes: whole lines, in agreement with what the bandit knows, whatever goes wrong."""

import copy
import datetime
import json
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glcb import Bandit, InvalidInput, LogError
from glcb.bandit.logs import LogFile
from tests.bandit.anybody import ARMS, FAST, everything, played
from tests.bandit.clocks import CONTEXT, Watch


def lines(path: Path) -> list[dict[str, Any]]:
    text = path.read_text("utf-8")
    assert text == "" or text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


@contextmanager
def full_disk(room: int) -> Iterator[None]:
    """Let no file grow beyond ``room`` bytes, which the system refuses in the middle of a line."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def test_a_line_for_each_decision_and_each_reward(tmp_path: Path) -> None:
    watch = Watch()
    bandit = Bandit(ARMS, clock=watch, **FAST)
    bandit.log_to(tmp_path / "log.jsonl")
    one, other = bandit.decide({"age": 31, "country": "FR"}), bandit.decide({"age": None, "country": "Zoë"})
    watch.now += 2.5
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
        {"event": "reward", "id": other.id, "time": 1002.5, "reward": 1.0, "key": "order 7"},
        {"event": "reward", "id": one.id, "time": 1002.5, "reward": 0.0},
    ]


def test_what_expires_is_told_if_it_was_learned(tmp_path: Path) -> None:
    watch = Watch()
    bandit = Bandit(
        ARMS,
        rewards=(0.0, 9.0),
        clock=watch,
        reward_timeout=60,
        reward_aggregation="sum",
        default_reward=0.5,
        **FAST,
    )
    bandit.log_to(tmp_path / "log.jsonl")
    one, other = bandit.decide(CONTEXT), bandit.decide(CONTEXT)
    bandit.reward(one.id, 2.0)
    bandit.reward(one.id, 3.0)
    watch.now += 61
    bandit.settle()
    told = [{name: line[name] for name in line if name != "time"} for line in lines(tmp_path / "log.jsonl")]
    assert told[2:] == [
        {"event": "reward", "id": one.id, "reward": 2.0, "final": False},
        {"event": "reward", "id": one.id, "reward": 3.0, "final": False},
        {"event": "outcome", "id": one.id, "reward": 5.0},
        {"event": "outcome", "id": other.id, "reward": 0.5},
    ]


def test_a_log_changes_nothing_else(tmp_path: Path) -> None:
    quiet, telling = Bandit(ARMS, **FAST), Bandit(ARMS, **FAST)
    telling.log_to(tmp_path / "log.jsonl")
    assert everything(played(telling, 100)) == everything(played(quiet, 100))


def test_it_stops_when_told_to_and_copies_write_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    bandit = Bandit(ARMS, **FAST)
    bandit.log_to(path)
    bandit.set_params(seed=3)  # the log stays
    bandit.decide(CONTEXT)
    bandit.log_to(path)  # nothing new
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
        {"day": datetime.date(2024, 2, 3), "bytes": b"\xff", 7: 1, "long": "x" * 500, "y" * 300: 1},
        {"\ud800": "\udfff", "-0.0": -0.0, "tiny": 5e-324},
        [1, 2.5, "FR", None, True],
        [1, ...],
        np.array([0.1, 0.2]),
    ],
    ids=str,
)
def test_odd_contexts_read_the_same_from_the_log(context: Any, tmp_path: Path) -> None:
    bandit = Bandit(ARMS, policy="ucb1")
    bandit.log_to(tmp_path / "log.jsonl")
    bandit.decide(context)
    bandit.decide(context)
    if isinstance(context, dict):  # what comes when no slot is left shares one by its hash
        for number in range(40):
            bandit.decide({**context, "late": "x" * 500 + str(number), f"text {number}": "y" * 500})
        assert bandit.schema is not None
        assert (bandit.schema.free, bandit.schema.unmapped > 10) == (0, True)
    twin = Bandit(ARMS, policy="ucb1")
    for line in lines(tmp_path / "log.jsonl"):
        twin.decide(line["context"])
    assert [w.x.tolist() for w in twin._waiting._waiting.values()] == [
        w.x.tolist() for w in bandit._waiting._waiting.values()
    ]
    assert twin.schema is not None
    assert bandit.schema is not None
    if isinstance(context, dict):
        assert repr(twin.schema) == repr(bandit.schema)


# ---- what can go wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["linucb", "lints"])
def test_a_full_disk_stops_the_bandit_and_nothing_is_torn(policy: str, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    bandit = Bandit(ARMS, policy=policy)
    bandit.log_to(path)
    decision = bandit.decide(CONTEXT)
    before, content = everything(bandit), path.read_bytes()
    with full_disk(len(content) + 10):
        with pytest.raises(LogError, match=r"cannot write the log .*log\.jsonl: "):
            bandit.decide(CONTEXT)
        with pytest.raises(LogError):
            bandit.reward(decision.id, 1)
    assert path.read_bytes() == content
    assert everything(bandit) == before
    bandit.reward(decision.id, 1)
    assert [line["event"] for line in lines(path)] == ["decision", "reward"]


def test_a_full_disk_when_the_time_is_over(tmp_path: Path) -> None:
    watch, path = Watch(), tmp_path / "log.jsonl"
    bandit = Bandit(ARMS, clock=watch, reward_timeout=60, default_reward=0, **FAST)
    bandit.log_to(path)
    bandit.decide(CONTEXT)
    bandit.decide(CONTEXT)
    watch.now += 61
    before, content = everything(bandit), path.read_bytes()
    with full_disk(len(content) + 10), pytest.raises(LogError):
        bandit.settle()
    assert everything(bandit) == before
    bandit.settle()
    assert [line["event"] for line in lines(path)] == ["decision", "decision", "outcome", "outcome"]
    assert sum(bandit.reward_counts.values()) == 2


@pytest.mark.parametrize(
    "torn", [b"", b'{"ev', b'{"event":"decision","id":"9-0000', b'{"event":"decision","id":1}']
)
def test_the_line_that_a_killed_process_tore_is_cut_off(torn: bytes, tmp_path: Path) -> None:
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


def test_a_kill_leaves_every_decision_that_was_answered(tmp_path: Path) -> None:
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


def test_foreign_files_are_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("dear diary")
    bandit = Bandit(ARMS, **FAST)
    with pytest.raises(LogError, match="not a log of a bandit's decisions"):
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
    with pytest.raises(InvalidInput, match="being written by this bandit"):
        first.learn_from(path)
    del first  # lets go of it
    second.log_to(path)


def test_what_cannot_be_cut_off_at_once_is_cut_off_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.jsonl"
    log = LogFile(path)
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


def test_an_interrupt_while_writing_leaves_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.jsonl"
    bandit = Bandit(ARMS, **FAST)
    bandit.log_to(path)
    bandit.decide(CONTEXT)
    before, content = everything(bandit), path.read_bytes()
    write = os.write

    def interrupted(descriptor: int, text: bytes) -> int:
        write(descriptor, text)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        bandit.decide(CONTEXT)
    monkeypatch.undo()
    assert path.read_bytes() == content
    assert everything(bandit) == before


def test_an_interrupt_right_after_writing_leaves_no_line_either(tmp_path: Path) -> None:
    class Interrupted(int):
        def __add__(self, other: int) -> int:
            raise KeyboardInterrupt

    log = LogFile(tmp_path / "log.jsonl")
    log.write({"event": "decision"})
    content, end = (tmp_path / "log.jsonl").read_bytes(), log._end
    log._end = Interrupted(end)
    with pytest.raises(KeyboardInterrupt):
        log.write({"event": "reward"})
    assert (tmp_path / "log.jsonl").read_bytes() == content


def test_many_threads_write_whole_lines(tmp_path: Path) -> None:
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
    told = lines(path)
    assert len(told) == 400
    twin = Bandit(ARMS, policy="ucb1")
    assert twin.learn_from(path).learned == 200
    assert twin.counts == bandit.counts
    assert twin.reward_counts == bandit.reward_counts
