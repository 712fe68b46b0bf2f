"""The comparison that the kills rely on finds what it should."""

from typing import Any

import pytest

from benchmarks.service.audit import audit
from benchmarks.service.traffic import Ledger, Question

EVENTS: list[dict[str, Any]] = [
    {"sequence": 2, "event": "decision", "id": "0-a", "arm": "news", "propensity": 0.5},
    {"sequence": 3, "event": "decision", "id": "1-b", "arm": "games", "propensity": 0.25},
    {"sequence": 5, "event": "reward", "id": "0-a", "reward": 1},
]
PROMISES = Ledger(decisions={"0-a": ("news", 0.5), "1-b": ("games", 0.25)}, rewards={"0-a": 1})


def test_what_was_promised_is_there() -> None:
    audit(PROMISES, EVENTS)


@pytest.mark.parametrize(
    ("events", "complaint"),
    [
        (EVENTS[1:], "1 of 2 acknowledged decisions are lost"),
        (EVENTS[:2], "1 of 1 acknowledged rewards are lost"),
        ([*EVENTS, {**EVENTS[1], "sequence": 6}], "1 times a decision twice"),
        ([*EVENTS, {**EVENTS[2], "sequence": 6}], "1 times a reward twice"),
        ([{**EVENTS[0], "arm": "games"}, *EVENTS[1:]], "1 decisions differ"),
        ([*EVENTS[:2], {**EVENTS[2], "reward": 0}], "1 rewards differ"),
        ([*EVENTS, {**EVENTS[0], "sequence": 6, "id": "2-c"}], "1 decisions that nobody can have asked for"),
        ([*EVENTS, {**EVENTS[2], "sequence": 6, "id": "1-b"}], "rewards that nobody sent"),
        ([EVENTS[1], EVENTS[0], EVENTS[2]], "out of order"),
    ],
)
def test_what_is_wrong_is_found(events: list[dict[str, Any]], complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        audit(PROMISES, events)


def test_a_decision_whose_answer_never_came_may_be_there() -> None:
    in_doubt = Ledger(
        PROMISES.decisions, PROMISES.rewards, doubtful=[Question("/decisions", {"context": {}})]
    )
    audit(in_doubt, [*EVENTS, {**EVENTS[0], "sequence": 6, "id": "2-c"}])


def test_the_ledger_notices_one_key_with_two_decisions() -> None:
    ledger, asked = Ledger(), Question("/decisions", {"context": {}, "idempotency_key": "visit 7"})
    assert ledger.take(asked, 200, b'{"id": "0-a", "arm": "news", "propensity": 0.5}') == "0-a"
    with pytest.raises(AssertionError, match="one key, two decisions"):
        ledger.take(asked, 200, b'{"id": "1-b", "arm": "news", "propensity": 0.5}')
