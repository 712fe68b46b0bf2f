"""What requests are made of: paths, keys, bodies."""

import math
import re
import secrets
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote

import msgspec

from glcb._api.responses import EXPERIMENT_NAME
from glcb._errors import InvalidContext, InvalidReward, InvalidSettings, UnknownDecision
from glcb.client.contexts import sendable

_ID = re.compile(r"[\w-]{1,100}", re.ASCII)
_MOST_ITEMS = 1000
_MOST_BYTES = 900_000
"""More decisions or rewards than these are sent in several requests: the limits of the service."""


def pieces(field: str, items: Iterable[dict[str, Any]]) -> Iterator[bytes]:
    """Return bodies with all items, none too large."""
    piece: list[bytes] = []
    size = 0
    for item in map(encoded, items):
        if piece and (len(piece) == _MOST_ITEMS or size + len(item) > _MOST_BYTES):
            yield _joined(field, piece)
            piece, size = [], 0
        piece.append(item)
        size += len(item) + 1
    if piece:
        yield _joined(field, piece)


def _joined(field: str, piece: list[bytes]) -> bytes:
    return b'{"%s":[%s]}' % (field.encode(), b",".join(piece))


def asked(context: Any, eligible: Iterable[str] | None) -> dict[str, Any]:
    """Return what is asked about a context."""
    return {"context": sendable(context)} | ({} if eligible is None else {"eligible": list(eligible)})


def key(given: str | None = None) -> str:
    """Return a key of the caller, or one that nobody else has: whatever has a key can be sent again."""
    return secrets.token_hex(16) if given is None else given


def reward(value: Any) -> float:
    """Return a reward that JSON can hold."""
    try:
        number = math.nan if isinstance(value, str | bytes | bytearray) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise InvalidReward(f"a reward must be a finite number, got {value!r}")
    return number


def encoded(body: Any) -> bytes:
    """Return a body as JSON."""
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError as error:
        raise InvalidContext(f"this cannot be sent, as it is no proper text: {error.object!r}") from error


def path(name: str) -> str:
    """Return where an experiment is."""
    if not EXPERIMENT_NAME.fullmatch(name):
        raise InvalidSettings(
            "the name of an experiment must be like home-2: 1 to 64 of a–z, 0–9, _ and -, beginning with a "
            f"letter or digit, got {name!r}"
        )
    return f"v1/experiments/{name}"


def decision(name: str) -> str:
    """Return the id of a decision, if it is one and not the decision itself."""
    if not isinstance(name, str):
        raise UnknownDecision(
            f"a decision is named by its id, a text, got something of the type {type(name).__name__}: "
            "for a decision d, pass d.id"
        )
    return name


def decision_path(name: str) -> str:
    """Return the id of a decision as part of a path."""
    if not _ID.fullmatch(decision(name)):
        raise UnknownDecision(f"{name!r} is no id of a decision: pass that of one of this experiment")
    return name


def arm(name: str) -> str:
    """Return an arm as part of a path; its dots too, as "." and ".." would lead elsewhere."""
    return quote(name, safe="").replace(".", "%2E")
