"""Files of bandits. A bandit is written only if it can be read again."""

from os import PathLike
from typing import Any

from glcb import _model_file
from glcb._errors import ModelFileError
from glcb._model_file import Snapshot
from glcb.bandit._core import BanditCore

_INVALID = (KeyError, TypeError, ValueError, OverflowError, MemoryError)


def write(path: str | PathLike[str], snapshot: Snapshot) -> None:
    """Write the snapshot of a bandit; raise ModelFileError if a bandit could not be restored from it."""
    try:
        BanditCore.from_snapshot(snapshot)
    except _INVALID as error:
        raise ModelFileError(
            f"cannot write {path}: the bandit could not be loaded from it ({error}); load an earlier copy"
        ) from error
    _model_file.write(path, snapshot)


def read(path: str | PathLike[str]) -> tuple[BanditCore, dict[str, Any]]:
    """Return the bandit in a file, and its arguments; raise ModelFileError if there is none."""
    snapshot = _model_file.read(path)
    if snapshot.policy != "Bandit":
        raise ModelFileError(
            f"{path} holds a {snapshot.policy}, not a Bandit: load it with {snapshot.policy}.load"
        )
    try:
        return BanditCore.from_snapshot(snapshot), snapshot.arguments
    except _INVALID as error:
        raise ModelFileError(f"{path} is not a complete Bandit: {error}") from error
