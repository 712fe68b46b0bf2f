"""Checks that the event log contains everything acknowledged and replays to the same state."""

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from itertools import pairwise
from typing import Any

from benchmarks.service.traffic import Ledger
from glcb.service.core.experiment import decode_request
from glcb.service.engine.audit import audit_database
from glcb.service.storage.connection import sqlite_url
from glcb.service.storage.database import Database


def audit(ledger: Ledger, events: Sequence[dict[str, Any]]) -> None:
    """Raise unless every acknowledged decision and reward is in the event log, once and unchanged.

    Unacknowledged decisions may be in the log too, at most one for each request without an answer.
    """
    numbers = [event["sequence"] for event in events]
    assert all(a < b for a, b in pairwise(numbers)), "events are out of order"
    decisions = [event for event in events if event["event"] == "decision"]
    rewards = [event for event in events if event["event"] == "reward"]
    _once("decision", [event["id"] for event in decisions])
    _once("reward", [event["id"] for event in rewards])
    logged = {event["id"]: (event["arm"], event["propensity"]) for event in decisions}
    _same("decision", ledger.decisions, logged)
    values = {event["id"]: event["reward"] for event in rewards}
    _same("reward", ledger.rewards, values)
    unacknowledged = len(logged) - len(ledger.decisions)
    assert unacknowledged <= sum("value" not in request.body for request in ledger.unanswered), (
        f"{unacknowledged} unacknowledged decisions, more than unanswered requests"
    )
    unanswered = {request.path.split("/")[-2] for request in ledger.unanswered if "value" in request.body}
    unexpected = set(values) - set(ledger.rewards) - unanswered
    assert not unexpected, f"rewards that were never sent: {sorted(unexpected)[:5]}"


def audit_changes(ledger: Ledger, changes: Sequence[dict[str, Any]], holdout: float) -> None:
    """Raise unless every acknowledged change of settings is in the change history, once and unchanged.

    Parameters
    ----------
    ledger
        The acknowledged requests.
    changes
        The change history, newest first.
    holdout
        The current setting.
    """
    changed = [one for one in changes if one["action"] == "settings_changed"]
    _once("change", [one["reason"] for one in changed])
    values = {one["reason"]: setting["to"] for one in changed for setting in one["changes"][-1:]}
    _same("change", ledger.changes, values)
    unexpected = values.keys() - ledger.changes.keys() - ledger.doubtful_changes.keys()
    assert not unexpected, f"changes that were never sent: {sorted(unexpected)[:5]}"
    assert not changed or values[changed[0]["reason"]] == holdout, (
        "the settings are not those of the last change"
    )


def stored_reasons(store: Sequence[str], experiment: str) -> set[str]:
    """Return the reasons of the changes of settings that the database has as events."""
    with closing(_opened(store)) as database:
        number = database.experiment_id(experiment)
        assert number is not None
        changes = [one for one in database.events(number, 0) if one.kind == "change"]
        return {str(decode_request(one).reason) for one in changes}


def _opened(store: Sequence[str]) -> Database:
    flag, location = store
    return Database(sqlite_url(location) if flag == "--data" else location)


def _once(kind: str, names: Sequence[str]) -> None:
    duplicates = [name for name, count in Counter(names).items() if count > 1]
    assert not duplicates, f"{len(duplicates)} {kind}s are logged more than once: {duplicates[:5]}"


def _same(kind: str, acknowledged: dict[str, Any], logged: dict[str, Any]) -> None:
    lost = [name for name in acknowledged if name not in logged]
    assert not lost, f"{len(lost)} of {len(acknowledged)} acknowledged {kind}s are lost: {lost[:5]}"
    changed = [(name, value, logged[name]) for name, value in acknowledged.items() if value != logged[name]]
    assert not changed, f"{len(changed)} {kind}s differ from the acknowledged ones: {changed[:5]}"


def replay(store: Sequence[str], *, identically: bool = True) -> None:
    """Raise unless ``glcb audit`` in this process finds no damage and, by default, no difference at all."""
    with closing(_opened(store)) as database:
        findings = list(audit_database(database))
    wrong = [one.line for one in findings if not one.ok or (identically and not one.is_identical)]
    assert not wrong, wrong
