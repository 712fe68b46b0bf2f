"""Audit a database: check the chain of events, make every decision again, and compare it with the record.

There are two kinds of problems. Damage is an event that is missing, altered or unreadable. A difference
is a decision, or a snapshot, that is computed differently now. On another processor, or with other versions
of the libraries, differences are expected: they are reported, and the audit goes on with what was recorded.
"""

import contextlib
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np

from glcb._api.requests import SetAside
from glcb._environment import environment
from glcb._errors import GlcbError, MissingExtra, StorageError
from glcb.service.core.experiment import DECISIONS, Experiment, decode_request
from glcb.service.core.models import ExperimentSnapshot
from glcb.service.core.records import DecisionRecord, decode_record, encode_record
from glcb.service.engine.snapshots import from_first_event, load_snapshot
from glcb.service.engine.summaries import stored_experiment_info
from glcb.service.events import Event
from glcb.service.process.clock import timestamp
from glcb.service.storage import tables
from glcb.service.storage.chain import Head, checked_events, first_link
from glcb.service.storage.database import Database
from glcb.service.storage.rows import ExperimentRow, Pruned, SnapshotRow

DAMAGED, DIFFERENT, NOT_AUDITED = 1, 2, 3
"""Exit codes: something is missing or unreadable; results differ on the processor that wrote them; or a
library, or memory, is missing here."""
_ROUNDING = 1e-3
"""Probabilities, and values relative to the range of rewards, that differ by less differ by rounding."""


class Finding(NamedTuple):
    """The result of auditing an experiment."""

    line: str
    exit_code: int = 0
    is_identical: bool = True
    """Whether everything was computed again bit for bit."""

    @property
    def ok(self) -> bool:
        """Whether nothing needs attention."""
        return self.exit_code == 0


class _Comparison:
    """What was compared, and what differs."""

    def __init__(self, pruned: Pruned) -> None:
        self.events = 1
        self.snapshots = 0
        self.pruned = pruned
        self._largest = 0.0
        """The largest difference that is rounding."""
        self._rounded = 0
        self._different = 0
        self._first = ""
        """The first difference that is not rounding."""
        self._others: list[dict[str, str]] = []
        """Writers with another processor or other versions."""
        self._expects_differences = False
        """Whether the state depends on what another writer has learned."""
        self._fails = False
        """Whether something is different although everything was written here."""

    def add_writer(self, writer: dict[str, str]) -> None:
        """Note who wrote the next event."""
        if writer != environment():
            self._expects_differences = True
            if writer not in self._others:
                self._others.append(writer)

    def continue_from_snapshot(self) -> None:
        """Note that the audit continues from a snapshot, so that earlier writers do not matter."""
        self._expects_differences = False

    def add(self, difference: float, text: str) -> None:
        """Add a difference; infinite if more than numbers differ."""
        if difference <= _ROUNDING:
            self._rounded += 1
            self._largest = max(self._largest, difference)
        else:
            self._different += 1
            self._first = self._first or text
            self._fails |= not self._expects_differences

    def finding(self, name: str, note: str) -> Finding:
        """Return the result."""
        compared = f"{name}: {self.events:,} events and {self.snapshots:,} snapshots"
        pruned = self.pruned
        if pruned.sequence:
            note = (
                f"; events 1 to {pruned.sequence:,} were pruned, the last of them at {timestamp(pruned.at)}"
                + note
            )
        written = "".join(f"; written with {_describe(one)}" for one in self._others)
        if self._different:
            line = f"{compared}: {self._different:,} are DIFFERENT; {self._first}{written}{note}"
            return Finding(line, DIFFERENT if self._fails else 0, False)
        if self._rounded:
            line = f"{compared} are identical within rounding, at most {self._largest:.1g}{written}{note}"
            return Finding(line, 0, False)
        return Finding(f"{compared} are identical{written}{note}")


def _describe(writer: dict[str, str]) -> str:
    """Return what a writer has that is different here."""
    here = environment()
    return ", ".join(f"{name} {value}" for name, value in writer.items() if value != here.get(name))


def audit_database(database: Database) -> Iterator[Finding]:
    """Audit every experiment; yield what was found.

    Experiments that the high-water mark knows must exist, with all their events.
    """
    try:
        yield from _audit_database(database)
    except Exception as error:  # damaged data can raise anything
        reason = str(error) if isinstance(error, GlcbError) else f"{type(error).__name__}: {error}"
        yield Finding(f"DAMAGED: the database cannot be read: {reason}", DAMAGED, False)


