"""Append events in one transaction, after a check that the database still has what came before."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any

from sqlalchemy import Engine

from glcb._errors import StorageError
from glcb.service.storage import tables
from glcb.service.storage.chain import EventRow, Head, first_link, link_rows, previous_events
from glcb.service.storage.ownership import Epoch

_EPOCH = "SELECT value FROM glcb_about WHERE name = {}"
_LINK = "SELECT chain FROM glcb_events WHERE experiment = ? AND sequence = ?"
_NAMES = ", ".join(tables.events.c.keys())
_ROW = f"({', '.join('?' * len(tables.events.c))})"
_MAX_ROWS = 64
"""Rows of one statement in SQLite, a power of 2. Python lets other threads run before and after a statement,
and has to wait for them: with one statement per row, that takes longer than the insertion."""

# PostgreSQL checks and inserts in one statement: one round trip. The share lock keeps another service from
# raising the epoch before the commit. A subquery is always answered by the index; for a join, the planner may
# read the whole table.
_CHECKED_INSERT = f"""
WITH about AS (SELECT value FROM glcb_about WHERE name = %b::text FOR SHARE)
INSERT INTO glcb_events ({_NAMES})
SELECT * FROM unnest(
    %b::int[], %b::bigint[], %b::float8[], %b::text[], %b::bytea[], %b::bytea[], %b::bytea[], %b::bytea[],
    %b::text[]
)
WHERE (%b::text IS NULL OR (SELECT value FROM about) = %b::text) AND NOT EXISTS (
    SELECT FROM unnest(%b::int[], %b::bigint[], %b::bytea[]) AS place (experiment, sequence, chain)
    WHERE place.sequence > 0 AND place.chain IS DISTINCT FROM (
        SELECT chain FROM glcb_events AS events
        WHERE events.experiment = place.experiment AND events.sequence = place.sequence
    )
)
"""
_EPOCH_AND_LINKS = """
SELECT about.value, place.experiment, (
    SELECT chain FROM glcb_events AS events
    WHERE events.experiment = place.experiment AND events.sequence = place.sequence
)
FROM glcb_about AS about
CROSS JOIN unnest(%s::int[], %s::bigint[]) AS place (experiment, sequence)
WHERE about.name = %s
"""


class EventAppender:
    """Inserts events on its own connection, through the driver itself: every response waits for it.

    Parameters
    ----------
    engine
        The connections of the database.
    is_sqlite
        Whether the database is SQLite.
    """

    def __init__(self, engine: Engine, is_sqlite: bool) -> None:
        self._engine = engine
        self._is_sqlite = is_sqlite
        self._connection: Any = None

    def append(self, rows: Sequence[EventRow], epoch: Epoch, known: Mapping[int, Head]) -> dict[int, Head]:
        """Insert events in one transaction; return the last event of each of their experiments.

        Parameters
        ----------
        rows
            The events, in order.
        epoch
            The epoch of this process.
        known
            The last events that this process knows.

        Raises
        ------
        StorageError
            Another service has taken over, or events that came before are missing or altered.
        """
        insert = self._insert_into_sqlite if self._is_sqlite else self._insert_into_postgresql
        with self._transaction() as cursor:
            return insert(cursor, rows, epoch, known)

    def confirm(self, epoch: Epoch) -> None:
        """Raise StorageError if another process has taken over."""
        query = _EPOCH.format("?" if self._is_sqlite else "%s")
        with self._transaction() as cursor:
            found = cursor.execute(query, (epoch.name,)).fetchone()
            epoch.check(None if found is None else found[0])

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Any]:
        try:
            if self._connection is None:
                self._connection = self._engine.raw_connection()
            with contextlib.closing(self._connection.cursor()) as cursor:
                yield cursor
            self._connection.commit()
        except BaseException:
            self.close()  # the next transaction starts with a fresh connection
            raise

    def _insert_into_sqlite(
        self, cursor: Any, rows: Sequence[EventRow], epoch: Epoch, known: Mapping[int, Head]
    ) -> dict[int, Head]:
        cursor.execute("BEGIN IMMEDIATE")
        previous = previous_events(rows)
        found = cursor.execute(_EPOCH.format("?"), (epoch.name,)).fetchone()
        links = {place[0]: cursor.execute(_LINK, place).fetchone() for place in previous.items()}
        epoch.check(None if found is None else found[0])
        heads = _checked(previous, {one: link and link[0] for one, link in links.items()}, known)
        linked, last = link_rows(rows, heads)
        start, size = 0, _MAX_ROWS
        while start < len(linked):
            if start + size > len(linked):
                size //= 2
                continue
            cursor.execute(_insert(size), tuple(chain.from_iterable(linked[start : start + size])))
            start += size
        return last

    def _insert_into_postgresql(
        self, cursor: Any, rows: Sequence[EventRow], epoch: Epoch, known: Mapping[int, Head]
    ) -> dict[int, Head]:
        previous = previous_events(rows)
        heads = {
            one: head
            for one, sequence in previous.items()
            if (head := known.get(one)) is not None and head.sequence == sequence
        }
        if len(heads) < len(previous):  # the first events of an experiment since the start
            heads = self._read_heads(cursor, previous, epoch, known)
        linked, last = link_rows(rows, heads)
        columns = [list(column) for column in zip(*linked, strict=True)]
        places = [list(column) for column in zip(*((one, *head) for one, head in heads.items()), strict=True)]
        cursor.execute(_CHECKED_INSERT, (epoch.name, *columns, epoch.value, epoch.value, *places))
        if cursor.rowcount != len(linked):
            self._read_heads(cursor, previous, epoch, known)
            raise StorageError("the database has changed during a write: retry")
        return last

    def _read_heads(
        self, cursor: Any, previous: Mapping[int, int], epoch: Epoch, known: Mapping[int, Head]
    ) -> dict[int, Head]:
        """Return the events before the new ones; raise StorageError if something is wrong with them."""
        cursor.execute(_EPOCH_AND_LINKS, (list(previous), list(previous.values()), epoch.name))
        answer = cursor.fetchall()
        epoch.check(answer[0][0] if answer else None)
        return _checked(previous, {experiment: link for _, experiment, link in answer}, known)

    def close(self) -> None:
        """Drop the connection and everything that was not committed."""
        if self._connection is not None:
            # A closed SQLite connection keeps its transaction open as long as a cursor exists.
            for step in (self._connection.rollback, self._connection.invalidate):
                with contextlib.suppress(Exception):
                    step()
            self._connection = None


@cache
def _insert(rows: int) -> str:
    """Return the statement that inserts this many rows into SQLite."""
    return f"INSERT INTO glcb_events ({_NAMES}) VALUES {', '.join([_ROW] * rows)}"


def _checked(
    previous: Mapping[int, int], links: Mapping[int, bytes | None], known: Mapping[int, Head]
) -> dict[int, Head]:
    """Return the events before the new ones; raise StorageError if one is missing or altered."""
    heads = {}
    for experiment, sequence in previous.items():
        link = first_link(experiment) if sequence == 0 else links.get(experiment)
        if link is None:
            raise StorageError(f"event {sequence} of experiment {experiment} has vanished from the database")
        head = known.get(experiment)
        if head is not None and head.sequence == sequence and head.link != link:
            raise StorageError(f"event {sequence} of experiment {experiment} was altered in the database")
        heads[experiment] = Head(sequence, link)
    return heads
