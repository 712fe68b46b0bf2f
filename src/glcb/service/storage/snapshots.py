"""Save experiments as snapshots, and restore them from the newest snapshot and the events after it."""

import logging
import math

import msgspec

from glcb._api.requests import Creation, encode
from glcb._api.responses import ExperimentInfo
from glcb._errors import GlcbError, ModelFileError, StorageError
from glcb.service.config import ServiceSettings
from glcb.service.core.clock import Clock
from glcb.service.core.experiment import CorruptLog, Experiment
from glcb.service.core.models import ExperimentSnapshot
from glcb.service.storage.database import Database, Event
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


def restore(database: Database, experiment: int) -> tuple[Experiment, int]:
    """Restore an experiment to its last event; return it and the sequence number of the snapshot used.

    A damaged snapshot is skipped in favor of an earlier one, or of the first event.

    Raises
    ------
    CorruptLog
        The stored events cannot be replayed, or the newest ones are missing. This is permanent.
    StorageError
        The database cannot be read, or there is not enough memory. This may be temporary.
    """
    try:
        return _restore(database, experiment)
    except MemoryError as error:
        raise StorageError("there is not enough memory to load the experiment: retry") from error


def _restore(database: Database, experiment: int) -> tuple[Experiment, int]:
    lost = database.lost_events(experiment)
    if lost is not None:
        advice = (
            f", or stop the service and delete {database.marks.path} to continue without them"
            if database.marks is not None
            else ""
        )
        raise CorruptLog(f"{lost}{advice}")
    for row in reversed(database.snapshots(experiment)):
        try:
            restored = load_snapshot(database, experiment, row)
        except (StorageError, MemoryError):
            raise
        except Exception as error:  # whatever is wrong with a snapshot, the events may be complete
            log.error("snapshot is damaged", extra={"sequence": row.sequence, "reason": str(error)})
        else:
            return _replay(restored, database, experiment), row.sequence
    first = database.event(experiment, 1)
    if first is None:
        raise CorruptLog("its first event is missing, and it has no usable snapshot")
    return _replay(from_first_event(first), database, experiment), 0


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


def _replay(experiment: Experiment, database: Database, number: int) -> Experiment:
    for event in database.events(number, experiment.state.sequence):
        experiment.replay(event)
    return experiment
