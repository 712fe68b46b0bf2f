"""How a database is reached: SQLite by default, PostgreSQL by its URL; what is committed is on disk."""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, insert
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from glcb._errors import InvalidSettings, MissingExtra, StorageError
from glcb.service.storage import locks, tables

Row = tuple[int, int, float, str, bytes, bytes]
"""An event as the table has it: experiment, number, time, kind, request, outcome."""


class Database:
    """A database whose tables are up to date."""

    def __init__(self, url: str | URL) -> None:
        self.url = checked_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        try:
            self.engine = _engine(self.url, self.is_sqlite)
        except ImportError as error:
            raise MissingExtra(
                f"the database {self.url.get_backend_name()} needs a driver: {error}"
            ) from error
        # SQLite has one writer; who waits here is woken at once, who waits there sleeps and asks again.
        self._writing = threading.Lock()
        self._lock: locks.Lock | None = None
        self._appender = _Appender(self.engine, self.is_sqlite)
        with self.write() as connection:
            tables.migrate(connection)

    def close(self) -> None:
        """Let go of the database."""
        self._appender.close()
        self.engine.dispose()

    @contextlib.contextmanager
    def write(self) -> Iterator[Connection]:
        """Give a connection whose changes are committed together at the end, or not at all."""
        with self._one_writer(), _told("written to"), _writer(self.engine) as connection, connection.begin():
            yield connection

    @contextlib.contextmanager
    def read(self) -> Iterator[Connection]:
        """Give a connection that sees the database as it is now until the end."""
        with _told("read"), self.engine.connect() as connection, connection.begin():
            yield connection

    def append(self, rows: Sequence[Row]) -> None:
        """Add events of any experiments in one transaction. Only one thread may do this."""
        with (
            self._one_writer(),
            _told("written to", (SQLAlchemyError, self.engine.dialect.loaded_dbapi.Error)),
        ):
            self._appender.append(rows)

    def probe(self) -> None:
        """Raise StorageError unless the database takes what is written to it, and is still ours alone."""
        if self._lock is not None and not self._lock.take():
            raise StorageError("another service has taken over this database")
        with self.write() as connection:
            connection.execute(tables.about.delete().where(tables.about.c.name == "probe"))
            connection.execute(tables.about.insert().values(name="probe", value="x" * 8192))

    @contextlib.contextmanager
    def alone(self, seconds: float) -> Iterator[None]:
        """Keep other services away from this database; raise StorageError if one does not end in time."""
        lock = locks.FileLock(self.url) if self.is_sqlite else locks.AdvisoryLock(self.engine)
        with contextlib.closing(lock):
            locks.wait(lock, seconds)
            self._lock = lock
            yield

    def _one_writer(self) -> contextlib.AbstractContextManager[object]:
        return self._writing if self.is_sqlite else contextlib.nullcontext()


class _Appender:
    """Adds events on a connection of its own, by the driver itself: every answer waits for it."""

    def __init__(self, engine: Engine, is_sqlite: bool) -> None:
        self._engine = engine
        self._is_sqlite = is_sqlite
        self._connection: Any = None
        statement = insert(tables.events).compile(dialect=engine.dialect)
        self._text, self._by_position = str(statement), bool(statement.positional)

    def append(self, rows: Sequence[Row]) -> None:
        """Add events in one transaction."""
        names = tables.events.c.keys()
        values: Any = rows if self._by_position else [dict(zip(names, row, strict=True)) for row in rows]
        try:
            if self._connection is None:
                self._connection = self._engine.raw_connection()
            cursor = self._connection.cursor()
            if self._is_sqlite:
                cursor.execute("BEGIN IMMEDIATE")
            cursor.executemany(self._text, values)
            cursor.close()
            self._connection.commit()
        except BaseException:
            self.close()  # the next one begins with a fresh connection
            raise

    def close(self) -> None:
        """Let go of the connection, and of what was not committed."""
        if self._connection is not None:
            with contextlib.suppress(Exception):
                self._connection.invalidate()
            self._connection = None


def _writer(engine: Engine) -> Connection:
    return engine.connect().execution_options(writes=True)


@contextlib.contextmanager
def _told(what: str, errors: tuple[type[Exception], ...] = (SQLAlchemyError,)) -> Iterator[None]:
    """Tell every trouble with the database as an error of ours, without the data that was on its way."""
    try:
        yield
    except errors as error:
        cause = getattr(error, "orig", None) or error
        first = str(cause).strip().partition("\n")[0]
        raise StorageError(f"the database cannot be {what}: {first}") from error


def sqlite_url(path: str | Path) -> URL:
    """Return the URL of a SQLite database in a file."""
    return URL.create("sqlite", database=str(path))


def checked_url(given: str | URL) -> URL:
    """Return the URL of a database that can be used."""
    try:
        url = make_url(given)
    except ArgumentError:
        raise InvalidSettings("the database must be a URL such as postgresql://user@host/name") from None
    backend = url.get_backend_name()
    if backend == "postgres" or (backend == "postgresql" and url.drivername == "postgresql"):
        return url.set(drivername="postgresql+psycopg")
    if backend not in ("sqlite", "postgresql"):
        raise InvalidSettings(f"the database must be SQLite or PostgreSQL, got {backend}")
    if backend == "sqlite" and url.database in (None, "", ":memory:"):
        raise InvalidSettings(
            "the database must be a file such as sqlite:///glcb.db: memory promises nothing"
        )
    return url


def _engine(url: URL, is_sqlite: bool) -> Engine:
    if is_sqlite:
        engine = create_engine(
            url, connect_args={"check_same_thread": False, "timeout": 30}, hide_parameters=True
        )
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    settings = {
        "connect_timeout": 5,
        "tcp_user_timeout": 10_000,
        "keepalives_idle": 5,
        "keepalives_interval": 2,
    }
    engine = create_engine(url, pool_pre_ping=True, connect_args=settings, hide_parameters=True)
    event.listen(engine, "connect", _prepare_postgresql)
    return engine


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # transactions begin where we say, not where the driver guesses
    # A commit returns when the disk has it, and readers never wait for the writer.
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=30000", "cache_size=-16000"):
        connection.execute(f"PRAGMA {pragma}").fetchall()


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _prepare_postgresql(connection: Any, _record: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('synchronous_commit')")
        if cursor.fetchone()[0] == "off":  # whatever the cluster says: what we answer is on disk
            cursor.execute("SET synchronous_commit TO on")
    connection.commit()
