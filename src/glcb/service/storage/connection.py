"""Connections to SQLite or PostgreSQL. When a commit returns, it is on disk."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, insert
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from glcb._errors import InvalidSettings, MissingExtra, StorageError
from glcb.service.config import ServiceSettings
from glcb.service.storage import tables

EventRow = tuple[int, int, float, str, bytes, bytes]
"""A row of the event table: experiment id, sequence, time, kind, request, outcome."""

# ---- addresses ----------------------------------------------------------------------------------


def sqlite_url(path: str | Path) -> URL:
    """Return the URL of a SQLite database file."""
    return URL.create("sqlite", database=str(path))


def parse_url(text: str | URL) -> URL:
    """Return the URL of a supported database, with the driver that glcb uses.

    Raises
    ------
    InvalidSettings
        The URL is malformed, names another database system, or names an in-memory database.
    """
    try:
        url = make_url(text)
    except ArgumentError:
        raise InvalidSettings("database must be a URL such as postgresql://user@host/name") from None
    backend = url.get_backend_name()
    if backend == "postgres" or (backend == "postgresql" and url.drivername == "postgresql"):
        return url.set(drivername="postgresql+psycopg")
    if backend not in ("sqlite", "postgresql"):
        raise InvalidSettings(f"database must be SQLite or PostgreSQL, got {backend}")
    if backend == "sqlite" and url.database in (None, "", ":memory:"):
        raise InvalidSettings(
            "database must be a file such as sqlite:///glcb.db: an in-memory database is lost when the "
            "process ends"
        )
    return url


def database_url(settings: ServiceSettings) -> URL:
    """Return the URL of the configured database."""
    return parse_url(sqlite_url(settings.data) if settings.database is None else settings.database)


def database_is_missing(settings: ServiceSettings) -> bool:
    """Return whether the configured database is a SQLite file that does not exist."""
    file = _sqlite_file(database_url(settings))
    return file is not None and not file.exists()


def database_location(settings: ServiceSettings) -> str:
    """Return the configured database as a path or URL, without its password."""
    url = database_url(settings)
    return str(_sqlite_file(url) or url.render_as_string(hide_password=True))


def _sqlite_file(url: URL) -> Path | None:
    return Path(str(url.database)).absolute() if url.get_backend_name() == "sqlite" else None


# ---- connections --------------------------------------------------------------------------------


def connect(url: URL) -> Engine:
    """Return a pool of connections whose commits are durable.

    Raises
    ------
    MissingExtra
        The driver of the database is not installed.
    """
    try:
        return _sqlite_engine(url) if url.get_backend_name() == "sqlite" else _postgresql_engine(url)
    except ImportError as error:
        raise MissingExtra(f"the database {url.get_backend_name()} needs a driver: {error}") from error


def _sqlite_engine(url: URL) -> Engine:
    engine = create_engine(
        url, connect_args={"check_same_thread": False, "timeout": 30}, hide_parameters=True
    )
    event.listen(engine, "connect", _configure_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _postgresql_engine(url: URL) -> Engine:
    settings = {
        "connect_timeout": 5,
        "tcp_user_timeout": 10_000,
        "keepalives_idle": 5,
        "keepalives_interval": 2,
    }
    engine = create_engine(url, pool_pre_ping=True, connect_args=settings, hide_parameters=True)
    event.listen(engine, "connect", _configure_postgresql)
    return engine


def _configure_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # begin transactions explicitly, see _begin_sqlite
    # synchronous=FULL: a commit returns after fsync. WAL: readers never wait for the writer.
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=30000", "cache_size=-16000"):
        connection.execute(f"PRAGMA {pragma}").fetchall()


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _configure_postgresql(connection: Any, _record: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('synchronous_commit')")
        if cursor.fetchone()[0] == "off":  # override the cluster: acknowledged events must be on disk
            cursor.execute("SET synchronous_commit TO on")
    connection.commit()


@contextlib.contextmanager
def storage_errors(action: str, errors: tuple[type[Exception], ...] = (SQLAlchemyError,)) -> Iterator[None]:
    """Raise database errors as StorageError, without the data of the failed statement."""
    try:
        yield
    except errors as error:
        cause = getattr(error, "orig", None) or error
        first = str(cause).strip().partition("\n")[0]
        raise StorageError(f"the database cannot be {action}: {first}") from error


class EventAppender:
    """Inserts events on its own connection, through the driver itself: every response waits for it."""

    def __init__(self, engine: Engine, is_sqlite: bool) -> None:
        self._engine = engine
        self._is_sqlite = is_sqlite
        self._connection: Any = None
        statement = insert(tables.events).compile(dialect=engine.dialect)
        self._statement, self._positional = str(statement), bool(statement.positional)

    def append(self, rows: Sequence[EventRow]) -> None:
        """Insert events in one transaction."""
        names = tables.events.c.keys()
        values: Any = rows if self._positional else [dict(zip(names, row, strict=True)) for row in rows]
        try:
            if self._connection is None:
                self._connection = self._engine.raw_connection()
            cursor = self._connection.cursor()
            if self._is_sqlite:
                cursor.execute("BEGIN IMMEDIATE")
            cursor.executemany(self._statement, values)
            cursor.close()
            self._connection.commit()
        except BaseException:
            self.close()  # the next append starts with a fresh connection
            raise

    def close(self) -> None:
        """Drop the connection and everything that was not committed."""
        if self._connection is not None:
            with contextlib.suppress(Exception):
                self._connection.invalidate()
            self._connection = None
