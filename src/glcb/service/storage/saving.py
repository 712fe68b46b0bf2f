"""Snapshots, written and pruned."""

import time

from glcb._api.responses import ExperimentInfo
from glcb.service import views
from glcb.service.config import ServiceSettings
from glcb.service.core import models
from glcb.service.storage.storage import SnapshotRow, Storage

_DAY = 86_400


def save(
    storage: Storage, number: int, frozen: models.Frozen, view: ExperimentInfo, settings: ServiceSettings
) -> None:
    """Write a snapshot of an experiment, then remove what is no longer needed because of it."""
    content = models.packed(frozen)
    row = SnapshotRow(frozen.sequence, time.time(), models.digest(frozen), 0)
    storage.save_snapshot(number, row, content, views.encoded(view))
    storage.prune(number, settings.keep_snapshots, time.time() - settings.keep_days * _DAY)
