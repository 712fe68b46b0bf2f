"""Deciding for many contexts gives the same decisions as deciding one by one."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glcb import Bandit, InvalidContext, LogError, UnknownArm
from tests.support.bandits import ARMS, FAST, full_state, run, visitor
from tests.support.logs import full_disk

VISITORS = [visitor(np.random.default_rng(seed)) for seed in range(40)]
TABLE = [
    {"age": 31.0 + i, "country": ["FR", "DE"][i % 2], "member": i % 3 == 0, "visits": i} for i in range(20)
]


@pytest.mark.parametrize("policy", ["glcb", "linucb", "lints"])
@pytest.mark.parametrize("steps", [0, 30])
@pytest.mark.parametrize("eligible", [None, ["sports", "games"]])
def test_many_decisions_equal_single_decisions(policy: str, steps: int, eligible: Any) -> None:
    many, single = (run(Bandit(ARMS, policy=policy), steps) for _ in range(2))
    decisions = many.decide_many(VISITORS, eligible=eligible)
    expected = [single.decide(context, eligible=eligible) for context in VISITORS]
    assert [(d.arm, d.id, d.propensity) for d in decisions] == [(d.arm, d.id, d.propensity) for d in expected]
    for decision, other in zip(decisions, expected, strict=True):
        assert decision.values.tobytes() == other.values.tobytes()
        assert decision.arm_probabilities.tobytes() == other.arm_probabilities.tobytes()
    assert full_state(many) == full_state(single)


@pytest.mark.parametrize("form", [list, tuple, iter])
def test_any_iterable_gives_the_same_decisions(form: Any) -> None:
    many, single = Bandit(ARMS, **FAST), Bandit(ARMS, **FAST)
    many.decide_many(form(TABLE))
    for row in TABLE:
        single.decide(row)
    assert full_state(many) == full_state(single)


def test_a_frame_is_decided_like_its_rows(frames: Any) -> None:
    frame = frames.DataFrame(TABLE)
    rows = frame.iloc if hasattr(frame, "iloc") else frame
    many, single, dicts = (Bandit(ARMS, **FAST) for _ in range(3))
    many.decide_many(frame)
    for i, row in enumerate(TABLE):
        single.decide(rows[i])
        dicts.decide(row)
    assert full_state(many) == full_state(single) == full_state(dicts)
    if hasattr(frame, "itertuples"):
        tuples = Bandit(ARMS, **FAST)
        tuples.decide_many(frame.itertuples(index=False))
        assert full_state(tuples) == full_state(many)


@pytest.mark.parametrize("form", [np.array, list, lambda rows: [np.array(row) for row in rows]])
def test_arrays_have_one_context_per_row(form: Any) -> None:
    rows = np.random.default_rng(0).normal(size=(15, 3)).tolist()
    many, single = Bandit(ARMS, **FAST), Bandit(ARMS, **FAST)
    many.decide_many(form(rows))
    for row in rows:
        single.decide(row)
    assert full_state(many) == full_state(single)


@pytest.mark.parametrize("steps", [0, 20])
@pytest.mark.parametrize(
    "invalid", [None, 5, [1, 2], {1.5: 1}, {"x": 1, 7: 1, "7": 1}, [[1]]], ids=lambda value: str(value)
)
def test_an_invalid_row_is_named_and_nothing_is_decided(steps: int, invalid: Any) -> None:
    bandit = run(Bandit(ARMS, **FAST), steps)
    before = full_state(bandit)
    for position in (0, 3, 8):
        contexts = [*VISITORS[:position], invalid, *VISITORS[position:8]]
        if steps == 0 and position == 0 and isinstance(invalid, list) and invalid == [1, 2]:
            continue  # a valid first context
        with pytest.raises(InvalidContext, match=f"^row {position}: "):
            bandit.decide_many(contexts)
    assert full_state(bandit) == before
    assert bandit.schema is None or steps


def test_unknown_arms_change_nothing() -> None:
    bandit = Bandit(ARMS, **FAST)
    with pytest.raises(UnknownArm):
        bandit.decide_many(VISITORS, eligible=["weather"])
    assert bandit.counts["decisions"] == 0


@pytest.mark.parametrize("contexts", [None, 5, "text", b"text", {"age": 3}, np.zeros(3), np.zeros((2, 2, 2))])
def test_other_objects_are_not_lists_of_contexts(contexts: Any) -> None:
    with pytest.raises(InvalidContext, match="contexts"):
        Bandit(ARMS, **FAST).decide_many(contexts)


@pytest.mark.parametrize("empty", [[], np.zeros((0, 3))], ids=["list", "array"])
def test_no_contexts_give_no_decisions(empty: Any) -> None:
    bandit = Bandit(ARMS, **FAST)
    assert bandit.decide_many(empty) == []
    assert bandit.schema is None


def test_an_empty_frame_gives_no_decisions(frames: Any) -> None:
    test_no_contexts_give_no_decisions(frames.DataFrame())


def test_decisions_before_a_full_disk_remain(tmp_path: Path) -> None:
    bandit, path = Bandit(ARMS, **FAST), tmp_path / "log.jsonl"
    bandit.log_to(path)
    with full_disk(1500), pytest.raises(LogError):
        bandit.decide_many(VISITORS)
    bandit.log_to(None)
    reader = Bandit(ARMS, **FAST)
    assert 0 < reader.learn_from(path).decisions == bandit.counts["decisions"] < len(VISITORS)
