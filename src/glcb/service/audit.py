"""Audit a database: replay its events and compare every outcome and snapshot."""

from collections.abc import Iterator
from typing import NamedTuple

from glcb._errors import GlcbError, StorageError
from glcb.service.core.experiment import Experiment
from glcb.service.core.models import ExperimentSnapshot
from glcb.service.storage.database import Database, ExperimentRow, SnapshotRow
from glcb.service.storage.snapshots import from_first_event, load_snapshot


class Finding(NamedTuple):
    """The result of auditing an experiment."""

    line: str
    ok: bool


def audit_database(database: Database) -> Iterator[Finding]:
    """Replay every experiment; yield whether it agrees with its stored outcomes and snapshots."""
    rows = database.experiments()
    if not rows:
        yield Finding("there are no experiments", True)
    for row in rows:
        try:
            events, snapshots = _audit_experiment(database, row)
        except GlcbError as error:
            yield Finding(f"{row.name}: DIFFERENT: {error}", False)
        else:
            yield Finding(f"{row.name}: {events:,} events and {snapshots:,} snapshots agree", True)


def _audit_experiment(database: Database, row: ExperimentRow) -> tuple[int, int]:
    """Return the number of events and snapshots compared; raise GlcbError at the first difference."""
    snapshots = [one for one in database.snapshots(row.id) if one.sequence <= row.last_sequence]
    events = database.events(row.id, 0, row.last_sequence)
    first = next(events, None)
    replayed, compared = 0, 0
    if first is not None and first.kind == "create" and first.sequence == 1:
        experiment, replayed = from_first_event(first), 1
    else:  # the first events were pruned: start from the oldest snapshot
        if not snapshots:
            raise StorageError("its first event is missing, and it has no snapshot")
        experiment = load_snapshot(database, row.id, snapshots[0])
        events = database.events(row.id, snapshots[0].sequence, row.last_sequence)
    while True:
        while snapshots and snapshots[0].sequence == experiment.state.sequence:
            compared += _compare(database, row, experiment, snapshots.pop(0))
        event = next(events, None)
        if event is None:
            break
        experiment.replay(event)
        replayed += 1
    if snapshots:
        raise StorageError(f"there is a snapshot of event {snapshots[0].sequence}, but not this event")
    return replayed, compared


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
