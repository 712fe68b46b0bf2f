"""What has to be remembered of decisions: who belongs to the hold-out, and what was answered to which key.

Both would grow for ever. What is no longer needed is swept out whenever it may have become half of the whole.
"""

from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import NamedTuple

from msgspec import Struct, field

from glcb.service.errors import Problem

LEAST_KEYS = 10_000
"""So many keys are remembered at least, and longer those whose decisions still wait."""
_LEAST_MARKS = 1_000

Waits = Callable[[str], bool]


class Recall(NamedTuple):
    """Stands for an answer that was given before: the outcome of the event with this number."""

    sequence: int


class Answered(Struct, array_like=True):
    """Where the answer to a request with a key is on record."""

    request: bytes
    """A digest of the request: the same key must not be used for another."""
    decision: str
    sequence: int
    """Number of the event."""


class Keys(Struct):
    """The decisions that were asked for with a key, by their keys, the oldest first."""

    answers: dict[str, Answered] = field(default_factory=dict)
    room: int = 2 * LEAST_KEYS

    def find(self, key: str | None, request: bytes) -> Recall | None:
        """Return where the answer is, if there was one; raise Problem if it was to another request."""
        found = None if key is None else self.answers.get(key)
        if found is None:
            return None
        if found.request != digest(request):
            raise Problem(
                "idempotency_key_reused", f"the key {key!r} was used for another request: use a new key"
            )
        return Recall(found.sequence)

    def add(self, key: str, answered: Answered, waits: Waits) -> None:
        """Remember an answer."""
        self.answers[key] = answered
        if len(self.answers) > self.room:
            old = len(self.answers) - LEAST_KEYS
            kept = {
                key: answered
                for number, (key, answered) in enumerate(self.answers.items())
                if number >= old or waits(answered.decision)
            }
            self.answers, self.room = kept, 2 * len(kept)


class Marks(Struct):
    """The ids of decisions that belong to the hold-out and wait for their reward."""

    ids: set[str] = field(default_factory=set)
    room: int = _LEAST_MARKS

    def add(self, decision: str, waits: Waits) -> None:
        """Mark a decision."""
        self.ids.add(decision)
        if len(self.ids) > self.room:
            self.ids = {marked for marked in self.ids if waits(marked)}
            self.room = max(_LEAST_MARKS, 2 * len(self.ids))

    def take(self, decision: str) -> bool:
        """Return whether a decision was marked; from now on it is not."""
        marked = decision in self.ids
        self.ids.discard(decision)
        return marked

    def listed(self) -> list[str]:
        """Return the ids in an order that depends on nothing but them."""
        return sorted(self.ids)

    @classmethod
    def from_list(cls, ids: Iterable[str], room: int) -> "Marks":
        """Return what :meth:`listed` told of."""
        return cls(set(ids), room)


def digest(request: bytes) -> bytes:
    """Return what stands for a request."""
    return blake2b(request, digest_size=16).digest()
