"""Response bodies about the processes of a service with shards."""

from typing import Literal

from msgspec import Struct


class ShardInfo(Struct, frozen=True, kw_only=True):
    """A shard: a process with a part of the experiments."""

    number: int
    state: Literal["ready", "starting", "moving", "away"]
    """``moving`` if it is restarted on purpose and requests wait for it, ``away`` if it does not respond."""
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


class ShardList(Struct, frozen=True):
    """All shards. A service that is one process has none."""

    shards: tuple[ShardInfo, ...]
