"""A hash chain over the events of an experiment: no event can change or vanish without a trace.

The link of an event is a digest of the event and of the link before it. Links are computed once, when an
event is written, and compared with the next commit and by ``glcb audit``.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

from glcb._errors import StorageError
from glcb.service.events import Event

EventRow = tuple[int, int, float, str, bytes, bytes, bytes, str | None]
"""An event to write: experiment id, sequence, time, kind, request, outcome, record, author."""
LinkedRow = tuple[int, int, float, str, bytes, bytes, bytes, bytes, str | None]
"""A row of the event table: an event and its link, which comes before the author."""

LINK_BYTES = 16
_pack_numbers = struct.Struct("<qdIII").pack


class BrokenChain(StorageError):
    """An event is missing or was altered."""


class Head(NamedTuple):
    """The last event of an experiment."""

    sequence: int
    link: bytes


def first_link(experiment: int) -> bytes:
    """Return what the first event of an experiment is linked to."""
    return experiment.to_bytes(LINK_BYTES)


def next_link(
    previous: bytes,
    sequence: int,
    at: float,
    kind: str,
    request: bytes,
    outcome: bytes,
    record: bytes = b"",
    author: str | None = None,
) -> bytes:
    """Return the link of an event.

    >>> next_link(first_link(1), 1, 0.0, "create", b"{}", b"{}").hex()
    '60726b11343c72a80f270adbfbeef795'
    """
    name = (kind if author is None else f"{kind} {author}").encode()
    numbers = _pack_numbers(sequence, at, len(name), len(request), len(outcome))
    content = b"".join((previous, numbers, name, request, outcome, record))
    return blake2b(content, digest_size=LINK_BYTES).digest()


def checked_events(linked: Iterable[tuple[Event, bytes]], expected: int, link: bytes) -> Iterator[Event]:
    """Yield events after comparing their links.

    Parameters
    ----------
    linked
        The events and their links.
    expected
        The sequence number of the first one.
    link
        What it is linked to.

    Raises
    ------
    BrokenChain
        An event is missing or was altered.
    """
    for event, stored in linked:
        if event.sequence != expected:
            raise BrokenChain(f"events {expected} to {event.sequence - 1} were deleted, but not by pruning")
        try:
            link = next_link(link, *event)
        except (TypeError, AttributeError, ValueError, struct.error) as error:  # a value of another type
            raise BrokenChain(f"event {event.sequence} is damaged: {error}") from error
        if stored != link:
            raise BrokenChain(f"event {event.sequence} was altered, or one before it was: its link differs")
        expected += 1
        yield event


def previous_events(rows: Sequence[EventRow]) -> dict[int, int]:
    """Return the sequence number before the first event of each experiment."""
    previous: dict[int, int] = {}
    for row in rows:
        if row[0] not in previous:
            previous[row[0]] = row[1] - 1
    return previous


def link_rows(rows: Sequence[EventRow], heads: Mapping[int, Head]) -> tuple[list[LinkedRow], dict[int, Head]]:
    """Link events to the last ones of their experiments; return the rows to write and the new last events.

    Raises
    ------
    StorageError
        The sequence numbers of an experiment have a gap.
    """
    linked: list[LinkedRow] = []
    last = dict(heads)
    for experiment, sequence, at, kind, request, outcome, record, author in rows:
        before, link = last[experiment]
        if sequence != before + 1:
            raise StorageError(f"event {sequence} of experiment {experiment} cannot follow event {before}")
        link = next_link(link, sequence, at, kind, request, outcome, record, author)
        last[experiment] = Head(sequence, link)
        linked.append((experiment, sequence, at, kind, request, outcome, record, link, author))
    return linked, last
