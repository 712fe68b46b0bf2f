"""Connections to SQLite or PostgreSQL. When a commit returns, it is on disk."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from glcb._errors import InvalidSettings, MissingExtra, StorageError
from glcb.service.config import ServiceSettings

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
    file = sqlite_file(database_url(settings))
    return file is not None and not file.exists()


def database_location(settings: ServiceSettings) -> str:
    """Return the configured database as a path or URL, without its password."""
    url = database_url(settings)
    return str(sqlite_file(url) or url.render_as_string(hide_password=True))


def sqlite_file(url: URL) -> Path | None:
    """Return the SQLite file of a URL, or None for PostgreSQL."""
    return Path(str(url.database)).absolute() if url.get_backend_name() == "sqlite" else None


# ---- connections --------------------------------------------------------------------------------


def connect(url: URL, deadline: float, read_only: bool = False, idle: float | None = None) -> Engine:
    """Return a pool of connections whose commits are durable.

    Parameters
    ----------
    url
        Where the database is. A missing SQLite file is created, readable by its owner alone.
    deadline
        Seconds after which a statement fails, or a wait for a lock.
    read_only
        Whether all writes fail. A missing SQLite file is not created.
    idle
        Seconds after which PostgreSQL ends an idle transaction; by default, those of ``deadline``.

    Raises
    ------
    MissingExtra
        The driver of the database is not installed.
    """
    make = _sqlite_engine if url.get_backend_name() == "sqlite" else _postgresql_engine
    try:
        return make(url, deadline, read_only, deadline if idle is None else min(idle, deadline))
    except ImportError as error:
        raise MissingExtra(f"the database {url.get_backend_name()} needs a driver: {error}") from error


def disconnect(engine: Engine) -> None:
    """Close all connections; those that are in use, when they are returned."""
    event.listen(engine, "checkin", lambda _connection, record: record.invalidate())
    engine.dispose()


def _sqlite_engine(url: URL, deadline: float, read_only: bool, _idle: float) -> Engine:
    if read_only:
        location = Path(str(url.database)).absolute().as_uri()
        url = url.set(database=location, query={"mode": "ro", "uri": "true"})
    else:
        with contextlib.suppress(OSError):  # SQLite creates its other files with the permissions of this one
            os.close(os.open(str(url.database), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    engine = create_engine(
        url, connect_args={"check_same_thread": False, "timeout": deadline}, hide_parameters=True
    )
    event.listen(engine, "connect", _configure_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _postgresql_engine(url: URL, deadline: float, read_only: bool, idle: float) -> Engine:
    settings: dict[str, Any] = {
        "connect_timeout": 5,
        "tcp_user_timeout": 10_000,
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
    }
    if read_only:
        settings["options"] = "-c default_transaction_read_only=on"
    engine = create_engine(
        url, pool_pre_ping=True, pool_timeout=deadline, connect_args=settings, hide_parameters=True
    )
    limits = {
        "statement_timeout": deadline,
        "lock_timeout": deadline,
        "idle_in_transaction_session_timeout": idle,
    }
    event.listen(engine, "connect", lambda connection, _record: _configure_postgresql(connection, limits))
    return engine


def _configure_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # begin transactions explicitly, see _begin_sqlite
    # Damaged text is read as it is: the chain of events tells what is damaged.
    connection.text_factory = lambda raw: raw.decode(errors="surrogateescape")
    # synchronous=FULL: a commit returns after fsync. WAL: readers never wait for the writer.
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "cache_size=-16000"):
        connection.execute(f"PRAGMA {pragma}").fetchall()


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _configure_postgresql(connection: Any, limits: Mapping[str, float]) -> None:
    with connection.cursor() as cursor:
        for name, seconds in limits.items():
            cursor.execute(f"SET {name} TO {max(1, round(1000 * seconds))}")
        cursor.execute("SELECT current_setting('synchronous_commit')")
        if cursor.fetchone()[0] == "off":  # override the cluster: acknowledged events must be on disk
            cursor.execute("SET synchronous_commit TO on")
    connection.commit()


class RejectedEvents(StorageError):
    """The database rejects the content of an event. Repeating it does not help; other events are accepted."""


@contextlib.contextmanager
def rejections(driver: Any) -> Iterator[None]:
    """Raise what a driver says about the content of rows as RejectedEvents."""
    try:
        yield
    except (driver.DataError, driver.IntegrityError, OverflowError, UnicodeEncodeError) as error:
        raise RejectedEvents(f"the database rejects an event: {error}") from error


@contextlib.contextmanager
def storage_errors(action: str, errors: tuple[type[Exception], ...] = (SQLAlchemyError,)) -> Iterator[None]:
    """Raise database errors as StorageError, without the data of the failed statement."""
    try:
        yield
    except errors as error:
        cause = getattr(error, "orig", None) or error
        first = str(cause).strip().partition("\n")[0]
        raise StorageError(f"the database cannot be {action}: {first}") from error
