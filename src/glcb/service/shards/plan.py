"""Where shards should be: what administrators want, kept in the database, and the next move towards it."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, select, update

from glcb.service.config import ServiceSettings
from glcb.service.storage.database import Database
from glcb.service.storage.ownership import PLAN, owner_of
from glcb.service.storage.tables import about


class ShardPlan(msgspec.Struct, frozen=True, omit_defaults=True):
    """What administrators want."""

    draining: tuple[str, ...] = ()
    """The ids of nodes that shards leave."""
    generations: dict[int, int] = {}
    """The generation that the process of a shard must have at least, by the number of the shard."""
    started: dict[int, int] = {}
    """The generation of the process that the coordinator started last, by the number of the shard. It may
    have older settings than those below, and may not have taken the shard yet."""
    settings: dict[str, Any] | None = None
    """Settings for new processes, without the database; by default, those of the coordinator. They can be
    those of another version of glcb."""


_PLAN = msgspec.json.Decoder(ShardPlan)


def read_plan(connection: Connection) -> ShardPlan:
    """Return the plan; the default one if the database is not claimed for shards."""
    content = connection.execute(select(about.c.value).where(about.c.name == PLAN)).scalar()
    return _PLAN.decode(content or "{}")


def stored_plan(database: Database) -> ShardPlan:
    """Return the plan in a database."""
    with database.read() as connection:
        return read_plan(connection)


def change_plan(database: Database, change: Callable[[ShardPlan, Connection], ShardPlan]) -> ShardPlan:
    """Replace the plan, and return it; others who change it at the same time wait for that."""
    row = about.c.name == PLAN
    with database.write() as connection:
        connection.execute(select(about.c.value).where(row).with_for_update())
        changed = change(read_plan(connection), connection)
        content = msgspec.json.encode(changed).decode()
        connection.execute(update(about).where(row).values(value=content))
    return changed


def plan_drain(database: Database, node: str, draining: bool) -> ShardPlan:
    """Let all shards leave a node, or let it have shards again; return the plan."""

    def change(plan: ShardPlan, _connection: Connection) -> ShardPlan:
        nodes = {*plan.draining, node} if draining else {*plan.draining} - {node}
        return msgspec.structs.replace(plan, draining=tuple(sorted(nodes)))

    return change_plan(database, change)


def plan_start(database: Database, number: int, generation: int) -> ShardPlan:
    """Note that a process is started, with the settings of now; return the plan."""

    def change(plan: ShardPlan, _connection: Connection) -> ShardPlan:
        return msgspec.structs.replace(plan, started={**plan.started, number: generation})

    return change_plan(database, change)


def plan_restart(database: Database, count: int, settings: ServiceSettings) -> ShardPlan:
    """Let every shard get a new process, with these settings; return the plan.

    A process that is being prepared does not count: it has been started before.
    """
    shared = msgspec.to_builtins(settings)
    del shared["database"]  # its password stays out of the database

    def change(plan: ShardPlan, connection: Connection) -> ShardPlan:
        last = {number: owner_of(connection, number).generation for number in range(count)}
        next_ones = {number: max(one, plan.started.get(number, 0)) + 1 for number, one in last.items()}
        return msgspec.structs.replace(plan, generations=next_ones, settings=shared)

    return change_plan(database, change)


class Node(NamedTuple):
    """A node of the cluster."""

    id: str
    address: str
    host: str
    cpus: float
    leaves: bool
    """Whether Ray itself drains it."""

    def is_called(self, name: str) -> bool:
        """Return whether this is its id, the beginning of its id, its address or its host name.

        >>> node = Node("4a1f80cc", "10.0.0.7", "worker-7", 4.0, False)
        >>> [node.is_called(name) for name in ("4a1f", "10.0.0.7", "worker-7", "worker")]
        [True, True, True, False]
        """
        return name in (self.address, self.host) or (bool(name) and self.id.startswith(name))


class Placed(NamedTuple):
    """Where the process of a shard is."""

    number: int
    node: str | None
    generation: int
    is_ready: bool


class ShardMove(NamedTuple):
    """A new process for a shard, on this node."""

    number: int
    node: str
    reason: str


def drained(nodes: Collection[Node], plan: ShardPlan) -> set[str]:
    """Return the ids of the nodes that shards leave."""
    return {node.id for node in nodes if node.leaves or node.id in plan.draining}


def next_move(
    shards: Sequence[Placed], nodes: Sequence[Node], plan: ShardPlan, avoided: Collection[str] = ()
) -> ShardMove | None:
    """Return the next move, or None if every shard is where it should be.

    Shards leave nodes that are drained. While all shards answer, those whose process is to be restarted
    follow, one after the other. Then nodes with two shards more than another give one away, which takes the
    smallest number of moves to a balance.

    Parameters
    ----------
    shards
        Where the shards are.
    nodes
        The nodes of the cluster. Those without CPUs get no shards.
    plan
        What administrators want.
    avoided
        The ids of nodes on which no process could be started lately.

    Examples
    --------
    >>> nodes = [Node(name, "", "", 1.0, False) for name in "ab"]
    >>> shards = [Placed(number, "a", 1, True) for number in range(4)]
    >>> next_move(shards, nodes, ShardPlan())
    ShardMove(number=0, node='b', reason='balance')
    >>> next_move(shards, nodes, ShardPlan(draining=("b",)))
    """
    leaving = drained(nodes, plan)
    homes = [node.id for node in nodes if node.cpus > 0 and node.id not in leaving]
    targets = sorted(set(homes) - set(avoided))
    if not targets:
        return None
    counts = Counter(shard.node for shard in shards)
    emptiest = min(targets, key=counts.__getitem__)
    for shard in shards:
        if shard.is_ready and shard.node in leaving:
            return ShardMove(shard.number, emptiest, "drain")
    if not all(shard.is_ready for shard in shards):
        return None
    for shard in shards:
        if shard.generation < plan.generations.get(shard.number, 0):
            node = shard.node if shard.node in targets else emptiest
            return ShardMove(shard.number, node or emptiest, "restart")
    fullest = max(homes, key=counts.__getitem__)
    if counts[fullest] - counts[emptiest] >= 2:
        number = next(shard.number for shard in shards if shard.node == fullest)
        return ShardMove(number, emptiest, "balance")
    return None
