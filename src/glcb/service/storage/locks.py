"""Locks that keep a second service off a database: each would miss the other's events."""

import contextlib
import time
from pathlib import Path
from typing import IO, Protocol

from sqlalchemy import URL, Connection, Engine, text
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
    """A lock on a file beside the SQLite file. The system releases it when the process ends."""

    def __init__(self, url: URL) -> None:
        self._path = Path(f"{url.database}.lock")
        self._file: IO[str] | None = None

    def acquire(self) -> bool:
        """Try to acquire the lock; return whether this service holds it."""
        try:
            self._file = self._file or self._path.open("w")
            lock_file(self._file.fileno())
        except BlockingIOError:
            return False
        except OSError as error:
            raise StorageError(f"cannot lock {self._path}: {error.strerror}") from error
        return True

    def close(self) -> None:
        """Release the lock."""
        if self._file is not None:
            self._file.close()


class AdvisoryLock:
    """A PostgreSQL advisory lock. It lasts as long as its connection and is acquired again after a loss.

    While it is lost, the primary key of the event table still keeps two services from both writing an event
    with the same sequence number.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
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
        return bool(
            self._connection.execute(text("SELECT pg_try_advisory_lock(:n)"), {"n": _ADVISORY_KEY}).scalar()
        )

    def close(self) -> None:
        """Release the lock."""
        if self._connection is not None:
            with contextlib.suppress(SQLAlchemyError):
                self._connection.invalidate()
                self._connection.close()
            self._connection = None
