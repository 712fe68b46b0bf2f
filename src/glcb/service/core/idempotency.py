"""Idempotency keys of decisions.

They would grow without bound. Keys that are no longer needed are swept when the capacity is reached, and the
capacity is then set to twice what is left, so that sweeping costs constant time per key.
"""

from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct, field

from glcb._errors import InvalidInput
from glcb.service.core.open_decisions import IsPending
from glcb.service.errors import ApiError

MIN_KEYS = 10_000
"""The newest keys that are always remembered. Keys of pending decisions are kept longer."""


_encode = msgspec.json.Encoder(order="deterministic").encode
"""Sort the features of a context by name: their order does not distinguish two requests."""


class RepeatedAnswer(NamedTuple):
    """A reference to an earlier answer: the outcome of the event with this sequence number."""

    sequence: int


class StoredAnswer(Struct, array_like=True):
    """Where the answer to a request with an idempotency key is stored."""

    request: bytes
    """Digest of the request: the key must not be used for a different one."""
    decision: str
    sequence: int
    """Sequence number of the event that contains the answer."""


class IdempotencyKeys(Struct):
    """Answers by idempotency key, oldest first."""

    answers: dict[str, StoredAnswer] = field(default_factory=dict)
    capacity: int = 2 * MIN_KEYS

    def find(self, key: str | None, request_digest: bytes) -> RepeatedAnswer | None:
        """Return the stored answer of a repeated request, or None if the request is new.

        Raises
        ------
        ApiError
            The key was used for a different request.
        """
        stored = None if key is None else self.answers.get(key)
        if stored is None:
            return None
        if stored.request != request_digest:
            raise ApiError(
                "idempotency_key_reused",
                f"the idempotency key {key!r} was used for a different request: use a new key",
            )
        return RepeatedAnswer(stored.sequence)

    def add(self, key: str, answer: StoredAnswer, is_pending: IsPending) -> None:
        """Store an answer."""
        self.answers[key] = answer
        if len(self.answers) > self.capacity:
            old = len(self.answers) - MIN_KEYS
            kept = {
                key: answer
                for number, (key, answer) in enumerate(self.answers.items())
                if number >= old or is_pending(answer.decision)
            }
            self.answers, self.capacity = kept, 2 * len(kept)


def digest(request: Any) -> bytes:
    """Return the digest that identifies a request.

    >>> digest({"age": 31, "country": "FR"}) == digest({"country": "FR", "age": 31})
    True
    """
    try:
        encoded = _encode(request)
    except RecursionError:
        raise InvalidInput("the request is nested too deeply: send fewer levels") from None
    return blake2b(encoded, digest_size=16).digest()
