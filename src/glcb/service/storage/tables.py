"""The tables of the service and their format version."""

import json
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

DELETED_PREFIX = "-"
"""Starts the placeholder name of a deleted experiment; no valid name starts with it."""

_OLDEST_VERSION = 2
"""The oldest format (of tables, events and snapshots) that can be migrated to the current one."""
_WRITERS = {1: "0.1"}
"""The releases of glcb that wrote formats whose events can no longer be replayed."""

Migration = Callable[[Connection], None]


def _rebuild_statistics(connection: Connection) -> None:
    """Format 3 has other statistics: delete the snapshots, so that the events are replayed from the first.

    Raises
    ------
    StorageError
        The first event of an experiment has been pruned. Nothing has changed.
    """
    complete = select(events.c.experiment).where(events.c.sequence == 1)
    pruned = select(experiments.c.name).where(
        experiments.c.id.not_in(complete), ~experiments.c.name.startswith(DELETED_PREFIX)
    )
    names = connection.execute(pruned.order_by(experiments.c.name)).scalars().all()
    if names:
        shown = ", ".join(map(repr, names))
        raise StorageError(
            f"the database has an older format, and the statistics of {shown} cannot be rebuilt because the "
            "first events have been pruned: keep serving it with the version of glcb that wrote it, or start "
            "a new database with --data or --database"
        )
    connection.execute(parts.delete())
    connection.execute(snapshots.delete())


def _reject_old_labels(connection: Connection) -> None:
    """Format 4 learns clicks and non-clicks at the same age: rebuild the snapshots, which have more arrays.

    Raises
    ------
    StorageError
        An experiment has a default reward, so its events would be replayed differently. Nothing has changed.
    """
    creations = (
        select(experiments.c.name, events.c.request)
        .join(events, events.c.experiment == experiments.c.id)
        .where(events.c.sequence == 1, ~experiments.c.name.startswith(DELETED_PREFIX))
    )
    names = []
    for name, request in connection.execute(creations.order_by(experiments.c.name)):
        settings = json.loads(request)["settings"]
        if settings.get("default_reward") is not None:
            names.append(name)
    if names:
        raise StorageError(
            f"the database has an older format, and {', '.join(map(repr, names))} learned default rewards at "
            "another time than this version does, so the events cannot be replayed: keep serving it with the "
            "version of glcb that wrote it, or start a new database with --data or --database"
        )
    _rebuild_statistics(connection)


def _reject_copied_arms(connection: Connection) -> None:
    """Format 5 copies an arm with less evidence.

    Raises
    ------
    StorageError
        An experiment has a copied arm, so its events would be replayed differently. Nothing has changed.
    """
    additions = (
        select(experiments.c.name, events.c.request)
        .join(events, events.c.experiment == experiments.c.id)
        .where(events.c.kind == "add_arm", ~experiments.c.name.startswith(DELETED_PREFIX))
    )
    rows = connection.execute(additions.order_by(experiments.c.name))
    names = sorted({name for name, request in rows if json.loads(request).get("like") is not None})
    if names:
        raise StorageError(
            f"the database has an older format, and {', '.join(map(repr, names))} copied an arm with more "
            "evidence than this version does, so the events cannot be replayed: keep serving it with the "
            "version of glcb that wrote it, or start a new database with --data or --database"
        )


MIGRATIONS: Sequence[Migration] = (_rebuild_statistics, _reject_old_labels, _reject_copied_arms)
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
        version = _OLDEST_VERSION
    elif version == target:
        return
    if version < _OLDEST_VERSION:
        writer = _WRITERS.get(version, "an earlier version")
        raise StorageError(
            f"the database was written by glcb {writer} (format {version}), but glcb {__version__} reads "
            f"format {target}: keep serving it with glcb {writer}, or start a new database with --data or "
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


def _read_version(connection: Connection) -> int | None:
    """Return the version of an existing database, or None for an empty one."""
    if not inspect(connection).has_table(about.name):
        return None
    stored = connection.execute(select(about.c.value).where(about.c.name == "version")).scalar()
    return None if stored is None else int(stored)
