"""The database of the service: experiments, their events and their snapshots."""

import contextlib
import logging
import math
import sqlite3
import threading
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    Connection,
    LargeBinary,
    Row,
    Table,
    and_,
    cast,
    delete,
    func,
    insert,
    literal,
    select,
    text,
    update,
)
from sqlalchemy.exc import SQLAlchemyError

from glcb._errors import InvalidSettings, StorageError
from glcb.service.config import ServiceSettings
from glcb.service.events import Event
from glcb.service.storage import locks, tables
from glcb.service.storage.appender import EventAppender
from glcb.service.storage.chain import LINK_BYTES, EventRow, Head, first_link, next_link
from glcb.service.storage.connection import (
    connect,
    database_is_missing,
    database_location,
    database_url,
    disconnect,
    parse_url,
    rejections,
    sqlite_file,
    storage_errors,
)
from glcb.service.storage.marks import MarkFile
from glcb.service.storage.ownership import LEASE_SECONDS, TAKEN_OVER, Epoch, keep_worker, partition_of
from glcb.service.storage.rows import ExperimentRow, Pruned, SnapshotRow
from glcb.service.storage.tables import (
    DELETE,
    DELETED_PREFIX,
    about,
    evaluations,
    events,
    experiments,
    parts,
    snapshots,
)
from glcb.service.storage.threads import StorageThreads, database_call

log = logging.getLogger("glcb.service")

