"""What the service keeps in its database: experiments, their events, their snapshots."""

import contextlib
from collections.abc import Iterator
from typing import NamedTuple

from sqlalchemy import and_, delete, func, insert, select, update

from glcb._errors import StorageError
from glcb.service.storage.database import Database
from glcb.service.storage.tables import events, experiments, parts, snapshots

PART = 1 << 20
"""A snapshot is written in parts of so many bytes, so that no commit has to wait long for it."""
_ROWS = 1000
"""Events that are read at once."""
_DELETED = 5000
"""Events that are deleted at once."""
_NAMELESS = "-"
"""Begins what stands for the name of a deleted experiment; no name begins like this."""


class Event(NamedTuple):
    """A change of an experiment."""

    sequence: int
    at: float
    kind: str
    request: bytes
    outcome: bytes


class Known(NamedTuple):
    """An experiment in the database."""

    id: int
    name: str
    last: int
    """Number of its last event."""
    snapshot: int
    """Number of the event after which its newest snapshot was taken; 0 if there is none."""
    summary: bytes


class SnapshotRow(NamedTuple):
    """A snapshot, but for its content."""

    sequence: int
    at: float
    digest: str
    parts: int


class Storage(Database):
    """Experiments, events, snapshots and keys in one database."""

    # ---- events ---------------------------------------------------------------------------------

    def event(self, experiment: int, sequence: int) -> Event | None:
        """Return the event with this number, if it is still there."""
        return next(self.events(experiment, sequence - 1, sequence), None)

    def events(self, experiment: int, after: int, upto: int | None = None) -> Iterator[Event]:
        """Return the events after a number in order, a few at a time."""
        while True:
            chosen = [events.c.experiment == experiment, events.c.sequence > after]
            if upto is not None:
                chosen.append(events.c.sequence <= upto)
            columns = (getattr(events.c, name) for name in Event._fields)
            with self.read() as connection:
                rows = connection.execute(
                    select(*columns).where(*chosen).order_by(events.c.sequence).limit(_ROWS)
                ).all()
            yield from (Event(*row) for row in rows)
            if len(rows) < _ROWS:
                return
            after = rows[-1].sequence

    # ---- experiments ----------------------------------------------------------------------------

    def known(self) -> list[Known]:
        """Return all experiments."""
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
            named = select(*columns).select_from(joined).where(~experiments.c.name.startswith(_NAMELESS))
            rows = connection.execute(named.order_by(experiments.c.name)).all()
        return [
            Known(number, name, max(last or 0, taken or 0), taken or 0, summary or b"")
            for number, name, last, taken, summary in rows
        ]

    def create(self, name: str, first: Event) -> int:
        """Add an experiment with its first event; return its number."""
        with self.write() as connection:
            number = connection.execute(insert(experiments).values(name=name)).inserted_primary_key
            assert number is not None
            connection.execute(insert(events).values(experiment=number[0], **first._asdict()))
            return int(number[0])

    def delete(self, experiment: int) -> None:
        """Take an experiment's name away, by which it is gone; :meth:`sweep` removes the rest."""
        gone = {"name": f"{_NAMELESS}{experiment}"}
        with self.write() as connection:
            connection.execute(update(experiments).where(experiments.c.id == experiment).values(gone))

    def sweep(self) -> None:
        """Remove what deleted experiments consist of, a bit at a time, so that nobody waits for it."""
        nameless = select(experiments.c.id).where(experiments.c.name.startswith(_NAMELESS))
        with self.read() as connection:
            gone = connection.execute(nameless).scalars().all()
        for number in gone:
            self._remove_events(number, None, None)
            with self.write() as connection:
                for table in (snapshots, parts):
                    connection.execute(delete(table).where(table.c.experiment == number))
                connection.execute(delete(experiments).where(experiments.c.id == number))

    def prune(self, experiment: int, keep: int, before: float) -> None:
        """Keep that many snapshots; drop older events of before that time which no kept snapshot needs."""
        taken = self.snapshots(experiment)
        if len(taken) > keep:
            oldest = taken[-keep].sequence
            with self.write() as connection:
                for table in (snapshots, parts):
                    connection.execute(
                        delete(table).where(table.c.experiment == experiment, table.c.sequence < oldest)
                    )
        if taken:
            self._remove_events(experiment, taken[-min(keep, len(taken))].sequence, before)

    def _remove_events(self, experiment: int, upto: int | None, before: float | None) -> None:
        chosen = [events.c.experiment == experiment]
        if upto is not None:
            chosen.append(events.c.sequence <= upto)
        if before is not None:
            chosen.append(events.c.at < before)
        while True:
            found = select(events.c.sequence).where(*chosen).order_by(events.c.sequence).limit(_DELETED)
            with self.read() as connection:
                going = connection.execute(found).scalars().all()
            if not going:
                return
            with self.write() as connection:
                connection.execute(
                    delete(events).where(
                        events.c.experiment == experiment, events.c.sequence.between(going[0], going[-1])
                    )
                )

    # ---- snapshots ------------------------------------------------------------------------------

    def snapshots(self, experiment: int) -> list[SnapshotRow]:
        """Return the snapshots of an experiment, the oldest first."""
        columns = (getattr(snapshots.c, name) for name in SnapshotRow._fields)
        chosen = select(*columns).where(snapshots.c.experiment == experiment)
        with self.read() as connection:
            return [SnapshotRow(*row) for row in connection.execute(chosen.order_by(snapshots.c.sequence))]

    def save_snapshot(self, experiment: int, row: SnapshotRow, content: bytes, summary: bytes) -> None:
        """Write a snapshot; it is there when its last part is, and nothing of it if that cannot be."""
        place = {"experiment": experiment, "sequence": row.sequence}
        pieces = [content[start : start + PART] for start in range(0, len(content), PART)]
        self._remove_snapshot(place)  # parts of one that was interrupted, perhaps
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
            with contextlib.suppress(StorageError):  # events need the room, which may be scarce
                self._remove_snapshot(place)
            raise

    def _remove_snapshot(self, place: dict[str, int]) -> None:
        with self.write() as connection:
            for table in (snapshots, parts):
                connection.execute(delete(table).filter_by(**place))

    def snapshot_content(self, experiment: int, sequence: int) -> bytes:
        """Return what :meth:`save_snapshot` wrote."""
        chosen = select(parts.c.content).filter_by(experiment=experiment, sequence=sequence)
        with self.read() as connection:
            return b"".join(connection.execute(chosen.order_by(parts.c.part)).scalars())
