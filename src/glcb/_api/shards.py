"""Request and response bodies about the processes of a service with shards."""

from typing import Literal

from msgspec import Struct


class ShardInfo(Struct, frozen=True, kw_only=True):
    """A shard: a process with a part of the experiments."""

    number: int
    state: Literal["ready", "starting", "moving", "away"]
    """``moving`` if another process takes over on purpose and requests wait for it, ``away`` if it does not
    respond."""
    node: str | None
    """The id of its Ray node; null while it does not respond."""
    process: int | None
    """Its process id on that node; null while it does not respond."""
    experiments: int
    """Number of its experiments."""
    loaded: int
    """Number of its experiments in memory."""
    trouble: str | None
    """Why its events cannot be written, if so."""
    generation: int
    """It grows when the shard moves or is restarted on purpose; 0 while it does not respond."""
    wanted: int = 0
    """The generation that it must have for all restarts that were requested to be done."""
    silent: float
    """Seconds since it last responded."""


class NodeInfo(Struct, frozen=True, kw_only=True):
    """A node of the Ray cluster."""

    id: str
    address: str
    host: str
    cpus: float
    """Number of CPUs that Ray may use; nodes without any get no shards."""
    draining: bool
    """Whether its shards move to other nodes."""
    shards: int
    """Number of its shards."""


class ShardList(Struct, frozen=True):
    """All shards and nodes. A service that is one process has none."""

    shards: tuple[ShardInfo, ...] = ()
    nodes: tuple[NodeInfo, ...] = ()


class NodeChanges(Struct, frozen=True, forbid_unknown_fields=True):
    """Changes of a node."""

    draining: bool
    """Whether its shards move to other nodes, and none come back."""
