"""Request and response bodies about the workers of a service with several."""

from typing import Literal

from msgspec import Struct


class WorkerInfo(Struct, frozen=True, kw_only=True):
    """A worker: a process that owns some of the experiments."""

    name: str
    state: Literal["ready", "stopping", "away"]
    """``stopping`` if it gives its experiments away and ends, ``away`` if it does not respond."""
    host: str
    process: int
    """Its process id on that host."""
    partitions: int
    """Number of its partitions."""
    experiments: int
    """Number of its experiments; 0 while it does not respond."""
    loaded: int
    """Number of its experiments in memory; 0 while it does not respond."""
    trouble: str | None
    """Why its events cannot be written, if so."""
    draining: bool
    """Whether it is to have no partitions."""
    restarting: bool
    """Whether it still has to restart."""
    url: str | None = None
    """Where clients reach it directly, if they may."""


class WorkerList(Struct, frozen=True):
    """All workers. A service that is one process has none."""

    workers: tuple[WorkerInfo, ...] = ()
    owners: dict[str, str] | None = None
    """The name of the worker of each partition that has one, by the number of the partition, if clients may
    reach workers directly."""
    pins: dict[str, str] = {}
    """The workers to which partitions were moved, by the number of the partition."""


class WorkerChanges(Struct, frozen=True, forbid_unknown_fields=True):
    """Changes of a worker."""

    draining: bool
    """Whether it is to have no partitions."""


class MoveRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Where an experiment is to be."""

    experiment: str
    worker: str | None
    """The name of the worker; null for any."""