def _audit_database(database: Database) -> Iterator[Finding]:
    yield from _audit_pages(database)
    marks: dict[int, Head] | None = None
    if database.marks is not None and database.marks.path.exists():
        try:
            with database.read() as connection:
                database.marks.check_owner(str(tables.read_about(connection, "id")))
            marks, damaged = database.marks.read()  # first: a running service adds events meanwhile
        except StorageError as error:
            yield Finding(f"DAMAGED: {error}", DAMAGED, False)
        else:
            for number in damaged:
                problem = f"the high-water mark of experiment {number} is damaged: {database.marks.path}"
                yield Finding(f"DAMAGED: {problem}", DAMAGED, False)
    rows = database.experiments()
    if not rows and not marks:
        yield Finding("there are no experiments")
    yield from _audit_names(database)
    for row in rows:
        try:
            result = _audit_with_retry(database, row, (marks or {}).get(row.id))
        except (MissingExtra, MemoryError, OSError) as error:
            problem = str(error) or type(error).__name__
            yield Finding(f"{row.name}: cannot be audited here: {problem}", NOT_AUDITED, False)
        except GlcbError as error:
            if isinstance(error.__cause__, MissingExtra):
                yield Finding(f"{row.name}: cannot be audited here: {error.__cause__}", NOT_AUDITED, False)
            else:
                yield Finding(f"{row.name}: DAMAGED: {error}", DAMAGED, False)
        except Exception as error:  # damaged data can raise anything
            yield Finding(f"{row.name}: DAMAGED: {type(error).__name__}: {error}", DAMAGED, False)
        else:
            is_marked = marks is None or row.id in marks
            yield result.finding(row.name, "" if is_marked else "; the high-water mark does not have it")
    existing = database.experiment_ids()
    for number, head in (marks or {}).items():
        if number not in existing:
            yield Finding(
                f"experiment {number}: DAMAGED: all its {head.sequence:,} events are lost", DAMAGED, False
            )


def _audit_pages(database: Database) -> Iterator[Finding]:
    """Yield what SQLite itself finds damaged."""
    if database.is_sqlite:
        with database.read() as connection:
            problems = connection.exec_driver_sql("PRAGMA integrity_check(5)").scalars().all()
        for problem in problems:
            if problem != "ok":
                yield Finding(f"DAMAGED: the SQLite file is damaged: {problem}", DAMAGED, False)


def _audit_names(database: Database) -> Iterator[Finding]:
    """Yield what the list of experiments does not show."""
    for number, is_deleted in database.hidden().items():
        if is_deleted:
            yield Finding(f"experiment {number}: deleted; its events are being removed")
            continue
        name = ""
        with contextlib.suppress(Exception):  # damaged data can raise anything
            first = database.event(number, 1)
            name = "" if first is None else f" {from_first_event(first).name!r}"
        problem = f"its name{name} is damaged, which hides it, but it was not deleted"
        yield Finding(f"experiment {number}: DAMAGED: {problem}", DAMAGED, False)
    for number, count in database.nameless().items():
        yield Finding(f"experiment {number}: DAMAGED: it has {count:,} events, but no name", DAMAGED, False)


def _audit_with_retry(database: Database, row: ExperimentRow, mark: Head | None) -> _Comparison:
    """Audit an experiment; once more if a running service has pruned it meanwhile."""
    before = database.pruned(row.id)
    try:
        return _audit_experiment(database, row, mark)
    except GlcbError:
        if database.pruned(row.id) == before:
            raise
    return _audit_experiment(database, row, mark)


def _audit_experiment(database: Database, row: ExperimentRow, mark: Head | None) -> _Comparison:
    """Return what was compared; raise GlcbError if something is damaged."""
    lost = None if mark is None else database.lost_events(row.id, mark)
    if lost is not None:
        raise StorageError(lost)
    compared = _Comparison(database.pruned(row.id))
    snapshots = [one for one in database.snapshots(row.id) if one.sequence <= row.last_sequence]
    events = _chained(database, row, compared.pruned)
    first = next(events, None)
    if first is None:
        raise StorageError(f"all its events are lost, {row.last_sequence:,} or more")
    if first.sequence == 1:
        experiment = from_first_event(first)
    else:  # the first events were pruned: start from the oldest snapshot
        if not snapshots:
            raise StorageError("its first event was pruned, and it has no snapshot")
        experiment = load_snapshot(database, row.id, snapshots[0])
        while first is not None and first.sequence < snapshots[0].sequence:
            first = next(events, None)
            compared.events += 1
    if experiment.name != row.name:
        raise StorageError(f"it was created with the name {experiment.name!r}")
    if row.summary and stored_experiment_info(row) is None:
        raise StorageError("the summary of its newest snapshot is damaged")
    while True:
        while snapshots and snapshots[0].sequence == experiment.state.sequence:
            experiment = _compare_snapshot(database, row, experiment, snapshots.pop(0), compared)
        event_or_none = next(events, None)
        if event_or_none is None:
            break
        if event_or_none.kind in DECISIONS and event_or_none.sequence == experiment.state.sequence + 1:
            _compare_decision(experiment, event_or_none, compared)
        if event_or_none.kind == "set_aside":
            _check_set_aside(database, event_or_none)
        experiment.recover(event_or_none)
        compared.events += 1
    if snapshots:
        raise StorageError(f"there is a snapshot of event {snapshots[0].sequence}, but not this event")
    return compared


