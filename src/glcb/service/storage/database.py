"""The database of the service: experiments, their events and their snapshots."""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import URL, Connection, and_, delete, func, insert, select, update
from sqlalchemy.exc import SQLAlchemyError

from glcb._errors import InvalidSettings, StorageError
from glcb.service.config import ServiceSettings
from glcb.service.storage import locks, tables
from glcb.service.storage.connection import (
    EventAppender,
    EventRow,
    connect,
    database_is_missing,
    database_location,
    database_url,
    parse_url,
    storage_errors,
)
from glcb.service.storage.tables import DELETED_PREFIX, events, experiments, parts, snapshots

PART_BYTES = 1 << 20
"""Snapshots are written in parts of this size, so that no commit waits long for one."""
_READ_EVENTS = 1000
"""Events read per query."""
_DELETE_EVENTS = 5000
"""Events deleted per transaction."""


class Event(NamedTuple):
    """A change of an experiment."""

    sequence: int
    at: float
    kind: str
    request: bytes
    outcome: bytes


class ExperimentRow(NamedTuple):
    """An experiment in the database."""

    id: int
    name: str
    last_sequence: int
    """Sequence number of its last event."""
    snapshot_sequence: int
    """Sequence number of the last event in its newest snapshot; 0 without a snapshot."""
    summary: bytes
    """The encoded ``ExperimentInfo`` of its newest snapshot; empty without a snapshot."""


class SnapshotRow(NamedTuple):
    """A snapshot without its content."""

    sequence: int
    at: float
    digest: str
    parts: int


def open_database(settings: ServiceSettings) -> "Database":
    """Open the configured database; create a missing SQLite file.

    Raises
    ------
    InvalidSettings
        The folder of the SQLite file does not exist.
    StorageError
        The database cannot be opened, or another version of glcb wrote it.
    """
    if settings.database is None:
        folder = Path(settings.data).absolute().parent
        if not folder.is_dir():
            raise InvalidSettings(f"there is no folder {folder} for the data file: create it first")
    return Database(database_url(settings))


def open_existing_database(settings: ServiceSettings) -> "Database":
    """Open the configured database; raise InvalidSettings if it does not exist."""
    if database_is_missing(settings):
        raise InvalidSettings(
            f"there is no database {database_location(settings)}: change to its folder, or pass --data FILE "
            "or --database URL"
        )
    return open_database(settings)


