"""Comparing what was promised with what is there, and that with what a replay comes to."""

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from itertools import pairwise
from typing import Any

from benchmarks.service.traffic import Ledger
from glcb.service.audit import verify
from glcb.service.storage.database import sqlite_url
from glcb.service.storage.storage import Storage


def audit(ledger: Ledger, events: Sequence[dict[str, Any]]) -> None:
    """Raise unless all that was acknowledged is among the events, once and as promised.

    Beyond it there may be decisions whose answer never came: no more of them than there were such requests.
    """
    numbers = [event["sequence"] for event in events]
    assert all(a < b for a, b in pairwise(numbers)), "events are out of order"
    decisions = [event for event in events if event["event"] == "decision"]
    rewards = [event for event in events if event["event"] == "reward"]
    _once("decision", [event["id"] for event in decisions])
    _once("reward", [event["id"] for event in rewards])
    found = {event["id"]: (event["arm"], event["propensity"]) for event in decisions}
    _same("decision", ledger.decisions, found)
    values = {event["id"]: event["reward"] for event in rewards}
    _same("reward", ledger.rewards, values)
    unasked = len(found) - len(ledger.decisions)
    assert unasked <= sum("value" not in question.body for question in ledger.doubtful), (
        f"{unasked} decisions that nobody can have asked for"
    )
    in_doubt = {question.path.split("/")[-2] for question in ledger.doubtful if "value" in question.body}
    strange = set(values) - set(ledger.rewards) - in_doubt
    assert not strange, f"rewards that nobody sent: {sorted(strange)[:5]}"


def _once(what: str, names: Sequence[str]) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    assert not twice, f"{len(twice)} times a {what} twice: {twice[:5]}"


def _same(what: str, promised: dict[str, Any], found: dict[str, Any]) -> None:
    lost = [name for name in promised if name not in found]
    assert not lost, f"{len(lost)} of {len(promised)} acknowledged {what}s are lost: {lost[:5]}"
    changed = [(name, promised[name], found[name]) for name in promised if promised[name] != found[name]]
    assert not changed, f"{len(changed)} {what}s differ from what was acknowledged: {changed[:5]}"


def replay(store: Sequence[str]) -> None:
    """Raise unless all events, applied again in this process, lead to what is on record (``glcb verify``)."""
    flag, place = store
    with closing(Storage(sqlite_url(place) if flag == "--data" else place)) as storage:
        different = [finding.line for finding in verify(storage) if not finding.ok]
    assert not different, different