def _chained(database: Database, row: ExperimentRow, pruned: Pruned) -> Iterator[Event]:
    """Yield the events from the first one that was not pruned; raise StorageError at a gap in the chain."""
    link = pruned.link if pruned.sequence else first_link(row.id)
    linked = database.linked_events(row.id, 0, row.last_sequence)
    return checked_events(linked, pruned.sequence + 1, link)


def _compare_decision(experiment: Experiment, event: Event, compared: _Comparison) -> None:
    """Make a decision again, and compare the answer and the record. The decision is not counted."""
    compared.add_writer(experiment.state.writer)
    stored = decode_record(event.record)
    try:
        answer, record = experiment.preview(event)
    except GlcbError as error:
        compared.add(math.inf, f"event {event.sequence} was a decision, but is an error here: {error}")
        return
    if answer == event.outcome and encode_record(record) == event.record:
        return
    low, high = experiment.reward_range
    expected = _Parts(event.outcome, stored, high - low)
    got = _Parts(answer, record, high - low)
    difference = math.inf
    if expected.others == got.others:
        pairs = zip(expected.numbers, got.numbers, strict=True)
        difference = max((abs(one - other) / max(1.0, abs(one)) for one, other in pairs), default=0.0)
    text = f"event {event.sequence}: expected {_summary(stored)}, got {_summary(record)}"
    compared.add(difference, text)


class _Parts:
    """An answer and its record in two lists: the numbers, and everything else."""

    def __init__(self, answer: bytes, record: DecisionRecord, unit: float) -> None:
        self.numbers: list[float] = []
        """Values are relative to the range of rewards."""
        self.others: list[Any] = []
        slots = [msgspec.structs.replace(one, values=[v / unit for v in one.values]) for one in record.slots]
        self._add(msgspec.to_builtins(msgspec.structs.replace(record, slots=slots)))
        self._add(msgspec.json.decode(answer))

    def _add(self, value: Any) -> None:
        if isinstance(value, float):
            self.numbers.append(value)
            self.others.append(float)
        elif isinstance(value, dict | list | tuple):
            self.others.append(len(value))
            for name, item in value.items() if isinstance(value, dict) else enumerate(value):
                self.others.append(name)
                self._add(item)
        else:
            self.others.append(value)


def _check_set_aside(database: Database, event: Event) -> None:
    """Raise StorageError unless the events that a recovery has set aside are all there, unchanged."""
    request: SetAside = decode_request(event)
    if database.digest_of(request.id_prefix) != (request.events, request.digest):
        raise StorageError(f"events that were set aside by event {event.sequence} are missing or altered")


def _summary(record: DecisionRecord) -> str:
    slots = ", ".join(f"{slot.arm!r} with propensity {slot.propensity!r}" for slot in record.slots[:3])
    return f"{record.id}: {slots}"


def _compare_snapshot(
    database: Database,
    row: ExperimentRow,
    experiment: Experiment,
    snapshot: SnapshotRow,
    compared: _Comparison,
) -> Experiment:
    """Compare a snapshot with its digest and with the experiment; return what the audit continues with."""
    content = database.snapshot_content(row.id, snapshot.sequence)
    if snapshot not in database.snapshots(row.id):
        return experiment  # a running service has pruned it meanwhile
    stored = ExperimentSnapshot.unpack(content, snapshot.digest)  # raises ModelFileError if it is damaged
    compared.snapshots += 1
    computed = experiment.snapshot()
    if computed.digest() != snapshot.digest:
        compared.add_writer(experiment.state.writer)
        text = f"the snapshot of event {snapshot.sequence} has other numbers"
        compared.add(_difference(stored, computed), text)
        experiment = Experiment.from_snapshot(stored)
    compared.continue_from_snapshot()
    return experiment


def _difference(first: ExperimentSnapshot, second: ExperimentSnapshot) -> float:
    """Return the largest difference of what was learned; infinite if anything else differs."""
    if first.digest(learned=False) != second.digest(learned=False):
        return math.inf
    largest = 0.0
    for name, one in first.bandit.arrays.items():
        other = second.bandit.arrays[name]
        if one.tobytes() == other.tobytes():
            continue
        if one.shape != other.shape:
            return math.inf
        if not (np.isfinite(one).all() and np.isfinite(other).all()):
            return math.inf
        scale = max(float(np.abs(one).max()), 1.0)
        largest = max(largest, float(np.abs(one.astype(np.float64) - other).max()) / scale)
    return largest
