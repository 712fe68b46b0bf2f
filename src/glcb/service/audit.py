"""Audit a database: check the chain of events, replay them, and compare every outcome and snapshot."""

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

from glcb._errors import GlcbError, StorageError
from glcb.service.core.experiment import Experiment
from glcb.service.core.models import ExperimentSnapshot
from glcb.service.responses import stored_experiment_info, timestamp
from glcb.service.storage import tables
from glcb.service.storage.chain import Head, checked_events, first_link
from glcb.service.storage.database import Database, Event
from glcb.service.storage.rows import ExperimentRow, Pruned, SnapshotRow
from glcb.service.storage.snapshots import from_first_event, load_snapshot


class Finding(NamedTuple):
    """The result of auditing an experiment."""

    line: str
    ok: bool


class _Result(NamedTuple):
    """What was compared."""

    events: int
    snapshots: int
    pruned: Pruned


def audit_database(database: Database) -> Iterator[Finding]:
    """Replay every experiment; yield whether it agrees with its stored outcomes, links and snapshots.

    Experiments that the high-water mark knows must exist, with all their events.
    """
    try:
        yield from _audit_database(database)
    except Exception as error:  # damaged data can raise anything
        reason = str(error) if isinstance(error, GlcbError) else f"{type(error).__name__}: {error}"
        yield Finding(f"DIFFERENT: the database is damaged: {reason}", False)


def _audit_database(database: Database) -> Iterator[Finding]:
    yield from _audit_pages(database)
    marks: dict[int, Head] | None = None
    if database.marks is not None and database.marks.path.exists():
        try:
            with database.read() as connection:
                database.marks.check_owner(str(tables.read_about(connection, "id")))
            marks, damaged = database.marks.read()  # first: a running service adds events meanwhile
        except StorageError as error:
            yield Finding(f"DIFFERENT: {error}", False)
        else:
            for number in damaged:
                problem = f"the high-water mark of experiment {number} is damaged: {database.marks.path}"
                yield Finding(f"DIFFERENT: {problem}", False)
    rows = database.experiments()
    if not rows and not marks:
        yield Finding("there are no experiments", True)
    yield from _audit_names(database)
    for row in rows:
        try:
            result = _audit_with_retry(database, row, (marks or {}).get(row.id))
        except GlcbError as error:
            yield Finding(f"{row.name}: DIFFERENT: {error}", False)
        except Exception as error:  # damaged data can raise anything
            yield Finding(f"{row.name}: DIFFERENT: {type(error).__name__}: {error}", False)
        else:
            is_marked = marks is None or row.id in marks
            yield Finding(_summary(row, result, is_marked), True)
    existing = database.experiment_ids()
    for number, head in (marks or {}).items():
        if number not in existing:
            yield Finding(f"experiment {number}: DIFFERENT: all its {head.sequence:,} events are lost", False)


def _audit_pages(database: Database) -> Iterator[Finding]:
    """Yield what SQLite itself finds damaged."""
    if database.is_sqlite:
        with database.read() as connection:
            problems = connection.exec_driver_sql("PRAGMA integrity_check(5)").scalars().all()
        for problem in problems:
            if problem != "ok":
                yield Finding(f"DIFFERENT: the SQLite file is damaged: {problem}", False)


def _audit_names(database: Database) -> Iterator[Finding]:
    """Yield what the list of experiments does not show."""
    for number, is_deleted in database.hidden().items():
        if is_deleted:
            yield Finding(f"experiment {number}: deleted; its events are being removed", True)
            continue
        name = ""
        with contextlib.suppress(Exception):  # damaged data can raise anything
            first = database.event(number, 1)
            name = "" if first is None else f" {from_first_event(first).name!r}"
        problem = f"its name{name} is damaged, which hides it, but it was not deleted"
        yield Finding(f"experiment {number}: DIFFERENT: {problem}", False)
    for number, count in database.nameless().items():
        yield Finding(f"experiment {number}: DIFFERENT: it has {count:,} events, but no name", False)


def _summary(row: ExperimentRow, result: _Result, is_marked: bool) -> str:
    pruned = result.pruned
    text = f"{row.name}: {result.events:,} events and {result.snapshots:,} snapshots agree"
    if pruned.sequence:
        text += f"; events 1 to {pruned.sequence:,} were pruned, the last of them at {timestamp(pruned.at)}"
    if not is_marked:
        text += "; the high-water mark does not have it"
    return text


def _audit_with_retry(database: Database, row: ExperimentRow, mark: Head | None) -> _Result:
    """Audit an experiment; once more if a running service has pruned it meanwhile."""
    before = database.pruned(row.id)
    try:
        return _audit_experiment(database, row, mark)
    except GlcbError:
        if database.pruned(row.id) == before:
            raise
    return _audit_experiment(database, row, mark)


def _audit_experiment(database: Database, row: ExperimentRow, mark: Head | None) -> _Result:
    """Return what was compared; raise GlcbError at the first difference."""
    lost = None if mark is None else database.lost_events(row.id, mark)
    if lost is not None:
        raise StorageError(lost)
    pruned = database.pruned(row.id)
    snapshots = [one for one in database.snapshots(row.id) if one.sequence <= row.last_sequence]
    events = _chained(database, row, pruned)
    first = next(events, None)
    if first is None:
        raise StorageError(f"all its events are lost, {row.last_sequence:,} or more")
    replayed, compared = 1, 0
    if first.sequence == 1:
        experiment = from_first_event(first)
    else:  # the first events were pruned: start from the oldest snapshot
        if not snapshots:
            raise StorageError("its first event was pruned, and it has no snapshot")
        experiment = load_snapshot(database, row.id, snapshots[0])
        while first is not None and first.sequence < snapshots[0].sequence:
            first = next(events, None)
            replayed += 1
    if experiment.name != row.name:
        raise StorageError(f"it was created with the name {experiment.name!r}")
    if row.summary and stored_experiment_info(row) is None:
        raise StorageError("the summary of its newest snapshot is damaged")
    while True:
        while snapshots and snapshots[0].sequence == experiment.state.sequence:
            compared += _compare(database, row, experiment, snapshots.pop(0))
        event_or_none = next(events, None)
        if event_or_none is None:
            break
        experiment.replay(event_or_none)
        replayed += 1
    if snapshots:
        raise StorageError(f"there is a snapshot of event {snapshots[0].sequence}, but not this event")
    return _Result(replayed, compared, pruned)


def _chained(database: Database, row: ExperimentRow, pruned: Pruned) -> Iterator[Event]:
    """Yield the events from the first one that was not pruned; raise StorageError at a gap in the chain."""
    link = pruned.link if pruned.sequence else first_link(row.id)
    linked = database.linked_events(row.id, 0, row.last_sequence)
    return checked_events(linked, pruned.sequence + 1, link)


def _compare(database: Database, row: ExperimentRow, experiment: Experiment, snapshot: SnapshotRow) -> int:
    """Compare a snapshot with its digest and with the replayed experiment.

    Return 1, or 0 if a running service has pruned the snapshot meanwhile.
    """
    content = database.snapshot_content(row.id, snapshot.sequence)
    if snapshot not in database.snapshots(row.id):
        return 0
    ExperimentSnapshot.unpack(content, snapshot.digest)  # raises ModelFileError if it is damaged
    if experiment.snapshot().digest() != snapshot.digest:
        raise StorageError(f"the snapshot of event {snapshot.sequence} differs from the replayed state")
    return 1
