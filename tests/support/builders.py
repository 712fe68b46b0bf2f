"""Experiments and databases for tests that need no server."""

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from glcb._api.requests import Creation, DecisionRequest, ExperimentSettings, RewardItem
from glcb._api.responses import Decision
from glcb.service.core.experiment import Experiment
from glcb.service.core.idempotency import RepeatedAnswer
from glcb.service.engine.audit import Finding, audit_database
from glcb.service.engine.snapshots import from_first_event
from glcb.service.errors import ApiError
from glcb.service.events import Event
from glcb.service.storage.connection import sqlite_url
from glcb.service.storage.database import Database


def open_test_database(folder: Path) -> Database:
    return Database(sqlite_url(folder / "glcb.db"))


def event(sequence: int, at: float = 0.0) -> Event:
    """Return an event for tests of storage, which does not look inside."""
    return Event(sequence, at, "decide", b"request", b"outcome")


def replay(events: Sequence[Event], restart: int = 0) -> Experiment:
    """Return the experiment that results from events, saved and loaded again after the event ``restart``."""
    experiment = from_first_event(events[0])
    for event in events[1:]:
        experiment.recover(event)
        if event.sequence == restart:
            experiment = Experiment.from_snapshot(experiment.snapshot())
    return experiment


def sql(folder: Path, *statements: str) -> list[Any]:
    """Run SQL statements on the database of a folder, past the service; return the rows of the last one."""
    with contextlib.closing(sqlite3.connect(folder / "glcb.db")) as connection, connection:
        for statement in statements:
            cursor = connection.execute(statement)
            rows = cursor.fetchall()
            assert rows or cursor.rowcount, f"{statement} changes nothing"
    return rows


def findings(folder: Path) -> list[Finding]:
    """Return what the audit finds in the database of a folder."""
    with contextlib.closing(open_test_database(folder)) as database:
        return list(audit_database(database))


@contextlib.contextmanager
def rejected(code: str) -> Iterator[None]:
    """Expect that the service rejects a request with an error code."""
    with pytest.raises(ApiError) as caught:
        yield
    assert caught.value.code == code


def settings(**changes: Any) -> ExperimentSettings:
    return ExperimentSettings(**{"arms": ["a", "b", "c"], "policy": "linucb", **changes})


class RecordedExperiment:
    """An experiment together with all its events."""

    def __init__(self, id_prefix: str = "", **changes: Any) -> None:
        self.now = 1_000_000.0
        creation = Creation(
            name="home",
            salt="always the same",
            id_prefix=id_prefix,
            settings=settings(**changes),
        )
        self.experiment, first = Experiment.create(creation, self.now)
        self.events: list[Event] = [first]

    def apply(self, kind: str, request: Any, author: str | None = None) -> bytes:
        self.now += 1
        event, answer = self.experiment.apply(kind, request, self.now, author=author)
        if event is not None:
            self.events.append(event)
        return self.events[answer.sequence - 1].outcome if isinstance(answer, RepeatedAnswer) else answer

    def decide(self, context: Any, **more: Any) -> Decision:
        answer = self.apply("decide", DecisionRequest(context=context, **more))
        return msgspec.json.decode(answer, type=Decision)

    def reward(self, decision: str, value: float, **more: Any) -> bytes:
        return self.apply("reward", RewardItem(id=decision, value=value, **more))
