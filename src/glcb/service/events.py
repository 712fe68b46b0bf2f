"""The events of an experiment, from which its state is built."""

from typing import NamedTuple


class Event(NamedTuple):
    """A change of an experiment."""

    sequence: int
    at: float
    kind: str
    request: bytes
    outcome: bytes
    record: bytes = b""
    author: str | None = None  # who changed settings, arms or the model
