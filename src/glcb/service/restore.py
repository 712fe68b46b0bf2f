"""From the database back to memory: the newest snapshot, and the events after it."""

import logging

import msgspec

from glcb._errors import ModelFileError, StorageError
from glcb.service.experiment import Experiment
from glcb.service.messages import Creation
from glcb.service.storage import Event, Storage

log = logging.getLogger("glcb.service")


def restore(storage: Storage, number: int) -> tuple[Experiment, int]:
    """Return an experiment as it was after its last event, and the number of the snapshot it began with."""
    for row in reversed(storage.snapshots(number)):
        try:
            experiment = Experiment.thaw(storage.snapshot_content(number, row.sequence))
        except ModelFileError as error:
            log.error("snapshot cannot be used", extra={"sequence": row.sequence, "why": str(error)})
            continue
        if experiment.around.sequence != row.sequence:
            raise StorageError(f"the snapshot of event {row.sequence} is that of another event")
        return _replayed(experiment, storage, number), row.sequence
    return _replayed(first(storage, number), storage, number), 0


def first(storage: Storage, number: int) -> Experiment:
    """Return an experiment as it was after its first event."""
    event = storage.event(number, 1)
    if event is None or event.kind != "create":
        raise StorageError(
            f"the first event of experiment {number} is missing, and no snapshot makes up for it"
        )
    return begun(event)


def begun(event: Event) -> Experiment:
    """Return the experiment that began with this event."""
    experiment, _ = Experiment.create(msgspec.json.decode(event.request, type=Creation), event.at)
    return experiment


def _replayed(experiment: Experiment, storage: Storage, number: int) -> Experiment:
    for event in storage.events(number, experiment.around.sequence):
        experiment.replay(event)
    return experiment
