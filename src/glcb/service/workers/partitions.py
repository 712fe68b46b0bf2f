"""Which worker owns which partition: leases, owners and pins in PostgreSQL, and what a worker should change.

Every worker renews a lease by the clock of the database, and takes what is free. A lease that has expired
says only that others may take the partitions; the row in ``storage/ownership.py`` keeps the worker from
writing.
"""

import math
import secrets
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, delete, func, insert, select, text, update

from glcb._errors import StorageError
from glcb.service.storage.database import Database
from glcb.service.storage.ownership import (
    LEASE_SECONDS,
    PARTITIONS,
    TAKEN_OVER,
    partition_of,
    remove_worker,
)
from glcb.service.storage.tables import about, drains, partitions, pins, worker_metadata, workers

RENEW_SECONDS = 1.0
"""Every worker renews its lease, reads who owns what, and takes or gives partitions this often."""
_LOCK_SECONDS = 0.5
"""Time that a transaction that takes or gives partitions waits for others before it fails. Meanwhile, the
lease is not renewed."""
_POLL_SECONDS = 0.1
_STATES = ("is_live", "has_ended")
"""Fields of a worker that follow from when its lease expires."""
_ENDED = func.to_timestamp(0)
"""When the lease of a worker expires whose process is known to have ended."""
_SECRET = "secret"
_RESTARTS = "restarts"
"""The row with the number of rolling restarts, and that of the workers at the time of the last one."""


class WorkerRow(NamedTuple):
    """A worker, as the database knows it."""

    name: str
    incarnation: str
    """Identifies the process."""
    address: str
    """Where other workers reach it: the path of a Unix socket, or host and port."""
    advertise: str | None
    """The URL at which clients reach it directly, if they may."""
    host: str
    process: int
    stopping: bool
    """Whether it gives all its partitions away, and ends."""
    restarts: int
    """Number of rolling restarts that were requested before it started."""
    is_live: bool = True
    """Whether its lease has not expired."""
    has_ended: bool = False
    """Whether its process is known to have ended."""


class PartitionOwner(NamedTuple):
    """The owner of a partition."""

    worker: str | None
    """The incarnation of the worker; None if the partition is free."""
    epoch: int
    """It grows with every change of the owner."""


class WorkerView(NamedTuple):
    """All workers and partitions at one time."""

    workers: tuple[WorkerRow, ...]
    owners: dict[int, PartitionOwner]
    pins: dict[int, str]
    """The names of the workers to which administrators have moved partitions."""
    drained: frozenset[str]
    """The names of workers that are to have no partitions."""
    restarts: int = 0
    """Number of rolling restarts that were requested."""
    expected: int = 0
    """Number of workers when the last one was requested."""

    def homes(self) -> list[str]:
        """Return the names of the workers that may have partitions; all live ones if none may."""
        live = sorted(one.name for one in self.workers if one.is_live and not one.stopping)
        return [name for name in live if name not in self.drained] or live

    def owned_by(self, worker: str) -> set[int]:
        """Return the partitions of a worker with this name."""
        own = {one.incarnation for one in self.workers if one.name == worker}
        return {number for number, owner in self.owners.items() if owner.worker in own}


class Changes(NamedTuple):
    """What a worker should change."""

    take: tuple[int, ...]
    """Free partitions to take."""
    give: dict[int, str]
    """Partitions to give away, with the names of those who get them."""


def wanted_changes(view: WorkerView, me: str) -> Changes:
    """Return which partitions a worker should take and give away.

    A partition that is pinned belongs to its worker, if that is there. All others are divided evenly: nobody
    takes more than its share, and who has more gives the surplus to those who have less.

    Parameters
    ----------
    view
        All workers and partitions.
    me
        The name of the worker.

    Examples
    --------
    >>> rows = [WorkerRow(name, name, "", None, "", 0, False, 0) for name in "ab"]
    >>> owners = {number: PartitionOwner("a" if number < 4 else None, 1) for number in range(6)}
    >>> view = WorkerView(tuple(rows), owners, {5: "a"}, frozenset())
    >>> wanted_changes(view, "a")
    Changes(take=(5,), give={0: 'b', 1: 'b'})
    >>> wanted_changes(view, "b")
    Changes(take=(4,), give={})
    """
    homes = view.homes()
    pinned = {number: name for number, name in view.pins.items() if name in homes}
    share = math.ceil(len(view.owners) / max(1, len(homes)))
    mine = sorted(view.owned_by(me))
    take: list[int] = []
    if me in homes:
        free = sorted(number for number, owner in view.owners.items() if owner.worker is None)
        take = [number for number in free if pinned.get(number) == me]
        unpinned = [number for number in free if number not in pinned]
        take += unpinned[: max(0, share - len(mine) - len(take))]
    give = {number: pinned[number] for number in mine if pinned.get(number, me) != me}
    loose = [number for number in mine if number not in pinned]
    others = Counter({name: len(view.owned_by(name)) for name in homes if name != me})
    others.update(give.values())
    surplus = len(loose) if me not in homes else max(0, len(mine) - len(give) + len(take) - share)
    for number in loose[:surplus]:
        emptiest = min(others, key=others.__getitem__, default=None)
        if emptiest is None or (me in homes and others[emptiest] >= share):
            break
        give[number] = emptiest
        others[emptiest] += 1
    return Changes(tuple(take), give)


