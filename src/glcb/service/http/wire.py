"""Requests in and answers out, as ASGI has them: limits on what comes, the same headers on all that goes."""

import asyncio
import re
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, TypeVar, get_args

import msgspec

from glcb._api.requests import encode
from glcb._api.responses import Refusal, Refused
from glcb.service.errors import Problem

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
T = TypeVar("T")

SECURITY = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (
        b"content-security-policy",
        b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
]
"""Headers of every answer."""


def secure(headers: list[tuple[bytes, bytes]]) -> None:
    """Add the headers of every answer, but those that the answer has its own way."""
    own = {name for name, _ in headers}
    headers.extend(pair for pair in SECURITY if pair[0] not in own)


_THROWN_AWAY = 32_000_000
"""Of a request that is too large, at most so many bytes more are read."""
_JSON = [*SECURITY, (b"content-type", b"application/json")]


class Disconnected(Exception):
    """The client went away before its request was complete."""


def header(scope: Scope, name: bytes) -> bytes | None:
    """Return the first header of this name."""
    for key, value in scope["headers"]:
        if key == name:
            found: bytes = value
            return found
    return None


async def body(scope: Scope, receive: Receive, most: int, seconds: float) -> bytes:
    """Return the body of a request, if it is complete in time and not too large."""
    if int(header(scope, b"content-length") or 0) > most and header(scope, b"expect") is not None:
        raise _too_large(most)  # who asks first is told at once
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Disconnected
                part: bytes = message.get("body", b"")
                size += len(part)
                if size > most:
                    parts.clear()
                else:
                    parts.append(part)
                complete = not message.get("more_body", False)
                # Who is still sending does not hear an answer: what is too large is thrown away first.
                if size > most and (complete or size > most + _THROWN_AWAY):
                    raise _too_large(most)
                if complete:
                    return parts[0] if len(parts) == 1 else b"".join(parts)
    except TimeoutError:
        raise Problem(
            "request_timeout", f"the request was not complete after {seconds:g} seconds: send it again"
        ) from None


def _too_large(most: int) -> Problem:
    return Problem("too_large", f"a request can have at most {most:,} bytes: send less at once")


def check_json(scope: Scope) -> None:
    """Refuse a body that does not say that it is JSON; so no web page can send one unasked."""
    said = header(scope, b"content-type") or b""
    if said.partition(b";")[0].strip().lower() != b"application/json":
        raise Problem("unsupported_media_type", "the body must be JSON: send Content-Type: application/json")


def decoded(content: bytes, kind: type[T]) -> T:
    """Return a body as what it should be."""
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError as error:
        raise Problem("invalid_request", f"the body does not fit: {error}{_fields(kind, error)}") from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Problem(
            "invalid_json", f"the body is not proper JSON: {error}{_no_number(content, error)}"
        ) from None


def _fields(kind: Any, error: Exception) -> str:
    """Return which fields there are, if one is not known."""
    if not str(error).startswith("Object contains unknown field"):
        return ""
    where = re.search(r" - at `\$\.(\w+)\[\d+\]`$", str(error))  # in one of a list of others
    if where is not None:
        kinds = {field.name: get_args(field.type) for field in msgspec.structs.fields(kind)}
        (kind,) = kinds.get(where[1]) or (kind,)
    return f"; the fields are {', '.join(field.encode_name for field in msgspec.structs.fields(kind))}"


def _no_number(content: bytes, error: Exception) -> str:
    """Return what to send instead of NaN and infinity, which some libraries write and JSON does not have."""
    where = re.search(r"\(byte (\d+)\)$", str(error))
    found = where and re.compile(rb"NaN|Infinity").match(content, int(where[1]))
    return f"; {found[0].decode()} is no JSON: send null for what is not known" if found else ""


def refusal(problem: Problem) -> bytes:
    """Return what is answered to a request that is refused."""
    return encode(Refused(Refusal(problem.code, str(problem))))


def refusal_headers(problem: Problem) -> list[tuple[bytes, bytes]]:
    """Return what a refusal says in its headers."""
    if problem.status == 401:
        return [(b"www-authenticate", b"Bearer")]
    if problem.allow:
        return [(b"allow", problem.allow.encode())]
    if problem.status == 503:
        return [(b"retry-after", b"1")]
    if problem.code in ("too_large", "request_timeout"):  # the rest of the request is not read
        return [(b"connection", b"close")]
    return []


async def answer(
    send: Send, status: int, content: bytes, more_headers: Sequence[tuple[bytes, bytes]] = ()
) -> None:
    """Send an answer in JSON."""
    headers = [*_JSON, (b"content-length", b"%d" % len(content)), *more_headers]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
