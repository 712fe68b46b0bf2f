"""Rows of the database about an experiment: the experiment, its snapshots, and what was pruned from it."""

from typing import NamedTuple


class ExperimentRow(NamedTuple):
    """An experiment in the database."""

    id: int
    name: str
    last_sequence: int
    """Sequence number of its last event."""
    snapshot_sequence: int
    """Sequence number of the last event in its newest snapshot; 0 without a snapshot."""
    summary: bytes
    """The encoded ``ExperimentInfo`` of its newest snapshot; empty without a snapshot."""
    last_event_at: float = 0.0
    """Time of its last event."""


class Pruned(NamedTuple):
    """What was pruned from an experiment."""

    sequence: int
    """Sequence number of the last pruned event; 0 if none was pruned."""
    link: bytes
    """Its link in the chain."""
    at: float
    """Time at which it was pruned."""


class SnapshotRow(NamedTuple):
    """A snapshot without its content."""

    sequence: int
    at: float
    digest: str
    parts: int
