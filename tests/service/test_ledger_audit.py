"""The audit that the kill tests rely on detects every kind of loss."""

from typing import Any

import pytest

from benchmarks.service.audit import audit
from benchmarks.service.traffic import Ledger, SentRequest

EVENTS: list[dict[str, Any]] = [
    {"sequence": 2, "event": "decision", "id": "0-a", "arm": "news", "propensity": 0.5},
    {"sequence": 3, "event": "decision", "id": "1-b", "arm": "games", "propensity": 0.25},
    {"sequence": 5, "event": "reward", "id": "0-a", "reward": 1},
]
LEDGER = Ledger(decisions={"0-a": ("news", 0.5), "1-b": ("games", 0.25)}, rewards={"0-a": 1})


def test_a_complete_log_passes() -> None:
    audit(LEDGER, EVENTS)


@pytest.mark.parametrize(
    ("events", "message"),
    [
        (EVENTS[1:], "1 of 2 acknowledged decisions are lost"),
        (EVENTS[:2], "1 of 1 acknowledged rewards are lost"),
        ([*EVENTS, {**EVENTS[1], "sequence": 6}], "1 decisions are logged more than once"),
        ([*EVENTS, {**EVENTS[2], "sequence": 6}], "1 rewards are logged more than once"),
        ([{**EVENTS[0], "arm": "games"}, *EVENTS[1:]], "1 decisions differ"),
        ([*EVENTS[:2], {**EVENTS[2], "reward": 0}], "1 rewards differ"),
        (
            [*EVENTS, {**EVENTS[0], "sequence": 6, "id": "2-c"}],
            "1 unacknowledged decisions",
        ),
        ([*EVENTS, {**EVENTS[2], "sequence": 6, "id": "1-b"}], "rewards that were never sent"),
        ([EVENTS[1], EVENTS[0], EVENTS[2]], "out of order"),
    ],
)
def test_a_wrong_log_fails(events: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        audit(LEDGER, events)


def test_a_decision_without_a_response_may_be_in_the_log() -> None:
    doubtful_ledger = Ledger(
        LEDGER.decisions, LEDGER.rewards, unanswered=[SentRequest("/decisions", {"context": {}})]
    )
    audit(doubtful_ledger, [*EVENTS, {**EVENTS[0], "sequence": 6, "id": "2-c"}])


def test_the_ledger_rejects_two_decisions_for_one_key() -> None:
    ledger, question = Ledger(), SentRequest("/decisions", {"context": {}, "idempotency_key": "visit 7"})
    assert ledger.record(question, 200, b'{"id": "0-a", "arm": "news", "propensity": 0.5}') == "0-a"
    with pytest.raises(AssertionError, match="one key, two decisions"):
        ledger.record(question, 200, b'{"id": "1-b", "arm": "news", "propensity": 0.5}')