def should_restart(view: WorkerView, me: str) -> bool:
    """Return whether it is the turn of a worker in a rolling restart: the others wait until it is back."""
    live = sorted((one for one in view.workers if one.is_live), key=lambda one: one.name)
    old = [one.name for one in live if one.restarts < view.restarts]
    return old[:1] == [me] and len(live) >= view.expected and not any(one.stopping for one in live)


# ---- in the database ----------------------------------------------------------------------------


def join(database: Database, row: WorkerRow, timeout: float) -> WorkerRow:
    """Add a worker; return its row.

    Parameters
    ----------
    database
        The database.
    row
        The worker.
    timeout
        Seconds to wait for another process with the same name.

    Raises
    ------
    StorageError
        A worker with the same name is there, or those that are cannot be reached from this one.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            with database.joining(row.name, row.incarnation) as (connection, is_first):
                return _join(connection, row, is_first)
        except _Occupied:
            if time.monotonic() > deadline:
                raise
        time.sleep(_POLL_SECONDS)


class _Occupied(StorageError):
    """Another process has the name of a worker."""


def _join(connection: Connection, row: WorkerRow, is_first: bool) -> WorkerRow:
    worker_metadata.create_all(connection)
    if connection.execute(select(about.c.value).where(about.c.name == _SECRET)).first() is None:
        connection.execute(insert(about).values(name=_SECRET, value=secrets.token_hex(32)))
    if is_first:
        connection.execute(delete(workers))
        connection.execute(update(partitions).values(worker=None))
    if connection.execute(select(func.count()).select_from(partitions)).scalar() == 0:
        rows = [{"number": number, "worker": None, "epoch": 0} for number in range(PARTITIONS)]
        connection.execute(insert(partitions), rows)
    for other in _workers(connection):
        if other.name == row.name and other.is_live:
            raise _Occupied(
                f"another service uses this database, with a worker named {row.name} on {other.host}: stop "
                "it, use another database, or pass another port with --set inner_address=HOST:PORT"
            )
        is_remote = not row.address.startswith("/")
        is_reachable = is_remote != other.address.startswith("/") and (is_remote or other.host == row.host)
        if other.is_live and not is_reachable:
            raise StorageError(
                f"another service uses this database, and its worker {other.name} on {other.host} cannot be "
                "reached from here: stop it, or pass --set inner_address=HOST to all workers"
            )
        if other.name == row.name:
            connection.execute(
                update(partitions).where(partitions.c.worker == other.incarnation).values(worker=None)
            )
            connection.execute(delete(workers).where(workers.c.name == row.name))
    row = row._replace(restarts=_restarts(connection)[0])
    values = {name: value for name, value in row._asdict().items() if name not in _STATES}
    connection.execute(insert(workers).values(**values, expires=_EXPIRES))
    return row


_EXPIRES = func.clock_timestamp() + func.make_interval(0, 0, 0, 0, 0, 0, LEASE_SECONDS)


def renew(database: Database, row: WorkerRow) -> WorkerView:
    """Renew the lease of a worker, and return all workers and partitions.

    Raises
    ------
    StorageError
        Others have taken its partitions, or the database is unavailable.
    """
    with database.write() as connection:
        own = update(workers).where(workers.c.incarnation == row.incarnation)
        values = {"expires": _EXPIRES, "stopping": row.stopping, "advertise": row.advertise}
        if connection.execute(own.values(values)).rowcount != 1:
            raise StorageError(TAKEN_OVER)
        return read_view(connection)


def secret(database: Database) -> str:
    """Return the secret with which workers prove each other that they use the same database."""
    with database.read() as connection:
        found = connection.execute(select(about.c.value).where(about.c.name == _SECRET)).scalar()
        if found is None:
            raise StorageError("the database has no secret of its workers: it was changed")
        return str(found)


def read_view(connection: Connection) -> WorkerView:
    """Return all workers and partitions."""
    found = connection.execute(select(partitions.c.number, partitions.c.worker, partitions.c.epoch)).all()
    owners = {number: PartitionOwner(worker, epoch) for number, worker, epoch in found}
    pinned = {one.partition: one.worker for one in connection.execute(select(pins))}
    drained = frozenset(connection.execute(select(drains.c.worker)).scalars())
    return WorkerView(_workers(connection), owners, pinned, drained, *_restarts(connection))


def _workers(connection: Connection) -> tuple[WorkerRow, ...]:
    columns = [workers.c[name] for name in WorkerRow._fields if name not in _STATES]
    states = workers.c.expires > func.clock_timestamp(), workers.c.expires <= _ENDED
    rows = connection.execute(select(*columns, *states).order_by(workers.c.name))
    return tuple(WorkerRow._make(row) for row in rows)


def _restarts(connection: Connection) -> tuple[int, int]:
    found = connection.execute(select(about.c.value).where(about.c.name == _RESTARTS)).scalar()
    number, _, count = (found or "0 0").partition(" ")
    return int(number), int(count)


def take(database: Database, row: WorkerRow, numbers: Collection[int]) -> None:
    """Take the partitions that are still free."""
    free = update(partitions).where(partitions.c.number.in_(numbers), partitions.c.worker.is_(None))
    with database.write() as connection:
        connection.execute(free.values(worker=row.incarnation, epoch=partitions.c.epoch + 1))


def take_over(database: Database, dead: WorkerRow) -> bool:
    """Free the partitions of a worker whose lease has expired; return False to try again later."""
    with database.write() as connection:
        connection.execute(text(f"SET LOCAL lock_timeout TO {round(1000 * _LOCK_SECONDS)}"))
        expired = select(workers.c.name).where(
            workers.c.incarnation == dead.incarnation, workers.c.expires <= func.clock_timestamp()
        )
        if connection.execute(expired.with_for_update(skip_locked=True)).first() is None:
            return False
        remove_worker(connection, dead.name, dead.incarnation)
        _remove(connection, dead.incarnation)
    return True


def _remove(connection: Connection, incarnation: str) -> None:
    connection.execute(update(partitions).where(partitions.c.worker == incarnation).values(worker=None))
    connection.execute(delete(workers).where(workers.c.incarnation == incarnation))


def give(database: Database, row: WorkerRow, recipients: Mapping[int, WorkerRow]) -> None:
    """Give partitions to other workers, which this one has stopped using.

    Those whose recipient has died become free.
    """
    others = {one.name: one.incarnation for one in recipients.values()}
    with database.quiet(row.name, others, _LOCK_SECONDS) as (connection, alive):
        for name in {one.name for one in recipients.values()}:
            numbers = [number for number, one in recipients.items() if one.name == name]
            mine = update(partitions).where(
                partitions.c.number.in_(numbers), partitions.c.worker == row.incarnation
            )
            owner = others[name] if name in alive else None
            connection.execute(mine.values(worker=owner, epoch=partitions.c.epoch + 1))


def leave(database: Database, row: WorkerRow) -> None:
    """Remove a worker that has stopped; its partitions are free."""
    with database.quiet(row.name, {}, database.deadline) as (connection, _):
        _remove(connection, row.incarnation)
    database.leave()


def expire(database: Database, incarnation: str) -> None:
    """End the lease of a worker whose process has ended, so that nobody has to wait for that."""
    with database.write() as connection:
        own = update(workers).where(workers.c.incarnation == incarnation)
        connection.execute(own.values(expires=_ENDED))


# ---- what administrators want -------------------------------------------------------------------


def pin(database: Database, experiment: str, worker: str | None) -> None:
    """Move the partition of an experiment to a worker, also after restarts; None lets it be anywhere."""
    number = partition_of(experiment)
    with database.write() as connection:
        connection.execute(delete(pins).where(pins.c.partition == number))
        if worker is not None:
            connection.execute(insert(pins).values(partition=number, worker=worker))


def drain(database: Database, worker: str, is_drained: bool) -> None:
    """Let a worker have no partitions, also after restarts, or let it have some again."""
    with database.write() as connection:
        connection.execute(delete(drains).where(drains.c.worker == worker))
        if is_drained:
            connection.execute(insert(drains).values(worker=worker))


def restart(database: Database) -> None:
    """Let all workers restart, one after the other."""
    with database.write() as connection:
        number = _restarts(connection)[0] + 1
        count = sum(one.is_live for one in _workers(connection))
        connection.execute(delete(about).where(about.c.name == _RESTARTS))
        connection.execute(insert(about).values(name=_RESTARTS, value=f"{number} {count}"))


def find_worker(rows: Iterable[WorkerRow], name: str) -> WorkerRow | None:
    """Return the live worker with this name, or None."""
    return next((one for one in rows if one.name == name and one.is_live), None)


def missing_owners(view: WorkerView, answered: Sequence[str]) -> set[int]:
    """Return the partitions whose owners are not among the incarnations that have answered."""
    return {number for number, owner in view.owners.items() if owner.worker not in answered}
