"""Files and snapshots of bandits. A bandit is written only if it can be read again."""

import threading
from os import PathLike
from typing import Any, Self

from glcb import _model_file
from glcb._errors import ModelFileError
from glcb._model_file import Snapshot
from glcb.bandit._core import BanditCore
from glcb.bandit.config import BanditConfig, Clock
from glcb.bandit.forks import UnusableLock


def write(path: str | PathLike[str], snapshot: Snapshot) -> None:
    """Write the snapshot of a bandit; raise ModelFileError if a bandit could not be restored from it."""
    try:
        BanditCore.from_snapshot(snapshot)
    except _model_file.INVALID as error:
        raise ModelFileError(
            f"cannot write {path}: the bandit could not be loaded from it ({error}); load an earlier copy"
        ) from error
    _model_file.write(path, snapshot)


def read(path: str | PathLike[str]) -> tuple[BanditCore, dict[str, Any]]:
    """Return the bandit in a file, and its arguments; raise ModelFileError if there is none."""
    return _model_file.load(path, "Bandit", lambda one: (BanditCore.from_snapshot(one), one.arguments))


class Persistent:
    """An object that can be saved, loaded and copied."""

    _lock: "threading.RLock | UnusableLock"
    _core: BanditCore

    def _start(self, core: BanditCore, params: dict[str, Any]) -> None:
        raise NotImplementedError

    def save(self, path: str | PathLike[str]) -> None:
        """Save the bandit to a file, without its clock, log and callback. The file is replaced atomically.

        Parameters
        ----------
        path : str or path
            The file to write.

        Raises
        ------
        ModelFileError
            If the file cannot be written, or the bandit could not be loaded from it.
        """
        write(path, self.snapshot())

    @classmethod
    def load(cls, path: str | PathLike[str], *, clock: Clock = BanditConfig.clock) -> Self:
        """Load a bandit. It continues exactly as the saved one would have.

        Parameters
        ----------
        path : str or path
            A file written by :meth:`save`.
        clock : function, default time.time
            Function that returns the time in seconds. It is not part of the file.

        Returns
        -------
        Bandit
            The loaded bandit.

        Raises
        ------
        ModelFileError
            If the file cannot be read, is damaged, has another format version, or holds a policy.
        """
        bandit = cls.__new__(cls)
        core, params = read(path)
        core.change(clock=clock)
        bandit._start(core, {**params, "clock": clock})
        return bandit

    def snapshot(self) -> Snapshot:
        """Return a copy of everything that determines the future of the bandit, as :meth:`save` stores it."""
        with self._lock:
            return self._core.snapshot()

    @classmethod
    def from_snapshot(cls, snapshot: Snapshot) -> Self:
        """Return a bandit restored from a snapshot. It continues exactly as the original would have.

        Raises
        ------
        KeyError, TypeError, ValueError
            If it is not a snapshot of a bandit.
        """
        bandit = cls.__new__(cls)
        bandit.__setstate__(snapshot)
        return bandit

    def __getstate__(self) -> Snapshot:
        return self.snapshot()

    def __setstate__(self, snapshot: Snapshot) -> None:
        core = BanditCore.from_snapshot(snapshot)
        self._start(core, {**snapshot.arguments, "clock": core.config.clock})
