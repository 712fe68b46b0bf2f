"""Experiments that are not in memory, as their newest snapshot describes them."""

import contextlib
from datetime import UTC, datetime

import msgspec

from glcb._api.requests import ExperimentSettings
from glcb._api.responses import Check, Counts, ExperimentInfo
from glcb.service.core.sums import Sums
from glcb.service.storage.rows import ExperimentRow
from glcb.service.views.lift import lift_of

_decode_info = msgspec.json.Decoder(ExperimentInfo).decode


def stored_experiment_info(row: ExperimentRow) -> ExperimentInfo | None:
    """Return the summary of the newest snapshot, or None if it is missing or damaged."""
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
        info = _decode_info(row.summary)
        return info if info.name == row.name else None
    return None


def broken_experiment_info(row: ExperimentRow, reason: str) -> ExperimentInfo:
    """Return an experiment that cannot be loaded, with the numbers of its newest snapshot if it has one."""
    check = Check("loaded", False, f"The experiment cannot be loaded: {reason}.")
    return msgspec.structs.replace(_last_info(row), state="broken", health=(check,))


def opening_experiment_info(row: ExperimentRow, progress: str) -> ExperimentInfo:
    """Return an experiment that is being opened, with the numbers of its newest snapshot if it has one."""
    check = Check("loaded", None, f"The experiment is being opened: {progress}.")
    return msgspec.structs.replace(_last_info(row), state="opening", health=(check,))


def _last_info(row: ExperimentRow) -> ExperimentInfo:
    return stored_experiment_info(row) or ExperimentInfo(
        name=row.name,
        state="opening",
        created_at=datetime.fromtimestamp(0, UTC),
        counts=Counts(0, 0, 0, 0, 0, 0),
        arm_count=0,
        reward_counts={},
        lift=lift_of(Sums(), (0.0, 1.0)),
        health=(),
        sequence=row.last_sequence,
        settings=ExperimentSettings(arms=[]),
    )
