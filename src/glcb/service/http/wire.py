"""Reading request bodies and writing responses at the level of ASGI messages."""

import asyncio
import re
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, TypeVar, get_args

import msgspec

from glcb._api.requests import encode
from glcb._api.responses import ErrorDetail, ErrorResponse
from glcb.service.errors import ApiError

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
T = TypeVar("T")

SECURITY_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (
        b"content-security-policy",
        b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
]
"""Headers of every response."""

_JSON_HEADERS = [*SECURITY_HEADERS, (b"content-type", b"application/json")]
_MAX_DISCARDED = 32_000_000
"""Bytes of an oversized body that are read and discarded before the connection is closed."""


class Disconnected(Exception):
    """The client disconnected before its request was complete."""


# ---- requests -----------------------------------------------------------------------------------


def header(scope: Scope, name: bytes) -> bytes | None:
    """Return the first header with this name."""
    for key, value in scope["headers"]:
        if key == name:
            first: bytes = value
            return first
    return None


def media_type(scope: Scope) -> bytes:
    """Return the media type of the body, without parameters."""
    return (header(scope, b"content-type") or b"").partition(b";")[0].strip().lower()


def check_json(scope: Scope) -> None:
    """Refuse a body without a JSON content type, so that other web pages cannot send one without CORS."""
    if media_type(scope) != b"application/json":
        raise ApiError("unsupported_media_type", "the body must be JSON: send Content-Type: application/json")


async def read_body(scope: Scope, receive: Receive, max_bytes: int, seconds: float) -> bytes:
    """Return the body of a request; refuse it if it is too large or too slow."""
    if int(header(scope, b"content-length") or 0) > max_bytes and header(scope, b"expect") is not None:
        raise _too_large(max_bytes)  # the client waits for permission to send
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
                if size > max_bytes:
                    parts.clear()
                else:
                    parts.append(part)
                complete = not message.get("more_body", False)
                # A client that is still sending does not read the response: discard the rest first.
                if size > max_bytes and (complete or size > max_bytes + _MAX_DISCARDED):
                    raise _too_large(max_bytes)
                if complete:
                    return parts[0] if len(parts) == 1 else b"".join(parts)
    except TimeoutError:
        raise ApiError(
            "request_timeout", f"the request was not complete after {seconds:g} seconds: send it again"
        ) from None


def _too_large(max_bytes: int) -> ApiError:
    return ApiError("too_large", f"a request can have at most {max_bytes:,} bytes: split it")


def decode(content: bytes, kind: type[T]) -> T:
    """Decode a JSON body."""
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.ValidationError as error:
        message = f"the body does not match the schema: {error}{_fields_hint(kind, error)}"
        raise ApiError("invalid_request", message) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        message = f"the body is not valid JSON: {error}{_nan_hint(content, error)}"
        raise ApiError("invalid_json", message) from None


def _fields_hint(kind: Any, error: Exception) -> str:
    """List the valid fields if a field is unknown."""
    if not str(error).startswith("Object contains unknown field"):
        return ""
    place = re.search(r" - at `\$\.(\w+)\[\d+\]`$", str(error))  # inside an item of a batch
    if place is not None:
        kinds = {field.name: get_args(field.type) for field in msgspec.structs.fields(kind)}
        (kind,) = kinds.get(place[1]) or (kind,)
    return f"; the fields are {', '.join(field.encode_name for field in msgspec.structs.fields(kind))}"


def _nan_hint(content: bytes, error: Exception) -> str:
    """Explain what to send instead of NaN and Infinity, which some JSON libraries write."""
    place = re.search(r"\(byte (\d+)\)$", str(error))
    literal = place and re.compile(rb"NaN|Infinity").match(content, int(place[1]))
    return f"; {literal[0].decode()} is not valid JSON: send null for a missing value" if literal else ""


# ---- responses ----------------------------------------------------------------------------------


def add_security_headers(headers: list[tuple[bytes, bytes]]) -> None:
    """Add the headers of every response, except those that the response already sets."""
    names = {name for name, _ in headers}
    headers.extend(pair for pair in SECURITY_HEADERS if pair[0] not in names)


async def send_json(
    send: Send, status: int, content: bytes, more_headers: Sequence[tuple[bytes, bytes]] = ()
) -> None:
    """Send a JSON response."""
    headers = [*_JSON_HEADERS, (b"content-length", b"%d" % len(content)), *more_headers]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


def error_body(error: ApiError) -> bytes:
    """Return the body of an error response."""
    return encode(ErrorResponse(ErrorDetail(error.code, str(error))))


def error_headers(error: ApiError) -> list[tuple[bytes, bytes]]:
    """Return the additional headers of an error response."""
    if error.status == 401:
        return [(b"www-authenticate", b"Bearer")]
    if error.allow:
        return [(b"allow", error.allow.encode())]
    if error.status == 503:
        return [(b"retry-after", b"1")]
    if error.code in ("too_large", "request_timeout"):  # the rest of the request is not read
        return [(b"connection", b"close")]
    return []
