"""The tables of the service and their format version."""

import secrets
from collections.abc import Callable, Sequence

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    inspect,
    select,
)

from glcb._errors import StorageError
from glcb._version import __version__

MAX_AUTHOR = 200
"""Characters in the name of a person or an API key."""

metadata = MetaData()

# The name and columns of this table never change, so that every release can read the version of a database.
about = Table(
    "glcb_about",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)

experiments = Table(
    "glcb_experiments",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("name", String(64), nullable=False, unique=True),
    # What was pruned: the last deleted event, its link in the chain, and when it was deleted.
    Column("pruned_sequence", BigInteger, nullable=False, default=0),
    Column("pruned_chain", LargeBinary, nullable=False, default=b""),
    Column("pruned_at", Float(53), nullable=False, default=0.0),
    sqlite_autoincrement=True,  # a new experiment must never inherit rows of a deleted one
)

events = Table(
    "glcb_events",
    metadata,
    Column("experiment", Integer, primary_key=True, autoincrement=False),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Float(53), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("request", LargeBinary, nullable=False),
    Column("outcome", LargeBinary, nullable=False),
    Column("chain", LargeBinary, nullable=False),
    Column("author", String(MAX_AUTHOR)),  # who changed the experiment: the name of an API key or a person
    sqlite_with_rowid=False,
)

snapshots = Table(
    "glcb_snapshots",
    metadata,
    Column("experiment", Integer, primary_key=True, autoincrement=False),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("at", Float(53), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("parts", Integer, nullable=False),
    Column("summary", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

parts = Table(
    "glcb_snapshot_parts",
    metadata,
    Column("experiment", Integer, primary_key=True, autoincrement=False),
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("part", Integer, primary_key=True, autoincrement=False),
    Column("content", LargeBinary, nullable=False),
)

api_keys = Table(
    "glcb_keys",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("digest", String(64), nullable=False, unique=True),
    Column("role", String(16), nullable=False),
    Column("experiments", Text),
    Column("created", Float(53), nullable=False),
)

sessions = Table(
    "glcb_sessions",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("key_digest", String(64), nullable=False),
    Column("expires", Float(53), nullable=False),
)

evaluations = Table(
    "glcb_evaluations",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("experiment", Integer, nullable=False, index=True),
    Column("state", String(16), nullable=False),
    Column("info", LargeBinary, nullable=False),  # an encoded EvaluationInfo without its result
    Column("result", LargeBinary),
    sqlite_autoincrement=True,
)

DELETED_PREFIX = "-"
"""Starts the placeholder name of a deleted experiment; no valid name starts with it. The last event of a
deleted experiment says so, too: a damaged name deletes nothing."""
DELETE = "delete"
"""The kind of that event."""

_OLDEST_VERSION = 5
"""The oldest format (of tables, events and snapshots) that can be migrated to the current one."""
_WRITERS = {1: "glcb 0.1", 2: "glcb 0.2"}
"""The releases of glcb that wrote formats whose events can no longer be replayed."""

Migration = Callable[[Connection], None]


def _add_evaluations(connection: Connection) -> None:
    evaluations.create(connection, checkfirst=True)  # a new database has the table already


def _add_sessions(connection: Connection) -> None:
    sessions.create(connection, checkfirst=True)


def _add_authors(connection: Connection) -> None:
    columns = {column["name"] for column in inspect(connection).get_columns(events.name)}
    if events.c.author.name not in columns:  # a new database has the column already
        connection.exec_driver_sql(f"ALTER TABLE {events.name} ADD COLUMN author VARCHAR(64)")


def _widen_authors(connection: Connection) -> None:
    if connection.dialect.name != "sqlite":  # which does not limit the length of text
        connection.exec_driver_sql(
            f"ALTER TABLE {events.name} ALTER COLUMN author TYPE VARCHAR({MAX_AUTHOR})"
        )


MIGRATIONS: Sequence[Migration] = (_add_evaluations, _add_sessions, _add_authors, _widen_authors)
"""Each converts one format to the next, starting with ``_OLDEST_VERSION``. Only append."""


def migrate(connection: Connection, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Create missing tables or bring them up to date, in the transaction of ``connection``.

    Raises
    ------
    StorageError
        The database was written by a version of glcb that is too old or too new.
    """
    target = _OLDEST_VERSION + len(migrations)
    version = _read_version(connection)
    if version is None:
        metadata.create_all(connection)
        identity = [{"name": "id", "value": secrets.token_hex(16)}, {"name": "epoch", "value": "0"}]
        connection.execute(about.insert(), identity)
        version = _OLDEST_VERSION
    elif version == target:
        return
    if version < _OLDEST_VERSION:
        writer = _WRITERS.get(version, "a version of glcb after 0.2")
        raise StorageError(
            f"the database was written by {writer} (format {version}), but glcb {__version__} reads "
            f"format {target}: keep serving it with {writer}, or start a new database with --data or "
            "--database"
        )
    if version > target:
        raise StorageError(
            f"the database was written by a newer glcb (format {version}), but glcb {__version__} reads "
            f"format {target}: update glcb"
        )
    for step in migrations[version - _OLDEST_VERSION :]:
        step(connection)
    connection.execute(about.delete().where(about.c.name == "version"))
    connection.execute(about.insert().values(name="version", value=str(target)))


def read_about(connection: Connection, name: str) -> str | None:
    """Return a value of the table that describes the database."""
    return connection.execute(select(about.c.value).where(about.c.name == name)).scalar()


def _read_version(connection: Connection) -> int | None:
    """Return the version of an existing database, or None for an empty one."""
    if not inspect(connection).has_table(about.name):
        return None
    stored = read_about(connection, "version")
    return None if stored is None else int(stored)
