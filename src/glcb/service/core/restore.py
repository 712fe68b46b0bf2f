"""From the database back to memory: the newest snapshot, and the events after it."""

import logging

import msgspec

from glcb._api.requests import Creation
from glcb._errors import GlcbError, ModelFileError
from glcb.service.core import models
from glcb.service.core.experiment import Damaged, Experiment
from glcb.service.storage.storage import Event, SnapshotRow, Storage

log = logging.getLogger("glcb.service")


def restore(storage: Storage, number: int) -> tuple[Experiment, int]:
    """Return an experiment as it was after its last event, and the number of the snapshot it began with.

    What is damaged is made up for by what came before it. Where that is not possible, Damaged is raised; any
    other StorageError is the database's own, and may be over soon.
    """
    for row in reversed(storage.snapshots(number)):
        try:
            experiment = thawed(storage, number, row)
        except ModelFileError as error:
            log.error("snapshot cannot be used", extra={"sequence": row.sequence, "why": str(error)})
        else:
            return _replayed(experiment, storage, number), row.sequence
    first = storage.event(number, 1)
    if first is None:
        raise Damaged("its first event is missing, and no snapshot makes up for it")
    return _replayed(begun(first), storage, number), 0


def thawed(storage: Storage, number: int, row: SnapshotRow) -> Experiment:
    """Return an experiment as it was when a snapshot was taken; raise ModelFileError if that is damaged."""
    frozen = models.unpacked(storage.snapshot_content(number, row.sequence), row.digest)
    if frozen.sequence != row.sequence:
        raise ModelFileError(f"the snapshot of event {row.sequence} is that of event {frozen.sequence}")
    return Experiment.thaw(frozen)


def begun(event: Event) -> Experiment:
    """Return the experiment that began with this event."""
    if event.kind != "create":
        raise Damaged(f"its first event is not its creation, but {event.kind!r}")
    try:
        creation = msgspec.json.decode(event.request, type=Creation)
        experiment, _ = Experiment.create(creation, event.at)
    except (msgspec.DecodeError, GlcbError) as error:
        raise Damaged(f"its first event makes no experiment: {error}") from error
    return experiment


def _replayed(experiment: Experiment, storage: Storage, number: int) -> Experiment:
    for event in storage.events(number, experiment.around.sequence):
        experiment.replay(event)
    return experiment
