"""Save experiments as snapshots, and restore them from the newest snapshot and the events after it."""

import logging
import math
import time
from typing import NamedTuple

import msgspec

from glcb._api.requests import Creation, SetAside, encode
from glcb._api.responses import ExperimentInfo
from glcb._environment import environment
from glcb._errors import GlcbError, MissingExtra, ModelFileError, StorageError
from glcb.bandit.records import random_prefix
from glcb.service.config import ServiceSettings
from glcb.service.core.experiment import CorruptLog, Experiment
from glcb.service.core.models import ExperimentSnapshot
from glcb.service.events import Event
from glcb.service.process.clock import Clock
from glcb.service.storage.chain import BrokenChain, checked_events, first_link
from glcb.service.storage.database import Database
from glcb.service.storage.rows import SnapshotRow

log = logging.getLogger("glcb.service")

_CREATION = msgspec.json.Decoder(Creation)
_DAY_SECONDS = 86_400


def save(
    database: Database,
    experiment: int,
    snapshot: ExperimentSnapshot,
    info: ExperimentInfo,
    settings: ServiceSettings,
    clock: Clock,
) -> None:
    """Write a snapshot of an experiment, then prune older snapshots and, if the time is certain, events."""
    now = clock()
    row = SnapshotRow(snapshot.sequence, now, snapshot.digest(), 0)
    database.save_snapshot(experiment, row, snapshot.pack(), encode(info))
    before = now - settings.event_retention_days * _DAY_SECONDS if clock.is_settled else -math.inf
    database.prune(experiment, settings.keep_snapshots, before, now)


class ReplayStopped(Exception):
    """A replay was stopped before its last event."""


class Replay:
    """The progress of a replay in another thread, which can be stopped.

    Parameters
    ----------
    events
        How many events are expected.
    """

    def __init__(self, events: int = 0) -> None:
        self.events = events
        """Number of events to replay."""
        self.done = 0
        """Number of events that have been replayed."""
        self.seconds = 0.0
        """How long the replay took, once it has ended."""
        self.has_begun = False
        """Whether it has had its turn."""
        self.is_stopped = False

    def stop(self) -> None:
        """Let the replay raise ReplayStopped before its next event."""
        self.is_stopped = True

    def run(
        self, experiment: Experiment, database: Database, number: int, up_to: int | None = None
    ) -> Experiment:
        """Apply the events after those of a restored snapshot, by default all; return the experiment."""
        started, first = time.perf_counter(), experiment.state.sequence
        last = database.last_sequence(number) if up_to is None else up_to
        self.events = last - first
        link = database.link(number, first)
        if link is None:
            raise CorruptLog(f"event {first} is missing", database.last_sequence(number, before=first))
        events = checked_events(database.linked_events(number, first, up_to), first + 1, link)
        try:
            for event in events:
                if self.is_stopped:
                    raise ReplayStopped
                experiment.recover(event)
                self.done += 1
        except BrokenChain as error:
            raise CorruptLog(str(error), experiment.state.sequence) from error
        self.seconds = time.perf_counter() - started
        return experiment


def restore(
    database: Database, experiment: int, replay: Replay, up_to: int | None = None
) -> tuple[Experiment, int]:
    """Restore an experiment; return it and the sequence number of the snapshot used.

    A damaged snapshot is skipped in favor of an earlier one, or of the first event.

    Parameters
    ----------
    database
        Where the experiment is stored.
    experiment
        The id of the experiment.
    replay
        Replays the events after the snapshot.
    up_to
        The last event to restore; by default, the last one that was acknowledged.

    Raises
    ------
    ReplayStopped
        The replay was stopped.
    CorruptLog
        An event is missing, was altered, or cannot be applied. This is permanent.
    StorageError
        The database cannot be read, or there is not enough memory. This may be temporary.
    """
    try:
        lost = database.lost_events(experiment) if up_to is None else None
        if lost is not None:
            raise CorruptLog(lost, database.last_sequence(experiment))
        return _restore(database, experiment, replay, up_to)
    except MemoryError as error:
        raise StorageError("there is not enough memory to load the experiment: retry") from error
    except OSError as error:
        raise StorageError(f"the experiment cannot be loaded now: {error}: retry") from error


