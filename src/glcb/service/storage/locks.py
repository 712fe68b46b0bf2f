"""Locks that keep a second service off a database: each would miss the other's events.

A lock can be lost: its file can be deleted, its connection can break. The epoch in the database, which every
transaction of a service compares, then keeps the service that lost it from writing.
"""

import contextlib
import os
import time
from pathlib import Path
from typing import IO, Protocol

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from glcb._errors import StorageError
from glcb._files import lock_file

_ADVISORY_KEY = 0x676C6362
"""Key of the PostgreSQL advisory lock: "glcb" in ASCII."""
_POLL_SECONDS = 0.1


class Lock(Protocol):
    """A lock that at most one service holds."""

    def acquire(self) -> bool:
        """Try to acquire the lock; return whether this service holds it. Can be called again while held."""

    def check(self) -> None:
        """Raise StorageError if the lock is known to be lost. This is cheap."""

    def close(self) -> None:
        """Release the lock."""


def wait_for(lock: Lock, timeout: float) -> None:
    """Acquire a lock; raise StorageError if another service still holds it after ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    while not lock.acquire():
        if time.monotonic() > deadline:
            raise StorageError("another service uses this database: stop it, or use another database")
        time.sleep(_POLL_SECONDS)


class FileLock:
    """A lock on a file beside the SQLite file. The system releases it when the process ends.

    Parameters
    ----------
    database
        The SQLite file, without symbolic links.
    """

    def __init__(self, database: Path) -> None:
        self._path = Path(f"{database}.lock")
        self._file: IO[str] | None = None

    def acquire(self) -> bool:
        """Try to acquire the lock; return whether this service holds it."""
        try:
            if self._file is not None and not self._is_current(self._file):
                self.close()  # the file was deleted or replaced
            if self._file is None:
                self._file = os.fdopen(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600), "r+")
            lock_file(self._file.fileno())
            return self._is_current(self._file)
        except BlockingIOError:
            return False
        except OSError as error:
            raise StorageError(f"cannot lock {self._path}: {error.strerror}") from error

    def check(self) -> None:
        """Raise StorageError if the lock file was deleted or replaced."""
        if self._file is None or not self._is_current(self._file):
            raise StorageError(f"the lock file {self._path} was deleted or replaced")

    def close(self) -> None:
        """Release the lock."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _is_current(self, file: IO[str]) -> bool:
        """Return whether the path still leads to the locked file."""
        try:
            return os.path.samestat(self._path.stat(), os.fstat(file.fileno()))
        except FileNotFoundError:
            return False


class AdvisoryLock:
    """A PostgreSQL advisory lock. It lasts as long as its connection and is acquired again after a loss.

    Parameters
    ----------
    engine
        The connections of the database.
    is_shared
        Whether others can have the lock at the same time, if theirs is shared too.
    """

    def __init__(self, engine: Engine, is_shared: bool = False) -> None:
        self._engine = engine
        self._function = "pg_try_advisory_lock_shared" if is_shared else "pg_try_advisory_lock"
        self._connection: Connection | None = None

    def acquire(self) -> bool:
        """Try to acquire the lock; return whether this service holds it."""
        with contextlib.suppress(SQLAlchemyError):
            return self._try()
        self.close()  # the connection may be lost: try a new one
        try:
            return self._try()
        except SQLAlchemyError as error:
            raise StorageError("the database cannot be reached") from error

    def _try(self) -> bool:
        if self._connection is None:
            self._connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        query = text(f"SELECT {self._function}(:n)")
        return bool(self._connection.execute(query, {"n": _ADVISORY_KEY}).scalar())

    def check(self) -> None:
        """Do nothing: only a query could tell, and the epoch is compared anyway."""

    def close(self) -> None:
        """Release the lock."""
        if self._connection is not None:
            with contextlib.suppress(SQLAlchemyError):
                self._connection.invalidate()
                self._connection.close()
            self._connection = None


class ReplacedFile(StorageError):
    """A file of the database was deleted or replaced. The one that is still open is intact."""


class SqliteFiles:
    """Detects that the files of a running SQLite database are deleted, replaced or truncated.

    SQLite would keep writing to deleted files, and all of it would be lost with the process. It would not
    detect either that a file was truncated: it remembers what it has read.

    Parameters
    ----------
    database
        The SQLite file, without symbolic links. It must have a write-ahead log.

    Raises
    ------
    StorageError
        The file has a second name, for which SQLite would use another write-ahead log.
    """

    def __init__(self, database: Path) -> None:
        self._originals = {path: path.stat() for path in (database, Path(f"{database}-wal"))}
        self._sizes = {path: original.st_size for path, original in self._originals.items()}
        self._damage: str | None = None
        """What is wrong with a truncated file. SQLite may fill the gap, but not with what was there."""
        names = self._originals[database].st_nlink
        if names > 1:
            raise StorageError(
                f"{database} is a hard link, one of {names} names of the same file, and SQLite would corrupt "
                "it: keep one name"
            )

    def shrunk(self) -> list[Path]:
        """Return the files that are smaller than before. Call it before and after a commit.

        Raises
        ------
        ReplacedFile
            A file is not the original one.
        StorageError
            A file cannot be accessed, or was found truncated before.
        """
        if self._damage is not None:
            raise StorageError(self._damage)
        sizes = {}
        for path, original in self._originals.items():
            try:
                now = path.stat()
                is_original = os.path.samestat(now, original)
            except FileNotFoundError:
                is_original = False
            except OSError as error:
                raise StorageError(f"{path} cannot be accessed: {error.strerror}") from error
            if not is_original:
                raise ReplacedFile(
                    f"{path} was deleted or replaced while the service used it: stop the service and restore "
                    "the file"
                )
            sizes[path] = now.st_size
        smaller = [path for path, before in self._sizes.items() if sizes[path] < before]
        if not smaller:
            self._sizes = sizes
        return smaller

    def confirm(self, shrunk: list[Path], is_complete: bool) -> None:
        """Accept smaller files if they have all events, as after a checkpoint of another program.

        Raises
        ------
        StorageError
            Events are missing.
        """
        if not is_complete:
            self._damage = (
                f"{shrunk[0]} was truncated while the service used it: stop the service and restore the file"
            )
            raise StorageError(self._damage)
        self._sizes = {path: path.stat().st_size for path in self._originals}
