"""The tables of the service and their format version."""

import secrets
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    DateTime,
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

from glcb._formats import DATABASE

MAX_AUTHOR = 200
"""Characters in the name of a person or an API key."""
MAX_WORKER_NAME = 48
"""Characters in the name of a worker."""

metadata = MetaData()

# The name and columns of this table never change, so that every release can read the format of a database.
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


def _event_columns(is_key: bool) -> list[Column[Any]]:
    return [
        Column("experiment", Integer, primary_key=is_key, autoincrement=False, nullable=False),
        Column("sequence", BigInteger, primary_key=is_key, autoincrement=False, nullable=False),
        Column("at", Float(53), nullable=False),
        Column("kind", String(16), nullable=False),
        Column("request", LargeBinary, nullable=False),
        Column("outcome", LargeBinary, nullable=False),
        Column("record", LargeBinary, nullable=False),  # what recovery needs of a decision
        Column("chain", LargeBinary, nullable=False),
        Column("author", String(MAX_AUTHOR)),  # who changed the experiment: the name of a key or a person
    ]


events = Table("glcb_events", metadata, *_event_columns(is_key=True), sqlite_with_rowid=False)

# Events after the last good one of a damaged experiment. Another event took their place: the prefix of ids
# that it has is the name of the recovery.
set_aside = Table(
    "glcb_set_aside",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("recovery", String(40), nullable=False),
    *_event_columns(is_key=False),
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

# Only services with several workers have these tables, so they do not belong to the format of a database.
worker_metadata = MetaData()

workers = Table(
    "glcb_workers",
    worker_metadata,
    Column("name", String(MAX_WORKER_NAME), primary_key=True),
    Column("incarnation", String(32), nullable=False),  # identifies the process, also after it has ended
    Column("address", Text, nullable=False),  # where other workers reach it
    Column("advertise", Text),  # where clients reach it, if they may
    Column("host", Text, nullable=False),
    Column("process", Integer, nullable=False),
    Column("expires", DateTime(timezone=True), nullable=False),
    Column("stopping", Boolean, nullable=False),
    Column(
        "restarts", Integer, nullable=False
    ),  # number of rolling restarts that were requested at its start
)

partitions = Table(
    "glcb_partitions",
    worker_metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("worker", String(32)),  # the incarnation of its owner
    Column("epoch", BigInteger, nullable=False),
)

# What administrators want: the worker of a partition, and the workers without partitions.
pins = Table(
    "glcb_pins",
    worker_metadata,
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("worker", String(MAX_WORKER_NAME), nullable=False),
)
drains = Table("glcb_drains", worker_metadata, Column("worker", String(MAX_WORKER_NAME), primary_key=True))

DELETED_PREFIX = "-"
"""Starts the placeholder name of a deleted experiment; no valid name starts with it. The last event of a
deleted experiment says so, too: a damaged name deletes nothing."""
DELETE = "delete"
"""The kind of that event."""


def prepare(connection: Connection) -> None:
    """Create the tables in an empty database, in the transaction of ``connection``.

    Raises
    ------
    StorageError
        The database has another format.
    """
    found = _read_format(connection)
    if found is None:
        metadata.create_all(connection)
        values = {"version": str(DATABASE.number), "id": secrets.token_hex(16), "epoch": "0"}
        connection.execute(about.insert(), [{"name": name, "value": value} for name, value in values.items()])
    elif found != str(DATABASE.number):
        raise DATABASE.mismatch("the database", found)


def read_about(connection: Connection, name: str) -> str | None:
    """Return a value of the table that describes the database."""
    return connection.execute(select(about.c.value).where(about.c.name == name)).scalar()


def _read_format(connection: Connection) -> str | None:
    """Return the format of an existing database, or None for an empty one."""
    return read_about(connection, "version") if inspect(connection).has_table(about.name) else None