PART_BYTES = 1 << 20
"""Snapshots are written in parts of this size, so that no commit waits long for one."""
_PAGE_EVENTS = 1000
"""Maximum number of events read or deleted at a time."""
_PAGE_BYTES = 8 << 20
"""Maximum size of the events read or deleted at a time; a larger event is a page of its own."""
_THREADS = 8
"""Threads for calls to the database."""
_EXPORT_THREADS = 2
"""Threads for exports, which must not keep experiments from being loaded."""


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
    idle = LEASE_SECONDS if settings.has_workers else None
    return Database(database_url(settings), settings.storage_seconds, settings.high_water_file, idle=idle)


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
    deadline
        Seconds after which a call to the database counts as failed.
    high_water_file
        Where the service notes the last events outside the database. By default, beside a SQLite file, and
        nowhere for PostgreSQL.
    read_only
        Refuse all writes, and create nothing.
    idle
        Seconds after which PostgreSQL ends an idle transaction; by default, those of ``deadline``.
    """

    def __init__(
        self,
        url: str | URL,
        deadline: float = 10.0,
        high_water_file: str | None = None,
        *,
        read_only: bool = False,
        idle: float | None = None,
    ) -> None:
        self.url = parse_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.deadline = deadline
        self.engine = connect(self.url, deadline, read_only, idle)
        self.threads = StorageThreads(_THREADS, deadline)
        self.export_threads = StorageThreads(_EXPORT_THREADS, deadline)
        file = sqlite_file(self.url)
        self._file = None if file is None else file.resolve()
        mark = high_water_file or (None if file is None else f"{self._file}.mark")
        self.marks = None if mark is None else MarkFile(Path(mark))
        # SQLite allows one writer. Waiting on this lock wakes at once; waiting inside SQLite polls.
        self._write_lock = threading.Lock()
        self._appender = EventAppender(self.engine, self.is_sqlite)
        self._is_appending = False
        self._is_closed = False
        self._heads: dict[int, Head] = {}
        self._written: dict[int, Head] = {}
        """The last events that this service has read or written, without those that it knows to be lost."""
        self._lock: locks.Lock | None = None
        self._watch_lock = threading.Lock()
        self._files: locks.SqliteFiles | None = None
        self._keeper: Any = None
        self._epoch = Epoch()
        self.partitions: frozenset[int] | None = None
        """The partitions of this worker; None if this process is the whole service."""
        if read_only:
            return
        try:
            with self.write() as connection:
                tables.prepare(connection)
        except UnicodeDecodeError as error:  # in a message of SQLite about its schema
            self.close()
            raise StorageError(f"the database is damaged: {error.object!r}") from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close all connections and end the threads. What hangs is closed, or ends, when its call returns."""
        self._is_closed = True
        for threads in (self.threads, self.export_threads):
            threads.close()
        if not self._is_appending:
            self._appender.close()
        disconnect(self.engine)

    # ---- transactions ---------------------------------------------------------------------------

    @contextlib.contextmanager
    def write(self) -> Iterator[Connection]:
        """Yield a connection in a transaction that commits on exit and rolls back on an error."""
        with self._checked_files(), self._transaction() as connection:
            self._epoch.verify(connection)
            yield connection

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with (
            database_call(),
            self._single_writer(),
            storage_errors("written to"),
            self.engine.connect().execution_options(writes=True) as connection,
            connection.begin(),
        ):
            yield connection

    @contextlib.contextmanager
    def read(self) -> Iterator[Connection]:
        """Yield a connection that reads one consistent state of the database."""
        with (
            database_call(),
            storage_errors("read"),
            self.engine.connect() as connection,
            connection.begin(),
        ):
            yield connection

    def _single_writer(self) -> contextlib.AbstractContextManager[object]:
        return self._write_lock if self.is_sqlite else contextlib.nullcontext()

    # ---- ownership ------------------------------------------------------------------------------

    @contextlib.contextmanager
    def exclusive(self, timeout: float) -> Iterator[None]:
        """Keep other services off this database; raise StorageError if one still runs after ``timeout``."""
        lock = locks.AdvisoryLock(self.engine) if self._file is None else locks.FileLock(self._file)
        with contextlib.ExitStack() as stack:
            stack.callback(lock.close)
            locks.wait_for(lock, timeout)
            if self._file is not None:  # as long as a connection is open, SQLite keeps its write-ahead log
                self._keeper = self.engine.raw_connection()
                stack.callback(self._keeper.close)
            identity = self._take_over()
            if self._file is not None:
                self._files = locks.SqliteFiles(self._file)
            self._lock = lock
            stack.callback(self._release)
            if self.marks is not None:
                self.marks.open(identity)
                stack.callback(self.marks.close)
                heads, damaged = self.marks.read()
                for number in damaged:
                    log.error("the high-water mark is damaged", extra={"id": number})
                self._heads.update(heads)
                self._log_vanished(set(self._heads))
                self._complete_marks(self.marks)
            for number, is_deleted in self.hidden().items():
                if not is_deleted:
                    log.error("the name of an experiment is damaged: restore a backup", extra={"id": number})
            yield

    def _take_over(self) -> str:
        """Raise the epoch, once no transaction of an earlier service can commit; return the database's id."""
        with self._transaction() as connection:
            self._epoch.take_database(connection)
            return str(tables.read_about(connection, "id"))

    def _release(self) -> None:
        self._lock, self._files = None, None
        self._epoch.release()

    @contextlib.contextmanager
    def joining(self, worker: str, incarnation: str) -> Iterator[tuple[Connection, bool]]:
        """Be one of several workers after the block, in whose transaction it joins (:meth:`Epoch.join`)."""
        epoch = Epoch()
        with self._transaction() as connection:
            yield connection, epoch.join(connection, worker, incarnation)
        self._epoch, self.partitions = epoch, frozenset()

    def leave(self) -> None:
        """Write nothing from now on."""
        self._epoch.release()

    @contextlib.contextmanager
    def share(self, timeout: float) -> Iterator[None]:
        """Keep services that are one process off PostgreSQL; raise StorageError if one still runs then."""
        with contextlib.closing(locks.AdvisoryLock(self.engine, is_shared=True)) as lock:
            locks.wait_for(lock, timeout)
            self._lock = lock
            try:
                yield
            finally:
                self._lock = None

    @contextlib.contextmanager
    def quiet(
        self, worker: str, others: Mapping[str, str], seconds: float
    ) -> Iterator[tuple[Connection, set[str]]]:
        """Yield a connection like :meth:`write`, once no earlier transaction of this worker can commit.

        Parameters
        ----------
        worker
            The name of this worker.
        others
            The incarnations of other workers, by name. Those that can still write are yielded, too, and stay
            so until the commit.
        seconds
            How long to wait for other transactions.
        """
        with self._transaction() as connection:
            connection.execute(text(f"SET LOCAL lock_timeout TO {round(1000 * seconds)}"))
            alive = set()
            for name in sorted({worker, *others}):  # all workers lock rows in the same order
                if name == worker:
                    self._epoch.fence(connection)
                elif keep_worker(connection, name, others[name]):
                    alive.add(name)
            yield connection, alive

    def confirm(self) -> None:
        """Raise StorageError unless this process is still a worker. Call it like :meth:`append`.

        What it read before is then current: nobody else can have written meanwhile.
        """
        errors = (SQLAlchemyError, self.engine.dialect.loaded_dbapi.Error)
        with storage_errors("read", errors):
            self._appender.confirm(self._epoch)

    def _log_vanished(self, known: set[int]) -> None:
        for number in sorted(known - self.experiment_ids()):
            log.error(
                "an experiment has vanished from the database",
                extra={"id": number, "events": self._heads.pop(number).sequence},
            )

    def _complete_marks(self, marks: MarkFile) -> None:
        """Read the last events, and note those of experiments that the mark does not have, or no longer."""
        for number in self.experiment_ids():
            with self.read() as connection:
                head = _last_event(connection, number)
            if head is not None:
                self._written[number] = head
                if number not in self._heads:
                    marks.set(number, head)

    @contextlib.contextmanager
    def _checked_files(self) -> Iterator[None]:
        """Raise StorageError if the database or the lock file was deleted, replaced or truncated.

        Before the block as well as after it: a write would fill the gap of a truncated file.
        """
        self._check_files()
        try:
            yield
        except StorageError:
            self._check_files()  # the likely cause
            raise
        self._check_files()
        if self._lock is not None:
            self._lock.check()

    def _check_files(self) -> None:
        if self._files is not None and (shrunk := self._files.shrunk()):
            self._files.confirm(shrunk, self._has_all_events(self._file in shrunk))

    def _has_all_events(self, is_cut: bool) -> bool:
        """Return whether the SQLite files have the last events that this service has read or written.

        If the database file itself was cut, it must also be intact. A connection of its own reads them: those
        in use remember what they have read before.
        """
        query = "SELECT chain FROM glcb_events WHERE experiment = ? AND sequence = ?"
        try:
            with contextlib.closing(sqlite3.connect(str(self._file))) as connection:
                is_intact = not is_cut or connection.execute("PRAGMA quick_check(1)").fetchone() == ("ok",)
                return is_intact and all(
                    connection.execute(query, (number, head.sequence)).fetchone() == (head.link,)
                    for number, head in dict(self._written).items()
                )
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorname in ("SQLITE_CORRUPT", "SQLITE_IOERR_SHORT_READ"):
                return False
            raise StorageError(f"the database cannot be read: {error}") from error  # it may be temporary

    def watch(self) -> None:
        """Acquire a lost lock again; raise StorageError if another service has it. Call it periodically."""
        with self._watch_lock:  # an advisory lock has a single connection
            if self._lock is not None and not self._lock.acquire():
                raise StorageError(TAKEN_OVER)

    def fence(self) -> None:
        """Wait until no earlier transaction of this service can commit any more.

        A transaction whose connection was lost may still be running in PostgreSQL. It has a share lock on
        the epoch.
        """
        with self._transaction() as connection:
            self._epoch.fence(connection)

    def probe(self) -> None:
        """Raise StorageError unless the database accepts writes and this service still owns it."""
        self.watch()
        try:
            self._check_files()
        except locks.ReplacedFile:
            self._checkpoint()
            raise
        self.fence()
        with self.write() as connection:
            connection.execute(about.delete().where(about.c.name == self._epoch.probe))
            connection.execute(about.insert().values(name=self._epoch.probe, value="x" * 8192))

    def _checkpoint(self) -> None:
        """Copy the write-ahead log, which may have been deleted, into the SQLite file."""
        with contextlib.suppress(Exception), contextlib.closing(self._keeper.cursor()) as cursor:
            cursor.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    # ---- events ---------------------------------------------------------------------------------

    def append(self, rows: Sequence[EventRow]) -> None:
        """Insert events of any experiments in one transaction. Call it from one thread only.

        Raises
        ------
        RejectedEvents
            The content of an event cannot be stored. Nothing was written.
        StorageError
            The events were not written, or it is unknown whether they were; or the events before them, the
            files of the database or the ownership of this service were lost.
        """
        errors = (SQLAlchemyError, self.engine.dialect.loaded_dbapi.Error)
        self._is_appending = True
        try:
            with (
                self._checked_files(),
                self._single_writer(),
                storage_errors("written to", errors),
                rejections(self.engine.dialect.loaded_dbapi),
            ):
                heads = self._appender.append(rows, self._epoch, self._heads)
        finally:
            self._is_appending = False
            if self._is_closed:
                self._appender.close()
        for experiment, head in heads.items():
            self._note(experiment, head)

    def _note(self, experiment: int, head: Head) -> None:
        """Remember the last event of an experiment, here and outside the database."""
        self._heads[experiment] = self._written[experiment] = head
        if self.marks is not None:
            self.marks.set(experiment, head)

    def lost_events(self, experiment: int, known: Head | None = None) -> str | None:
        """Return which acknowledged events are missing at the end, or None.

        Parameters
        ----------
        experiment
            The id of the experiment.
        known
            An event that must exist; by default, the last one that this service knows.
        """
        head = known or self._heads.get(experiment)
        if head is None:
            return None
        query = select(events.c.chain).filter_by(experiment=experiment, sequence=head.sequence)
        with self.read() as connection:
            last = _last_event(connection, experiment)
            link = connection.execute(query).scalar()
        if link is not None:
            return None if link == head.link else f"event {head.sequence} has been replaced"
        first = 1 if last is None else last.sequence + 1
        lost = f"event {first}" if first == head.sequence else f"events {first} to {head.sequence}"
        return f"{lost} were acknowledged but are not in the database"

    def known_sequence(self, experiment: int) -> int:
        """Return the sequence number of the last event that this service knows; 0 if it knows none."""
        head = self._heads.get(experiment)
        return 0 if head is None else head.sequence

    def link(self, experiment: int, sequence: int) -> bytes | None:
        """Return the link of an event, even if it was the last one to be pruned; None if it is missing."""
        query = select(events.c.chain).filter_by(experiment=experiment, sequence=sequence)
        with self.read() as connection:
            found = connection.execute(query).scalar()
        pruned = self.pruned(experiment)
        return pruned.link if found is None and sequence == pruned.sequence else found

    def last_sequence(self, experiment: int, before: float = math.inf) -> int:
        """Return the sequence number of the last event of an experiment, or before one; 0 without any."""
        query = select(func.max(events.c.sequence)).where(events.c.experiment == experiment)
        if before < math.inf:
            query = query.where(events.c.sequence < before)
        with self.read() as connection:
            return int(connection.execute(query).scalar() or 0)

    def event(self, experiment: int, sequence: int) -> Event | None:
        """Return one event, or None if it was pruned."""
        return next(self.events(experiment, sequence - 1, sequence), None)

    def events(self, experiment: int, after: int, up_to: int | None = None) -> Iterator[Event]:
        """Yield the events with ``after < sequence <= up_to`` in order, reading a page at a time."""
        columns = [getattr(events.c, name) for name in Event._fields]
        return (Event._make(row) for row in self._pages(columns, experiment, after, up_to))

    def linked_events(
        self, experiment: int, after: int, up_to: int | None = None
    ) -> Iterator[tuple[Event, bytes]]:
        """Yield events like :meth:`events`, each with its link in the chain."""
        columns = [*(getattr(events.c, name) for name in Event._fields), events.c.chain]
        return ((Event._make(row[:-1]), row[-1]) for row in self._pages(columns, experiment, after, up_to))

    def _pages(
        self, columns: Sequence[Any], experiment: int, after: int, up_to: int | None
    ) -> Iterator[Row[Any]]:
        while (last := self._page_end(experiment, after, up_to)) is not None:
            where = (events.c.experiment == experiment, events.c.sequence.between(after + 1, last))
            with self.read() as connection:
                rows = connection.execute(select(*columns).where(*where).order_by(events.c.sequence)).all()
            yield from rows
            after = last

    def _page_end(self, experiment: int, after: int, up_to: int | None) -> int | None:
        """Return the last sequence number of the next page, or None if there are no more events."""
        size = func.length(events.c.request) + func.length(events.c.outcome) + func.length(events.c.record)
        query = select(events.c.sequence, size).where(
            events.c.experiment == experiment, events.c.sequence > after
        )
        if up_to is not None:
            query = query.where(events.c.sequence <= up_to)
        last, total = None, 0
        with self.read() as connection:
            for sequence, size_in_bytes in connection.execute(
                query.order_by(events.c.sequence).limit(_PAGE_EVENTS)
            ):
                total += size_in_bytes
                if last is not None and total > _PAGE_BYTES:
                    break
                last = sequence
        return last

    # ---- experiments ----------------------------------------------------------------------------

    def experiments(self, partitions: Container[int] | None = None) -> list[ExperimentRow]:
        """Return all experiments, or those of some partitions, sorted by name."""
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
        at = (
            select(events.c.at)
            .where(events.c.experiment == experiments.c.id)
            .order_by(events.c.sequence.desc())
            .limit(1)
            .scalar_subquery()
        )
        joined = experiments.outerjoin(
            snapshots, and_(snapshots.c.experiment == experiments.c.id, snapshots.c.sequence == newest)
        )
        stored = snapshots.c
        columns = (experiments.c.id, experiments.c.name, last, stored.sequence, stored.summary, at)
        with self.read() as connection:
            named = select(*columns).select_from(joined).where(~experiments.c.name.startswith(DELETED_PREFIX))
            if partitions is not None:
                all_names = connection.execute(select(experiments.c.id, experiments.c.name)).all()
                own = [number for number, name in all_names if partition_of(name) in partitions]
                named = named.where(experiments.c.id.in_(own))
            rows = connection.execute(named.order_by(experiments.c.name)).all()
        return [
            ExperimentRow(number, name, max(last or 0, taken or 0), taken or 0, summary or b"", at or 0.0)
            for number, name, last, taken, summary, at in rows
        ]

    def experiment_names(self) -> list[str]:
        """Return the names of all experiments, sorted."""
        named = select(experiments.c.name).where(~experiments.c.name.startswith(DELETED_PREFIX))
        with self.read() as connection:
            return list(connection.execute(named.order_by(experiments.c.name)).scalars())

    def forget(self, ids: Iterable[int]) -> None:
        """Forget the last events of experiments that another worker owns from now on."""
        for number in ids:
            self._heads.pop(number, None)
            self._written.pop(number, None)

    def experiment_id(self, name: str) -> int | None:
        """Return the id of an experiment in any partition, or None."""
        with self.read() as connection:
            return connection.execute(select(experiments.c.id).where(experiments.c.name == name)).scalar()

    def count_experiments(self) -> int:
        """Return the number of experiments in all partitions."""
        named = select(func.count()).where(~experiments.c.name.startswith(DELETED_PREFIX))
        with self.read() as connection:
            return int(connection.execute(named).scalar_one())

    def experiment_ids(self) -> set[int]:
        """Return the ids of all experiments, including deleted ones whose rows have not been removed."""
        with self.read() as connection:
            return set(connection.execute(select(experiments.c.id)).scalars())

    def create(self, name: str, first: Event) -> int:
        """Insert an experiment with its first event; return its id."""
        with self.write() as connection:
            key = connection.execute(insert(experiments).values(name=name)).inserted_primary_key
            assert key is not None
            number = int(key[0])
            link = next_link(first_link(number), *first)
            connection.execute(insert(events).values(experiment=number, chain=link, **first._asdict()))
        self._note(number, Head(first.sequence, link))
        return number

    def delete(self, experiment: int, at: float, author: str | None = None) -> None:
        """Record that an experiment is deleted, and free its name; :meth:`sweep` removes its rows."""
        placeholder = {"name": f"{DELETED_PREFIX}{experiment}"}
        with self.write() as connection:
            head = _last_event(connection, experiment) or Head(0, first_link(experiment))
            event = Event(head.sequence + 1, at, DELETE, b"", b"", author=author)
            link = next_link(head.link, *event)
            connection.execute(insert(events).values(experiment=experiment, chain=link, **event._asdict()))
            connection.execute(update(experiments).where(experiments.c.id == experiment).values(placeholder))
        # The mark stays: by now, another thread may have removed the rows and cleared it.

    def hidden(self) -> dict[int, bool]:
        """Return the experiments with the placeholder of a deleted one, and whether they were deleted."""
        last = (
            select(events.c.kind)
            .where(events.c.experiment == experiments.c.id)
            .order_by(events.c.sequence.desc())
            .limit(1)
            .scalar_subquery()
        )
        query = select(experiments.c.id, last).where(experiments.c.name.startswith(DELETED_PREFIX))
        with self.read() as connection:
            return {row[0]: row[1] == DELETE for row in connection.execute(query)}

    def nameless(self) -> dict[int, int]:
        """Return the experiments that have events but no row, and their numbers of events."""
        count = select(events.c.experiment, func.count()).group_by(events.c.experiment)
        known = select(experiments.c.id)
        with self.read() as connection:
            rows = connection.execute(count.where(events.c.experiment.not_in(known))).all()
        return {row[0]: row[1] for row in rows}

    def sweep(self, experiment: int | None = None) -> None:
        """Remove the rows of one or all deleted experiments in small transactions: no writer waits long."""
        deleted = [number for number, is_deleted in self.hidden().items() if is_deleted]
        for number in deleted if experiment is None else {experiment}.intersection(deleted):
            after, up_to = 0, self.last_sequence(number) - 1
            while (last := self._page_end(number, after, up_to)) is not None:
                with self.write() as connection:
                    connection.execute(_events_up_to(number, last))
                after = last
            self._heads.pop(number, None)
            self._written.pop(number, None)
            if self.marks is not None:
                self.marks.clear(number)
            with self.write() as connection:  # together with the last event, which says that it is deleted
                for table in (events, tables.set_aside, snapshots, parts, evaluations):
                    connection.execute(delete(table).where(table.c.experiment == number))
                connection.execute(delete(experiments).where(experiments.c.id == number))

    def digest_after(self, experiment: int, sequence: int) -> tuple[int, str]:
        """Return the number of events after one, and a digest of them."""
        where = (events.c.experiment == experiment, events.c.sequence > sequence)
        return self._digest(events, where)

    def digest_of(self, recovery: str) -> tuple[int, str]:
        """Return the number of events that a recovery has set aside, and a digest of them."""
        return self._digest(tables.set_aside, (tables.set_aside.c.recovery == recovery,))

    def _digest(self, table: Table, where: Sequence[Any]) -> tuple[int, str]:
        """Return the number and a digest of rows, whatever the type of their content is."""
        names = ("kind", "request", "outcome", "record", "chain", "author")
        contents: list[Any] = [table.c[name] for name in names]
        if self.is_sqlite:  # a damaged row can have values of any type
            contents = [cast(column, LargeBinary) for column in contents]
        query = select(table.c.sequence, *contents).where(*where).order_by(table.c.sequence)
        digest, count = blake2b(digest_size=LINK_BYTES), 0
        with self.read() as connection:
            for row in connection.execute(query.execution_options(yield_per=_PAGE_EVENTS)):
                for part in (str(row[0]), *row[1:]):
                    content = part.encode() if isinstance(part, str) else part
                    digest.update(b"-" if content is None else len(content).to_bytes(8) + content)
                count += 1
        return count, digest.hexdigest()

    def set_aside(self, experiment: int, event: Event, recovery: str) -> None:
        """Move later events away, and delete later snapshots; an event takes the place of the first one.

        Raises
        ------
        StorageError
            The event before it is missing, so that the chain cannot continue. Nothing has changed.
        """
        place, first = tables.set_aside, event.sequence
        before = self.link(experiment, first - 1)
        if before is None:
            raise StorageError(f"event {first - 1} is missing, so the chain of events cannot continue")
        link = next_link(before, *event)
        later = (events.c.experiment == experiment, events.c.sequence >= first)
        with self.write() as connection:
            moved = select(literal(recovery), *events.columns).where(*later)
            names = ["recovery", *events.columns.keys()]
            connection.execute(insert(place).from_select(names, moved))
            connection.execute(delete(events).where(*later))
            for table in (snapshots, parts):
                where = (table.c.experiment == experiment, table.c.sequence >= first)
                connection.execute(delete(table).where(*where))
            connection.execute(insert(events).values(experiment=experiment, chain=link, **event._asdict()))
            # Before the commit: if it fails, the experiment is still damaged, and can be recovered again.
            self._note(experiment, Head(first, link))

    # ---- snapshots ------------------------------------------------------------------------------

    def snapshots(self, experiment: int) -> list[SnapshotRow]:
        """Return the snapshots of an experiment from which its events continue, oldest first.

        A snapshot whose write took so long that a later one was finished first may be older than the events
        that were pruned meanwhile.
        """
        columns = (getattr(snapshots.c, name) for name in SnapshotRow._fields)
        pruned = select(experiments.c.pruned_sequence).where(experiments.c.id == experiment).scalar_subquery()
        usable = (snapshots.c.experiment == experiment, snapshots.c.sequence > func.coalesce(pruned, 0))
        query = select(*columns).where(*usable)
        with self.read() as connection:
            return [SnapshotRow(*row) for row in connection.execute(query.order_by(snapshots.c.sequence))]

    def save_snapshot(self, experiment: int, row: SnapshotRow, content: bytes, summary: bytes) -> None:
        """Write a snapshot in parts. It exists once its row does; a failure removes the parts."""
        place = {"experiment": experiment, "sequence": row.sequence}
        pieces = [content[start : start + PART_BYTES] for start in range(0, len(content), PART_BYTES)]
        if row.sequence in [one.sequence for one in self.snapshots(experiment)]:
            if self.snapshot_content(**place) == content:
                return  # an earlier attempt has succeeded, although it seemed to fail
            with self.write() as connection:
                connection.execute(delete(snapshots).filter_by(**place))
        self._delete_parts(place)  # an interrupted attempt may have left some
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
                self._delete_parts(place)
            raise

    def snapshot_content(self, experiment: int, sequence: int) -> bytes:
        """Return the content that :meth:`save_snapshot` wrote."""
        query = select(parts.c.content).filter_by(experiment=experiment, sequence=sequence)
        with self.read() as connection:
            return b"".join(connection.execute(query.order_by(parts.c.part)).scalars())

    def prune(self, experiment: int, keep: int, before: float, now: float) -> None:
        """Keep the newest ``keep`` snapshots; delete old events that none of them needs.

        Parameters
        ----------
        experiment
            The id of the experiment.
        keep
            Number of snapshots to keep.
        before
            Delete events that are older than this time, except the last one.
        now
            The time to record.
        """
        rows = self.snapshots(experiment)
        if len(rows) > keep:
            oldest = rows[-keep].sequence
            with self.write() as connection:
                for table in (snapshots, parts):
                    connection.execute(
                        delete(table).where(table.c.experiment == experiment, table.c.sequence < oldest)
                    )
        if rows:
            self._prune_events(experiment, rows[-min(keep, len(rows))].sequence - 1, before, now)

    def _prune_events(self, experiment: int, up_to: int, before: float, now: float) -> None:
        """Delete the first events in pages, each with a record of what was pruned."""
        query = select(events.c.sequence, events.c.chain).where(events.c.experiment == experiment)
        while (end := self._page_end(experiment, 0, up_to)) is not None:
            old = query.where(events.c.sequence <= end, events.c.at < before)
            with self.read() as connection:
                last = connection.execute(old.order_by(events.c.sequence.desc()).limit(1)).first()
            if last is None:
                return
            record = {"pruned_sequence": last.sequence, "pruned_chain": last.chain, "pruned_at": now}
            with self.write() as connection:
                connection.execute(_events_up_to(experiment, last.sequence))
                connection.execute(update(experiments).where(experiments.c.id == experiment).values(record))

    def pruned(self, experiment: int) -> Pruned:
        """Return what was pruned from an experiment."""
        columns = (experiments.c.pruned_sequence, experiments.c.pruned_chain, experiments.c.pruned_at)
        with self.read() as connection:
            row = connection.execute(select(*columns).where(experiments.c.id == experiment)).one()
        return Pruned(*row)

    def _delete_parts(self, place: dict[str, int]) -> None:
        """Delete the parts of a snapshot that does not exist."""
        row = select(snapshots.c.sequence).filter_by(**place)
        with self.write() as connection:
            connection.execute(delete(parts).filter_by(**place).where(~row.exists()))


def _last_event(connection: Connection, experiment: int) -> Head | None:
    query = select(events.c.sequence, events.c.chain).where(events.c.experiment == experiment)
    row = connection.execute(query.order_by(events.c.sequence.desc()).limit(1)).first()
    return None if row is None else Head(*row)


def _events_up_to(experiment: int, sequence: int) -> Any:
    return delete(events).where(events.c.experiment == experiment, events.c.sequence <= sequence)