def _restore(
    database: Database, experiment: int, replay: Replay, up_to: int | None
) -> tuple[Experiment, int]:
    for row in reversed(database.snapshots(experiment)):
        if up_to is not None and row.sequence > up_to:
            continue
        try:
            restored = load_snapshot(database, experiment, row)
        except (StorageError, MissingExtra, MemoryError, OSError):
            raise  # the snapshot is not to blame
        except Exception as error:  # whatever is wrong with a snapshot, the events may be complete
            log.error("snapshot is damaged", extra={"sequence": row.sequence, "reason": str(error)})
        else:
            return replay.run(restored, database, experiment, up_to), row.sequence
    try:
        first = next(
            checked_events(database.linked_events(experiment, 0, 1), 1, first_link(experiment)), None
        )
    except BrokenChain as error:
        raise CorruptLog(str(error)) from error
    if first is None:
        raise CorruptLog("its first event is missing, and it has no usable snapshot")
    return replay.run(from_first_event(first), database, experiment, up_to), 0


class LastGood(NamedTuple):
    """A damaged experiment in its last good state."""

    experiment: Experiment
    damage: CorruptLog
    """What is wrong with the next event."""


def last_good(database: Database, experiment: int) -> LastGood | None:
    """Return the last good state of an experiment; None if it is not damaged any more.

    Raises
    ------
    CorruptLog
        There is no good state.
    """
    damage: CorruptLog | None = None
    sequence: int | None = None
    while True:  # before the last event that exists, another one can be damaged
        try:
            restored, _ = restore(database, experiment, Replay(), sequence)
        except CorruptLog as error:
            if not error.last_good:
                raise CorruptLog(f"there is no state to continue from: {error}") from error
            damage, sequence = damage or error, error.last_good
        else:
            return None if damage is None else LastGood(restored, damage)


def set_aside(
    database: Database, experiment: int, good: LastGood, now: float, author: str | None = None
) -> None:
    """Let a damaged experiment continue from its last good state, without the events after it.

    They are kept in a table of their own, and the event that takes their place has a digest of them. Ids get
    a new prefix, so that rewards of decisions that were set aside are those of unknown decisions.
    """
    count, digest = database.digest_after(experiment, good.experiment.state.sequence)
    request = SetAside(
        id_prefix=random_prefix(),
        writer=environment(),
        reason=str(good.damage),
        last=max(database.last_sequence(experiment), database.known_sequence(experiment)),
        events=count,
        digest=digest,
    )
    event, _ = good.experiment.apply("set_aside", request, now, author=author)
    assert event is not None  # it always is an event
    database.set_aside(experiment, event, request.id_prefix)


def load_snapshot(database: Database, experiment: int, row: SnapshotRow) -> Experiment:
    """Return an experiment as of a snapshot; raise ModelFileError if the snapshot is damaged."""
    content = database.snapshot_content(experiment, row.sequence)
    snapshot = ExperimentSnapshot.unpack(content, row.digest)
    if snapshot.sequence != row.sequence:
        raise ModelFileError(f"the snapshot of event {row.sequence} contains event {snapshot.sequence}")
    try:
        return Experiment.from_snapshot(snapshot)
    except ModelFileError as error:
        if isinstance(error.__cause__, MemoryError):  # the snapshot is not to blame
            raise error.__cause__ from None
        raise


def from_first_event(event: Event) -> Experiment:
    """Return the experiment that an event created; raise CorruptLog if it did not create one."""
    if event.kind != "create":
        raise CorruptLog(f"its first event must be of kind 'create', got {event.kind!r}")
    try:
        creation = _CREATION.decode(event.request)
        experiment, _ = Experiment.create(creation, event.at, event.author)
    except (msgspec.DecodeError, UnicodeDecodeError, GlcbError) as error:
        raise CorruptLog(f"its first event cannot be replayed: {error}") from error
    return experiment
