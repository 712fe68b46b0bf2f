"""The whole log, replayed from its beginning and compared with everything on record."""

from collections.abc import Iterator
from typing import NamedTuple

from glcb._errors import GlcbError, StorageError
from glcb.service.core import models
from glcb.service.core.experiment import Experiment
from glcb.service.core.restore import begun, thawed
from glcb.service.storage.storage import Known, SnapshotRow, Storage


class Finding(NamedTuple):
    """How an experiment stood the test."""

    line: str
    ok: bool


def verify(storage: Storage) -> Iterator[Finding]:
    """Replay every experiment, and compare it with what came of each event and with every snapshot."""
    known = storage.known()
    if not known:
        yield Finding("there are no experiments", True)
    for one in known:
        try:
            events, snapshots = _verify(storage, one)
        except GlcbError as error:
            yield Finding(f"{one.name}: DIFFERENT: {error}", False)
        else:
            yield Finding(f"{one.name}: {events:,} events and {snapshots:,} snapshots agree", True)


def _verify(storage: Storage, known: Known) -> tuple[int, int]:
    """Return how many events and snapshots were compared."""
    waiting = [row for row in storage.snapshots(known.id) if row.sequence <= known.last]
    stored = storage.events(known.id, 0, known.last)
    first = next(stored, None)
    replayed, compared = 0, 0
    if first is not None and first.kind == "create" and first.sequence == 1:
        experiment, replayed = begun(first), 1
    else:  # the beginning was pruned: the oldest snapshot stands for it
        if not waiting:
            raise StorageError("neither the first event nor a snapshot is there")
        experiment = thawed(storage, known.id, waiting[0])
        stored = storage.events(known.id, waiting[0].sequence, known.last)
    while True:
        while waiting and waiting[0].sequence == experiment.around.sequence:
            compared += _compare(storage, known, experiment, waiting.pop(0))
        event = next(stored, None)
        if event is None:
            break
        experiment.replay(event)
        replayed += 1
    if waiting:
        raise StorageError(f"no event leads to the snapshot of event {waiting[0].sequence}")
    return replayed, compared


def _compare(storage: Storage, known: Known, experiment: Experiment, row: SnapshotRow) -> int:
    """Compare a replayed experiment with a snapshot, and the snapshot with its own digest.

    Return how many were compared: none if the service has removed it meanwhile.
    """
    content = storage.snapshot_content(known.id, row.sequence)
    if row not in storage.snapshots(known.id):
        return 0
    models.unpacked(content, row.digest)  # raises an error if it is damaged
    if models.digest(experiment.freeze()) != row.digest:
        raise StorageError(f"the snapshot of event {row.sequence} is not what the events lead to")
    return 1
