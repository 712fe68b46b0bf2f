"""Learning from logs that a bandit wrote."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glcb import Bandit, ClosedDecision, DuplicateReward
from glcb.bandit import recorded
from tests.support.bandits import ARMS, FAST, counts_of, full_state, visitor
from tests.support.logs import HEADER, Rows, as_jsonl, flat_rows
from tests.support.manual_clock import ManualClock


def learned_state(bandit: Bandit) -> tuple[Any, ...]:
    """Return everything but the random generator."""
    arrays, _, _, _ = full_state(bandit)
    return arrays, bandit.counts, repr(bandit.schema)


def simulate(bandit: Bandit, clock: ManualClock, steps: int, seed: int) -> None:
    """Make decisions with rewards that are delayed, repeated or lost."""
    rng = np.random.default_rng(seed)
    open_ones: list[str] = []
    for _ in range(steps):
        clock.now += float(rng.exponential(1))
        open_ones.append(bandit.decide(visitor(rng)).id)
        while open_ones and rng.random() < 0.6:
            name = open_ones[rng.integers(len(open_ones))]
            if not recorded.is_pending(bandit, name) or rng.random() < 0.2:
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
        {"reward_timeout": 3, "max_pending": 4},
        {"reward_timeout": 20, "default_reward": 0},
        {"reward_timeout": 20, "default_reward": 0, "max_pending": 10},
        {"reward_timeout": 20, "reward_aggregation": "max"},
        {"reward_timeout": 30, "reward_aggregation": "last", "max_pending": 8},
    ],
    ids=str,
)
def test_an_untrained_bandit_learns_the_state_of_the_writer(
    policy: str, late: dict[str, Any], tmp_path: Path
) -> None:
    clock, path = ManualClock(), tmp_path / "log.jsonl"
    writer = Bandit(ARMS, policy=policy, clock=clock, **late)
    writer.log_to(path)
    simulate(writer, clock, 150 if policy == "glcb" else 300, seed=10_000)
    writer.log_to(None)
    reader = Bandit(ARMS, policy=policy, clock=clock, **late)
    report = reader.learn_from(path)
    assert not report.refused, report
    assert report.decisions == writer.counts["decisions"]
    lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    final = [line["id"] for line in lines if line["event"] != "decision" and line.get("final", True)]
    assert report.learned == len(final) == len(set(final))
    writer.settle()
    reader.settle()
    assert reader.counts == writer.counts
    replayed, own = full_state(reader)[0], full_state(writer)[0]
    for name in own:
        assert replayed[name] == own[name], name


def test_glcb_is_replayed_bit_for_bit_and_rewards_continue(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    writer = Bandit(ARMS, rewards=(0.0, 1.0))
    writer.log_to(path)
    rng = np.random.default_rng(10_000)
    pending = []
    for _ in range(150):
        pending.append(writer.decide(visitor(rng)))
        if rng.random() < 0.7:
            writer.reward(pending.pop(rng.integers(len(pending))).id, float(rng.random()))
    writer.log_to(None)
    reader = Bandit(ARMS, rewards=(0.0, 1.0))
    reader.learn_from(path)
    assert learned_state(reader) == learned_state(writer)
    for decision in pending:
        for bandit in (reader, writer):
            bandit.reward(decision.id, 1.0)
    assert learned_state(reader) == learned_state(writer)


def test_after_a_crash_the_saved_model_and_the_log_restore_everything(tmp_path: Path) -> None:
    clock = ManualClock()
    bandit = Bandit(ARMS, clock=clock, reward_timeout=50, reward_aggregation="max", default_reward=0, **FAST)
    simulate(bandit, clock, 100, seed=10_000)
    bandit.save(tmp_path / "model")
    bandit.log_to(tmp_path / "since.jsonl")
    simulate(bandit, clock, 100, seed=10_001)
    for decision in list(bandit._core.pending)[:3]:  # some of them are in the saved model
        bandit.reward(decision.id, 1)
    bandit.log_to(None)
    restored = Bandit.load(tmp_path / "model", clock=clock)
    report = restored.learn_from(tmp_path / "since.jsonl")
    assert not report.refused, report
    assert learned_state(restored) == learned_state(bandit)


def test_a_bandit_with_another_history_maps_the_ids_of_the_log(tmp_path: Path) -> None:
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
    assert reader.counts == counts_of(decisions=11, rewarded=6, pending=5)
    reader.reward(mine.id, 1)


def test_invalid_lines_are_counted_and_skipped(tmp_path: Path) -> None:
    events: Rows = [
        {"event": "decision", "id": "a", "arm": "news", "context": {"age": 3}},
        {"event": "decision", "id": "b", "arm": "weather", "context": {"age": 3}},
        {"event": "decision", "id": "c", "arm": "news", "context": 5},
        {"event": "decision", "id": "d", "arm": "news"},
        {"event": "decision", "id": "e", "arm": "games", "context": {"age": 4}, "propensity": 1.5},
        {"event": "reward", "id": "a", "reward": 7},
        {"event": "reward", "id": "a", "reward": 1, "idempotency_key": "k"},
        {"event": "reward", "id": "a", "reward": 1, "idempotency_key": "k"},
        {"event": "reward", "id": "a", "reward": 0},
        {"event": "reward", "id": "b", "reward": 1},
        {"event": "reward", "id": "a"},
        {"event": "decision", "id": 12, "arm": "games", "context": {"age": 5}},
        {"event": "reward", "id": 12, "reward": 0, "idempotency_key": [1]},
        {"event": "reward", "id": 12, "reward": 0},
    ]
    path = as_jsonl(tmp_path / "log.jsonl", [HEADER, *events])
    path.write_text(path.read_text() + "[1]\n\n" + '{"event":"decision","id":"z","ar')
    bandit = Bandit(ARMS, **FAST)
    report = bandit.learn_from(path)
    assert report.rows == 16
    assert (report.decisions, report.learned) == (2, 2)
    assert report.refused == {
        "unknown arm": 1,
        "invalid context": 2,
        "invalid propensity": 1,
        "invalid reward": 1,
        "duplicate reward": 2,
        "unknown decision": 1,
        "missing reward": 1,
        "invalid value": 1,
        "invalid row": 2,
    }
    assert sum(report.refused.values()) + report.decisions + report.learned == report.rows
    assert bandit.counts == counts_of(decisions=2, rewarded=2)
    assert "row 2: there is no arm 'weather'; the arms are 'sports', 'news', 'games'" in str(report)


def test_memory_is_bounded_by_max_pending(tmp_path: Path) -> None:
    events: Rows = []
    for number in range(500):
        events.append({"event": "decision", "id": f"d{number}", "arm": "news", "context": {"age": number}})
        if number >= 8:
            events.append({"event": "reward", "id": f"d{number - 8}", "reward": 1})
    bandit = Bandit(ARMS, max_pending=5, policy="ucb1")
    report = bandit.learn_from(as_jsonl(tmp_path / "log.jsonl", [HEADER, *events]))
    assert report.learned == 0
    assert report.refused == {"closed decision": 492}
    assert bandit.counts == counts_of(decisions=500, evicted=495, pending=5)


@pytest.mark.parametrize("last", ["reward", "outcome"])
def test_settled_decisions_do_not_displace_a_pending_one(last: str, tmp_path: Path) -> None:
    events: Rows = [{"event": "decision", "id": "d0", "arm": "news", "context": {"age": 0}}]
    for number in range(1, 12):
        events.append({"event": "decision", "id": f"d{number}", "arm": "news", "context": {"age": number}})
        events.append({"event": last, "id": f"d{number}", "reward": 1})
    events.append({"event": last, "id": "d0", "reward": 1})
    events.append({"event": "reward", "id": "d11", "reward": 1})
    bandit = Bandit(ARMS, max_pending=3, policy="ucb1")
    report = bandit.learn_from(as_jsonl(tmp_path / "log.jsonl", [HEADER, *events]))
    assert report.learned == 12
    assert len(report.refused) == 1
    assert report.examples.keys() <= {"duplicate reward", "closed decision"}, report
    assert bandit.counts["pending"] == 0


def test_the_log_of_a_replay_has_the_times_of_the_first_log(tmp_path: Path) -> None:
    clock, late = ManualClock(), {"reward_timeout": 20, **FAST}
    writer = Bandit(ARMS, clock=clock, **late)
    writer.log_to(tmp_path / "first.jsonl")
    simulate(writer, clock, 100, seed=10_000)
    writer.log_to(None)
    clock.now += 1000
    first, second = Bandit(ARMS, clock=clock, **late), Bandit(ARMS, clock=clock, **late)
    first.log_to(tmp_path / "second.jsonl")
    first.learn_from(tmp_path / "first.jsonl")
    first.log_to(None)
    assert not second.learn_from(tmp_path / "second.jsonl").refused
    assert full_state(second) == full_state(first)


def test_replayed_rows_are_logged_too(tmp_path: Path) -> None:
    flat = as_jsonl(tmp_path / "flat.jsonl", flat_rows(40))
    bandit = Bandit(ARMS, **FAST)
    bandit.log_to(tmp_path / "log.jsonl")
    bandit.learn_from(flat)
    bandit.log_to(None)
    twin = Bandit(ARMS, **FAST)
    assert twin.learn_from(tmp_path / "log.jsonl").learned == 40
    replayed, own = full_state(twin)[0], full_state(bandit)[0]
    for name in (name for name in own if not name.startswith("pending")):
        assert replayed[name] == own[name], name
    assert twin.counts == bandit.counts
