"""Learning from our own logs."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from glcb import Bandit, ClosedDecision, DuplicateReward
from tests.bandit.anybody import ARMS, FAST, everything, visitor
from tests.bandit.clocks import Watch

Rows = list[dict[str, Any]]
ORDER_OF_SETTLING = {"waiting.settled", "waiting.fates", "waiting.settled_keys"}
"""That nothing was learned from a decision in the end is not in the log: its reader finds out later."""


def flat_rows(count: int, seed: int = 10_000) -> Rows:
    rng = np.random.default_rng(seed)
    return [
        {
            "age": int(rng.integers(18, 90)),
            "country": ["FR", "DE", "IT"][rng.integers(3)],
            "spent": None if rng.random() < 0.1 else float(rng.lognormal(3, 1)),
            "arm": ARMS[rng.integers(3)],
            "reward": int(rng.integers(2)),
            "propensity": 1 / 3,
        }
        for _ in range(count)
    ]


def as_jsonl(path: Path, rows: Rows) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def as_csv(path: Path, rows: Rows) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def as_parquet(path: Path, rows: Rows) -> Path:
    parquet.write_table(pa.Table.from_pylist(rows), path)
    return path


def policy_of(bandit: Bandit) -> tuple[Any, ...]:
    """Return what was learned and counted, and who waits, but not the random numbers."""
    arrays, _, _, _ = everything(bandit)
    return arrays, bandit.counts, repr(bandit.schema)


def life(bandit: Bandit, watch: Watch, steps: int, seed: int) -> None:
    """Lead ``bandit`` through decisions with rewards that are late, several, lost, or come twice."""
    rng = np.random.default_rng(seed)
    open_ones: list[str] = []
    for _ in range(steps):
        watch.now += float(rng.exponential(1))
        open_ones.append(bandit.decide(visitor(rng)).id)
        while open_ones and rng.random() < 0.6:
            name = open_ones[rng.integers(len(open_ones))]
            if not bandit.is_pending(name) or rng.random() < 0.2:
                open_ones.remove(name)
                continue
            try:
                bandit.reward(name, float(rng.integers(2)), idempotency_key=f"k{rng.integers(3)}")
            except (ClosedDecision, DuplicateReward):
                open_ones.remove(name)


@pytest.mark.parametrize("policy", ["linucb", "ucb1", "glcb", "lints"])
@pytest.mark.parametrize(
    "late",
    [
        {},
        {"max_pending": 15},
        {"reward_timeout": 20},
        {"reward_timeout": 20, "default_reward": 0, "max_pending": 10},
        {"reward_timeout": 20, "reward_aggregation": "max"},
        {"reward_timeout": 30, "reward_aggregation": "last", "max_pending": 8},
    ],
    ids=str,
)
def test_a_fresh_bandit_learns_all_that_the_writer_knew(
    policy: str, late: dict[str, Any], tmp_path: Path
) -> None:
    watch, path = Watch(), tmp_path / "log.jsonl"
    writer = Bandit(ARMS, policy=policy, clock=watch, **late)
    writer.log_to(path)
    life(writer, watch, 150 if policy == "glcb" else 300, seed=10_000)
    writer.log_to(None)
    reader = Bandit(ARMS, policy=policy, clock=watch, **late)
    report = reader.learn_from(path)
    assert not report.refused, report
    assert report.decisions == writer.counts["decisions"]
    assert report.learned == sum(writer.reward_counts.values())
    writer.settle()
    reader.settle()
    assert reader.counts == writer.counts
    told, own = everything(reader)[0], everything(writer)[0]
    for name in own:
        if name not in ORDER_OF_SETTLING:
            assert told[name] == own[name], name


def test_glcb_too_bit_for_bit_and_rewards_can_go_on(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    writer = Bandit(ARMS, rewards=(0.0, 1.0))
    writer.log_to(path)
    rng = np.random.default_rng(10_000)
    waiting = []
    for _ in range(150):
        waiting.append(writer.decide(visitor(rng)))
        if rng.random() < 0.7:
            writer.reward(waiting.pop(rng.integers(len(waiting))).id, float(rng.random()))
    writer.log_to(None)
    reader = Bandit(ARMS, rewards=(0.0, 1.0))
    reader.learn_from(path)
    assert policy_of(reader) == policy_of(writer)
    for decision in waiting:
        for bandit in (reader, writer):
            bandit.reward(decision.id, 1.0)
    assert policy_of(reader) == policy_of(writer)


def test_after_a_crash_the_saved_model_and_the_log_bring_back_everything(tmp_path: Path) -> None:
    watch = Watch()
    bandit = Bandit(ARMS, clock=watch, reward_timeout=50, reward_aggregation="max", default_reward=0, **FAST)
    life(bandit, watch, 100, seed=10_000)
    bandit.save(tmp_path / "model")
    bandit.log_to(tmp_path / "since.jsonl")
    life(bandit, watch, 100, seed=10_001)
    for name in list(bandit._waiting._waiting)[:3]:  # decisions that the saved model knows of, some of them
        bandit.reward(name, 1)
    bandit.log_to(None)
    restored = Bandit.load(tmp_path / "model", clock=watch)
    report = restored.learn_from(tmp_path / "since.jsonl")
    assert not report.refused, report
    assert policy_of(restored) == policy_of(bandit)


def test_a_bandit_of_another_past_joins_by_the_ids_of_the_log(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    writer = Bandit(ARMS, **FAST)
    writer.log_to(path)
    names = [writer.decide({"age": age}).id for age in range(10)]
    for name in names[:6]:
        writer.reward(name, 1)
    writer.log_to(None)
    reader = Bandit(ARMS, **FAST)
    mine = reader.decide({"age": 50, "country": "FR"})
    report = reader.learn_from(path)
    assert (report.decisions, report.learned, report.refused) == (10, 6, {})
    assert reader.counts == {
        "decisions": 11,
        "rewarded": 6,
        "timed_out": 0,
        "evicted": 0,
        "removed": 0,
        "pending": 5,
    }
    reader.reward(mine.id, 1)


def test_lines_that_cannot_be_are_counted_and_do_not_stop_the_rest(tmp_path: Path) -> None:
    events: Rows = [
        {"event": "decision", "id": "a", "arm": "news", "context": {"age": 3}},
        {"event": "decision", "id": "b", "arm": "weather", "context": {"age": 3}},
        {"event": "decision", "id": "c", "arm": "news", "context": 5},
        {"event": "decision", "id": "d", "arm": "news"},
        {"event": "decision", "id": "e", "arm": "games", "context": {"age": 4}, "propensity": 1.5},
        {"event": "reward", "id": "a", "reward": 7},
        {"event": "reward", "id": "a", "reward": 1, "key": "k"},
        {"event": "reward", "id": "a", "reward": 1, "key": "k"},
        {"event": "reward", "id": "a", "reward": 0},
        {"event": "reward", "id": "b", "reward": 1},
        {"event": "reward", "id": "a"},
        {"event": "decision", "id": 12, "arm": "games", "context": {"age": 5}},
        {"event": "reward", "id": 12, "reward": 0, "key": [1]},
        {"event": "reward", "id": 12, "reward": 0},
    ]
    path = as_jsonl(tmp_path / "log.jsonl", events)
    path.write_text(path.read_text() + "[1]\n\n" + '{"event":"decision","id":"z","ar')
    bandit = Bandit(ARMS, **FAST)
    report = bandit.learn_from(path)
    assert report.rows == 16
    assert (report.decisions, report.learned) == (2, 2)
    assert report.refused == {
        "unknown arm": 1,
        "no usable context": 2,
        "impossible propensity": 1,
        "impossible reward": 1,
        "rewarded already": 2,
        "unknown decision": 1,
        "no reward": 1,
        "impossible": 1,
        "not a record": 2,
    }
    assert sum(report.refused.values()) + report.decisions + report.learned == report.rows
    assert bandit.counts == {
        "decisions": 2,
        "rewarded": 2,
        "timed_out": 0,
        "evicted": 0,
        "removed": 0,
        "pending": 0,
    }
    assert "row 2: there is no arm 'weather'; the arms are 'sports', 'news', 'games'" in str(report)


def test_few_can_wait_and_memory_stays_small(tmp_path: Path) -> None:
    events: Rows = []
    for number in range(500):
        events.append({"event": "decision", "id": f"d{number}", "arm": "news", "context": {"age": number}})
        if number >= 8:
            events.append({"event": "reward", "id": f"d{number - 8}", "reward": 1})
    bandit = Bandit(ARMS, max_pending=5, policy="ucb1")
    report = bandit.learn_from(as_jsonl(tmp_path / "log.jsonl", events))
    assert report.learned == 0
    assert report.refused == {"unknown decision": 492}
    assert bandit.counts == {
        "decisions": 500,
        "rewarded": 0,
        "timed_out": 0,
        "evicted": 495,
        "removed": 0,
        "pending": 5,
    }


@pytest.mark.parametrize("last", ["reward", "outcome"])
def test_one_that_waits_long_is_not_forgotten_for_others_that_had_their_reward(
    last: str, tmp_path: Path
) -> None:
    events: Rows = [{"event": "decision", "id": "d0", "arm": "news", "context": {"age": 0}}]
    for number in range(1, 12):
        events.append({"event": "decision", "id": f"d{number}", "arm": "news", "context": {"age": number}})
        events.append({"event": last, "id": f"d{number}", "reward": 1})
    events.append({"event": last, "id": "d0", "reward": 1})
    events.append({"event": "reward", "id": "d11", "reward": 1})
    bandit = Bandit(ARMS, max_pending=3, policy="ucb1")
    report = bandit.learn_from(as_jsonl(tmp_path / "log.jsonl", events))
    assert report.learned == 12
    assert len(report.refused) == 1
    assert report.examples.keys() <= {"rewarded already", "expired decision"}, report
    assert bandit.counts["pending"] == 0


def test_learning_is_logged_too(tmp_path: Path) -> None:
    flat = as_jsonl(tmp_path / "flat.jsonl", flat_rows(40))
    bandit = Bandit(ARMS, **FAST)
    bandit.log_to(tmp_path / "log.jsonl")
    bandit.learn_from(flat)
    bandit.log_to(None)
    twin = Bandit(ARMS, **FAST)
    assert twin.learn_from(tmp_path / "log.jsonl").learned == 40
    arrays, told = everything(twin)[0], everything(bandit)[0]
    for name in (name for name in told if not name.startswith("waiting")):
        assert arrays[name] == told[name], name
    assert twin.counts == bandit.counts