class Database:
    """Experiments, events, snapshots and API keys in one SQLite or PostgreSQL database.

    Parameters
    ----------
    url
        Where the database is. Missing tables are created.
    """

    def __init__(self, url: str | URL) -> None:
        self.url = parse_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.engine = connect(self.url)
        # SQLite allows one writer. Waiting on this lock wakes at once; waiting inside SQLite polls.
        self._write_lock = threading.Lock()
        self._service_lock: locks.Lock | None = None
        self._appender = EventAppender(self.engine, self.is_sqlite)
        try:
            with self.write() as connection:
                tables.migrate(connection)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close all connections."""
        self._appender.close()
        self.engine.dispose()

    # ---- transactions ---------------------------------------------------------------------------

    @contextlib.contextmanager
    def write(self) -> Iterator[Connection]:
        """Yield a connection in a transaction that commits on exit and rolls back on an error."""
        with (
            self._single_writer(),
            storage_errors("written to"),
            self.engine.connect().execution_options(writes=True) as connection,
            connection.begin(),
        ):
            yield connection

    @contextlib.contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield a connection that reads one consistent state of the database."""
        with storage_errors("read"), self.engine.connect() as connection, connection.begin():
            yield connection

    def probe(self) -> None:
        """Raise StorageError unless the database accepts writes and this service still holds its lock."""
        if self._service_lock is not None and not self._service_lock.acquire():
            raise StorageError("another service has taken over this database")
        with self.write() as connection:
            connection.execute(tables.about.delete().where(tables.about.c.name == "probe"))
            connection.execute(tables.about.insert().values(name="probe", value="x" * 8192))

    @contextlib.contextmanager
    def exclusive(self, timeout: float) -> Iterator[None]:
        """Keep other services off this database; raise StorageError if one still runs after ``timeout``."""
        lock = locks.FileLock(self.url) if self.is_sqlite else locks.AdvisoryLock(self.engine)
        with contextlib.closing(lock):
            locks.wait_for(lock, timeout)
            self._service_lock = lock
            yield

    def _single_writer(self) -> contextlib.AbstractContextManager[object]:
        return self._write_lock if self.is_sqlite else contextlib.nullcontext()

    # ---- events ---------------------------------------------------------------------------------

    def append(self, rows: Sequence[EventRow]) -> None:
        """Insert events of any experiments in one transaction. Call it from one thread only."""
        errors = (SQLAlchemyError, self.engine.dialect.loaded_dbapi.Error)
        with self._single_writer(), storage_errors("written to", errors):
            self._appender.append(rows)

    def event(self, experiment: int, sequence: int) -> Event | None:
        """Return one event, or None if it was pruned."""
        return next(self.events(experiment, sequence - 1, sequence), None)

    def events(self, experiment: int, after: int, up_to: int | None = None) -> Iterator[Event]:
        """Yield the events with ``after < sequence <= up_to`` in order, reading a page at a time."""
        while True:
            where = [events.c.experiment == experiment, events.c.sequence > after]
            if up_to is not None:
                where.append(events.c.sequence <= up_to)
            columns = (getattr(events.c, name) for name in Event._fields)
            with self.read() as connection:
                rows = connection.execute(
                    select(*columns).where(*where).order_by(events.c.sequence).limit(_READ_EVENTS)
                ).all()
            yield from (Event(*row) for row in rows)
            if len(rows) < _READ_EVENTS:
                return
            after = rows[-1].sequence

    def _delete_events(self, experiment: int, up_to: int | None, before: float | None) -> None:
        where = [events.c.experiment == experiment]
        if up_to is not None:
            where.append(events.c.sequence <= up_to)
        if before is not None:
            where.append(events.c.at < before)
        while True:
            page = select(events.c.sequence).where(*where).order_by(events.c.sequence).limit(_DELETE_EVENTS)
            with self.read() as connection:
                sequences = connection.execute(page).scalars().all()
            if not sequences:
                return
            with self.write() as connection:
                connection.execute(
                    delete(events).where(
                        events.c.experiment == experiment,
                        events.c.sequence.between(sequences[0], sequences[-1]),
                    )
                )

    # ---- experiments ----------------------------------------------------------------------------

    def experiments(self) -> list[ExperimentRow]:
        """Return all experiments, sorted by name."""
        last = (
            select(func.max(events.c.sequence))
            .where(events.c.experiment == experiments.c.id)
            .scalar_subquery()
        )
        others = snapshots.alias()
        newest = (
            select(func.max(others.c.sequence))
            .where(others.c.experiment == experiments.c.id)
            .scalar_subquery()
        )
        joined = experiments.outerjoin(
            snapshots, and_(snapshots.c.experiment == experiments.c.id, snapshots.c.sequence == newest)
        )
        columns = (experiments.c.id, experiments.c.name, last, snapshots.c.sequence, snapshots.c.summary)
        with self.read() as connection:
            named = select(*columns).select_from(joined).where(~experiments.c.name.startswith(DELETED_PREFIX))
            rows = connection.execute(named.order_by(experiments.c.name)).all()
        return [
            ExperimentRow(number, name, max(last or 0, snapshot or 0), snapshot or 0, summary or b"")
            for number, name, last, snapshot, summary in rows
        ]

    def create(self, name: str, first: Event) -> int:
        """Insert an experiment with its first event; return its id."""
        with self.write() as connection:
            key = connection.execute(insert(experiments).values(name=name)).inserted_primary_key
            assert key is not None
            connection.execute(insert(events).values(experiment=key[0], **first._asdict()))
            return int(key[0])

    def delete(self, experiment: int) -> None:
        """Free the name of an experiment, which deletes it; :meth:`sweep` removes its rows."""
        placeholder = {"name": f"{DELETED_PREFIX}{experiment}"}
        with self.write() as connection:
            connection.execute(update(experiments).where(experiments.c.id == experiment).values(placeholder))

    def sweep(self) -> None:
        """Remove the rows of deleted experiments in small transactions, so that no writer waits long."""
        deleted = select(experiments.c.id).where(experiments.c.name.startswith(DELETED_PREFIX))
        with self.read() as connection:
            ids = connection.execute(deleted).scalars().all()
        for number in ids:
            self._delete_events(number, None, None)
            with self.write() as connection:
                for table in (snapshots, parts):
                    connection.execute(delete(table).where(table.c.experiment == number))
                connection.execute(delete(experiments).where(experiments.c.id == number))

    # ---- snapshots ------------------------------------------------------------------------------

    def snapshots(self, experiment: int) -> list[SnapshotRow]:
        """Return the snapshots of an experiment, oldest first."""
        columns = (getattr(snapshots.c, name) for name in SnapshotRow._fields)
        query = select(*columns).where(snapshots.c.experiment == experiment)
        with self.read() as connection:
            return [SnapshotRow(*row) for row in connection.execute(query.order_by(snapshots.c.sequence))]

    def save_snapshot(self, experiment: int, row: SnapshotRow, content: bytes, summary: bytes) -> None:
        """Write a snapshot in parts. It exists once its row does; a failure removes the parts."""
        place = {"experiment": experiment, "sequence": row.sequence}
        pieces = [content[start : start + PART_BYTES] for start in range(0, len(content), PART_BYTES)]
        self._delete_snapshot(place)  # an interrupted attempt may have left parts
        try:
            for number, piece in enumerate(pieces):
                with self.write() as connection:
                    connection.execute(insert(parts).values(**place, part=number, content=piece))
            row = row._replace(parts=len(pieces))
            with self.write() as connection:
                connection.execute(
                    insert(snapshots).values(experiment=experiment, summary=summary, **row._asdict())
                )
        except StorageError:
            with contextlib.suppress(StorageError):  # free the disk space: events need it
                self._delete_snapshot(place)
            raise

    def snapshot_content(self, experiment: int, sequence: int) -> bytes:
        """Return the content that :meth:`save_snapshot` wrote."""
        query = select(parts.c.content).filter_by(experiment=experiment, sequence=sequence)
        with self.read() as connection:
            return b"".join(connection.execute(query.order_by(parts.c.part)).scalars())

    def prune(self, experiment: int, keep: int, before: float) -> None:
        """Keep the newest ``keep`` snapshots; delete events older than ``before`` that none of them needs."""
        rows = self.snapshots(experiment)
        if len(rows) > keep:
            oldest = rows[-keep].sequence
            with self.write() as connection:
                for table in (snapshots, parts):
                    connection.execute(
                        delete(table).where(table.c.experiment == experiment, table.c.sequence < oldest)
                    )
        if rows:
            self._delete_events(experiment, rows[-min(keep, len(rows))].sequence, before)

    def _delete_snapshot(self, place: dict[str, int]) -> None:
        with self.write() as connection:
            for table in (snapshots, parts):
                connection.execute(delete(table).filter_by(**place))
