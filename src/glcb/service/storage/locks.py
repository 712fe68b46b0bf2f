"""One service for a database: two would not know of each other's events."""

import contextlib
import time
from pathlib import Path
from typing import IO, Protocol

from sqlalchemy import URL, Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from glcb._errors import StorageError
from glcb._files import hold

_NUMBER = 0x676C6362
"""What PostgreSQL knows our lock by."""


class Lock(Protocol):
    """Something that only one service can hold."""

    def take(self) -> bool:
        """Return whether we hold it, now or still."""

    def close(self) -> None:
        """Let go of it."""


def wait(lock: Lock, seconds: float) -> None:
    """Take a lock; raise StorageError if another service keeps it for that long."""
    deadline = time.monotonic() + seconds
    while not lock.take():
        if time.monotonic() > deadline:
            raise StorageError("another service uses this database: stop it, or use another database")
        time.sleep(0.1)


class FileLock:
    """A locked file beside the database; the system lets go of it when the process ends, however it ends."""

    def __init__(self, url: URL) -> None:
        self._path = Path(f"{url.database}.lock")
        self._file: IO[str] | None = None

    def take(self) -> bool:
        """Return whether we hold it, now or still."""
        try:
            self._file = self._file or self._path.open("w")
            hold(self._file.fileno())
        except BlockingIOError:
            return False
        except OSError as error:
            raise StorageError(f"cannot lock {self._path}: {error.strerror}") from error
        return True

    def close(self) -> None:
        """Let go of it."""
        if self._file is not None:
            self._file.close()


class AdvisoryLock:
    """A lock of PostgreSQL. It lasts as long as a connection, and is taken anew on another one.

    Even in between, two services cannot both write an event with the same number.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: Connection | None = None

    def take(self) -> bool:
        """Return whether we hold it, now or still."""
        with contextlib.suppress(SQLAlchemyError):
            return self._ask()
        self.close()  # the connection was lost, perhaps
        try:
            return self._ask()
        except SQLAlchemyError as error:
            raise StorageError("the database cannot be reached") from error

    def _ask(self) -> bool:
        if self._connection is None:
            self._connection = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        return bool(
            self._connection.execute(text("SELECT pg_try_advisory_lock(:n)"), {"n": _NUMBER}).scalar()
        )

    def close(self) -> None:
        """Let go of it."""
        if self._connection is not None:
            with contextlib.suppress(SQLAlchemyError):
                self._connection.invalidate()
                self._connection.close()
            self._connection = None
