"""Append events in one transaction, after a check that the database still has what came before."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Engine

from glcb._errors import StorageError
from glcb.service.storage import tables
from glcb.service.storage.chain import EventRow, Head, first_link, link_rows, previous_events

TAKEN_OVER = "another service has taken over this database: stop this one, or restart it"

_EPOCH = "SELECT value FROM glcb_about WHERE name = 'epoch'"
_LINK = "SELECT chain FROM glcb_events WHERE experiment = ? AND sequence = ?"
# One round trip. The share lock keeps another service from raising the epoch before this commit. A subquery
# is always answered by the index; for a join, the planner may read the whole table.
_EPOCH_AND_LINKS = """
SELECT about.value, place.experiment, (
    SELECT chain FROM glcb_events AS events
    WHERE events.experiment = place.experiment AND events.sequence = place.sequence
)
FROM glcb_about AS about
CROSS JOIN unnest(%s::int[], %s::bigint[]) AS place (experiment, sequence)
WHERE about.name = 'epoch'
FOR SHARE OF about
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
        names = tables.events.c.keys()
        marks = ", ".join(["?" if is_sqlite else "%s"] * len(names))
        self._insert = f"INSERT INTO {tables.events.name} ({', '.join(names)}) VALUES ({marks})"

    def append(
        self, rows: Sequence[EventRow], epoch: str | None, known: Mapping[int, Head]
    ) -> dict[int, Head]:
        """Insert events in one transaction; return the last event of each of their experiments.

        Parameters
        ----------
        rows
            The events, in order.
        epoch
            The epoch of this service, or None to skip the check.
        known
            The last events that this process knows.

        Raises
        ------
        StorageError
            Another service has taken over, or events that came before are missing or altered.
        """
        try:
            if self._connection is None:
                self._connection = self._engine.raw_connection()
            with contextlib.closing(self._connection.cursor()) as cursor:
                if self._is_sqlite:
                    cursor.execute("BEGIN IMMEDIATE")
                previous = previous_events(rows)
                found, links = self._read(cursor, previous)
                if epoch is not None and found != epoch:
                    raise StorageError(TAKEN_OVER)
                linked, heads = link_rows(rows, _checked(previous, links, known))
                cursor.executemany(self._insert, linked)
            self._connection.commit()
        except BaseException:
            self.close()  # the next append starts with a fresh connection
            raise
        return heads

    def _read(self, cursor: Any, previous: Mapping[int, int]) -> tuple[str | None, dict[int, bytes | None]]:
        """Return the epoch, and the links of the events before."""
        if self._is_sqlite:
            epoch = cursor.execute(_EPOCH).fetchone()
            links: dict[int, bytes | None] = {}
            for place in previous.items():
                found = cursor.execute(_LINK, place).fetchone()
                links[place[0]] = None if found is None else found[0]
            return None if epoch is None else epoch[0], links
        cursor.execute(_EPOCH_AND_LINKS, (list(previous), list(previous.values())))
        answer = cursor.fetchall()
        return answer[0][0] if answer else None, {experiment: link for _, experiment, link in answer}

    def close(self) -> None:
        """Drop the connection and everything that was not committed."""
        if self._connection is not None:
            # A closed SQLite connection keeps its transaction open as long as a cursor exists.
            for step in (self._connection.rollback, self._connection.invalidate):
                with contextlib.suppress(Exception):
                    step()
            self._connection = None


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
