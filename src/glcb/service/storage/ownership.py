"""Fencing: every transaction verifies that its process still owns the database.

A service that is one process owns the whole database, and raises the epoch at its start. A service with
several workers divides the experiments into partitions. Each worker has a row of its own, which plays the
part of the epoch: whoever takes the partitions of a worker removes its row first, and thereby waits for its
transactions. A worker without its row can neither write nor confirm that what it has read is current. One row
per worker is as good as one per partition: a worker gives a partition away only after it has stopped using
it, and in a transaction that waits for all earlier ones of its own.
"""

import zlib

from sqlalchemy import Connection, delete, insert, select, update

from glcb._errors import StorageError
from glcb.service.storage.tables import about

TAKEN_OVER = "another service has taken over this database: stop this one, or restart it"
PARTITIONS = 256
"""The experiments of a service with several workers are divided into this many parts."""
LEASE_SECONDS = 3.0
"""Others may take the partitions of a worker that has not renewed its lease for this long. PostgreSQL
ends its transactions if they are idle for as long: a process that was stopped in one would keep others from
that."""

_EPOCH = "epoch"
_WORKERS = "workers"
"""The row that says that the epoch is that of a service with workers."""
_PREFIX = "worker-"


def partition_of(experiment: str) -> int:
    """Return the number of the partition of an experiment.

    >>> [partition_of(name) for name in ("homepage", "checkout", "search")]
    [238, 78, 167]
    """
    return zlib.crc32(experiment.encode()) % PARTITIONS


class Epoch:
    """The row by which a process owns the database, or is one of several workers."""

    def __init__(self) -> None:
        self.name = _EPOCH
        self.value: str | None = None
        """The value that the row must have, or None to skip the check."""

    @property
    def probe(self) -> str:
        """The name of the row that tries whether the database accepts writes."""
        return "probe" if self.name == _EPOCH else f"probe-{self.name}"[:64]

    def check(self, found: str | None) -> None:
        """Raise StorageError unless the value that was found is that of this process."""
        if self.value is not None and found != self.value:
            raise StorageError(TAKEN_OVER)

    def verify(self, connection: Connection) -> None:
        """Raise StorageError if another process has taken over; keep others from it until the commit."""
        if self.value is not None:
            self.check(connection.execute(_value(self.name).with_for_update(read=True)).scalar())

    def fence(self, connection: Connection) -> None:
        """Wait until no other transaction holds the row; raise StorageError if another process owns it."""
        same = update(about).where(about.c.name == self.name).values(value=about.c.value)
        mine = same if self.value is None else same.where(about.c.value == self.value)
        if connection.execute(mine).rowcount != 1:
            raise StorageError(TAKEN_OVER)

    def take_database(self, connection: Connection) -> None:
        """Own the whole database, once no transaction of an earlier service can commit."""
        self.value = _raise_epoch(connection)
        connection.execute(delete(about).where(about.c.name == _WORKERS))
        connection.execute(delete(about).where(about.c.name.startswith(_PREFIX)))

    def join(self, connection: Connection, worker: str, incarnation: str) -> bool:
        """Be a worker from now on, once no transaction of a service that is one process can commit.

        Return whether this is the first worker since then: what earlier workers have left does not count.

        Parameters
        ----------
        connection
            A connection in a transaction.
        worker
            The name of the worker. A row that it has already is replaced.
        incarnation
            Identifies this process.
        """
        connection.execute(_value(_EPOCH).with_for_update())  # one after the other
        is_first = connection.execute(_value(_WORKERS)).scalar() is None
        if is_first:
            epoch = _raise_epoch(connection)
            connection.execute(insert(about).values(name=_WORKERS, value=epoch))
        remove_worker(connection, worker)
        self.name, self.value = f"{_PREFIX}{worker}", incarnation
        connection.execute(insert(about).values(name=self.name, value=incarnation))
        return is_first

    def release(self) -> None:
        """Write nothing from now on: a thread that hangs must not, either."""
        self.value = "released"


def remove_worker(connection: Connection, worker: str, incarnation: str | None = None) -> None:
    """Keep a worker from writing, once none of its transactions can commit any more."""
    row = about.c.name == f"{_PREFIX}{worker}"
    if incarnation is not None:
        row &= about.c.value == incarnation
    connection.execute(delete(about).where(row))


def keep_worker(connection: Connection, worker: str, incarnation: str) -> bool:
    """Return whether a worker can write, and keep others from removing it until the commit."""
    found = connection.execute(_value(f"{_PREFIX}{worker}").with_for_update(read=True)).scalar()
    return bool(found == incarnation)


def _raise_epoch(connection: Connection) -> str:
    """Raise the epoch, once no transaction of its owner can commit; return it."""
    epoch = str(int(connection.execute(_value(_EPOCH).with_for_update()).scalar() or 0) + 1)
    connection.execute(update(about).where(about.c.name == _EPOCH).values(value=epoch))
    return epoch


def _value(name: str):  # type: ignore[no-untyped-def]  # the type of a query depends on SQLAlchemy's version
    return select(about.c.value).where(about.c.name == name)
