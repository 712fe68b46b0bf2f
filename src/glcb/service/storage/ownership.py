"""Fencing: every transaction verifies that its process still owns the database.

A service that owns a whole database raises the epoch at its start. A service with shards claims the database
with an epoch of its own, and every shard has a further row, which the process that takes the shard raises. A
process whose row was raised or removed by another can neither write nor confirm that its state is current.

A shard that moves gets a process of the next generation. Once it has taken the shard, processes of earlier
generations cannot take it back, even if they are started again.
"""

import zlib
from typing import NamedTuple

from sqlalchemy import Connection, delete, insert, select, update

from glcb._errors import StorageError
from glcb.service.storage.tables import about

TAKEN_OVER = "another service has taken over this database: stop this one, or restart it"

_EPOCH = "epoch"
_LAYOUT = "shards"
_SHARD_PREFIX = "shard-"
PLAN = f"{_SHARD_PREFIX}plan"
"""The name of the row with the plan of the shards: it is removed with them."""


class Shard(NamedTuple):
    """One of the parts into which the experiments of a database are divided."""

    number: int
    total: int
    """Number of shards."""

    def owns(self, experiment: str) -> bool:
        """Return whether an experiment belongs to this shard."""
        return shard_of(experiment, self.total) == self.number


class Owner(NamedTuple):
    """The process that took a shard last."""

    claim: str
    """The claim of its service."""
    generation: int
    """0 if no process of this service has taken the shard yet."""


def shard_of(experiment: str, count: int) -> int:
    """Return the number of the shard of an experiment.

    >>> [shard_of(name, 4) for name in ("homepage", "checkout", "search")]
    [2, 2, 3]
    """
    return zlib.crc32(experiment.encode()) % count


class Epoch:
    """The row by which one process owns the database, or a shard of it."""

    def __init__(self) -> None:
        self.name = _EPOCH
        self.value: str | None = None
        """The value that the row must have, or None to skip the check."""

    @property
    def probe(self) -> str:
        """The name of the row that tries whether the database accepts writes."""
        return "probe" if self.name == _EPOCH else f"probe-{self.name}"

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

    def take_shard(self, connection: Connection, claim: str, number: int, generation: int) -> None:
        """Own a shard, once no transaction of its earlier owner can commit.

        Raises
        ------
        StorageError
            Another service has claimed the database since ``claim``, or a process of a later generation has
            taken the shard.
        """
        found = connection.execute(_value(_EPOCH).with_for_update(read=True)).scalar()
        name = f"{_SHARD_PREFIX}{number}"
        owner = connection.execute(_value(name).with_for_update()).scalar()
        if found != claim or owner is None:
            raise StorageError(TAKEN_OVER)
        _, last, owners = owner.split(".")
        if int(last) > generation:
            raise StorageError(TAKEN_OVER)
        value = f"{claim}.{generation}.{int(owners) + 1}"
        connection.execute(update(about).where(about.c.name == name).values(value=value))
        self.name, self.value = name, value

    def release(self) -> None:
        """Write nothing from now on: a thread that hangs must not, either."""
        self.value = "released"


def claim_shards(connection: Connection, token: str, count: int) -> str:
    """Claim the database for a service with shards; return the claim, which its shards need.

    Parameters
    ----------
    connection
        A connection in a transaction.
    token
        Identifies the service. If it has the newest claim already, the claim and its shards stay as they are.
    count
        The number of shards.
    """
    epoch = connection.execute(_value(_EPOCH).with_for_update()).scalar()
    layout = f"{token} {count}"
    if connection.execute(_value(_LAYOUT)).scalar() == layout:
        return str(epoch)
    claim = _raise_epoch(connection)
    rows = [{"name": f"{_SHARD_PREFIX}{number}", "value": f"{claim}.0.0"} for number in range(count)]
    rows += [{"name": _LAYOUT, "value": layout}, {"name": PLAN, "value": "{}"}]
    connection.execute(insert(about), rows)
    return claim


def owner_of(connection: Connection, number: int) -> Owner:
    """Return the process that took a shard last."""
    owner = connection.execute(_value(f"{_SHARD_PREFIX}{number}")).scalar()
    if owner is None:
        return Owner("", 0)
    claim, generation, _ = owner.split(".")
    return Owner(claim, int(generation))


def _raise_epoch(connection: Connection) -> str:
    """Raise the epoch and remove all shards, once none of their transactions can commit; return the epoch."""
    epoch = str(int(connection.execute(_value(_EPOCH).with_for_update()).scalar() or 0) + 1)
    connection.execute(update(about).where(about.c.name == _EPOCH).values(value=epoch))
    connection.execute(delete(about).where(about.c.name.startswith(_SHARD_PREFIX)))
    connection.execute(delete(about).where(about.c.name == _LAYOUT))
    return epoch


def _value(name: str):  # type: ignore[no-untyped-def]  # the type of a query depends on SQLAlchemy's version
    return select(about.c.value).where(about.c.name == name)
