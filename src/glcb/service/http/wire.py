"""Reading request bodies and writing responses at the level of ASGI messages."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping, Sequence
from typing import Any, NamedTuple, TypeVar, get_args

import msgspec
from msgspec.json import Decoder

from glcb._api.requests import encode
from glcb._api.responses import ErrorDetail, ErrorResponse
from glcb.service.errors import ApiError
from glcb.service.http.errors import HttpError, allowed_methods_of, status_of

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Header = tuple[bytes, bytes]
Hold = Callable[[int], None]
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

JSON_HEADERS = [*SECURITY_HEADERS, (b"content-type", b"application/json")]
"""Headers of every response with a JSON body."""


class JsonAnswer(NamedTuple):
    """A response with a JSON body."""

    status: int
    content: bytes
    headers: Sequence[Header] = ()
    """Headers beyond those of every JSON response."""


class Disconnected(OSError):
    """The client is gone, or too slow."""


class Misdirected(Exception):
    """Another worker owns the experiment by now. Nothing has been done."""


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


def content_length(scope: Scope) -> int:
    """Return the declared length of the body, or 0 if there is none; all above 10¹⁸ count as 10¹⁸."""
    return int((header(scope, b"content-length") or b"").lstrip(b"0")[:19] or 0)


async def read_body(scope: Scope, receive: Receive, max_bytes: int, seconds: float, hold: Hold) -> bytes:
    """Return the body of a request; refuse it if it is too large or too slow.

    Parameters
    ----------
    scope, receive
        The request.
    max_bytes
        The largest size of the body.
    seconds
        The time that the client has to send it.
    hold
        Called with the size of each part that is kept in memory; it may refuse the request.
    """
    if content_length(scope) > max_bytes:
        raise _too_large(max_bytes)
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
                    raise _too_large(max_bytes)
                hold(len(part))
                parts.append(part)
                if not message.get("more_body", False):
                    return parts[0] if len(parts) == 1 else b"".join(parts)
    except TimeoutError:
        raise request_timeout(seconds) from None


def request_timeout(seconds: float) -> ApiError:
    """Return the error for a client that is too slow."""
    message = f"the request was not complete after {seconds:g} seconds: send it again"
    return ApiError("request_timeout", message)


def headers_too_large(max_bytes: int, max_headers: int) -> ApiError:
    """Return the error for headers, trailers or chunk framing without end."""
    message = (
        f"a request can have at most {max_headers:,} headers, and {max_bytes:,} bytes of headers, trailers "
        "and chunk sizes"
    )
    return HttpError("too_large", message, status=431)


def target_too_long(max_bytes: int) -> ApiError:
    """Return the error for a path and a query that no route needs."""
    return HttpError("too_large", f"path and query can have at most {max_bytes:,} bytes", status=414)


def _too_large(max_bytes: int) -> ApiError:
    return ApiError("too_large", f"a request can have at most {max_bytes:,} bytes: split it")


def decode(content: bytes, decoder: Decoder[T]) -> T:
    """Decode a JSON body."""
    try:
        return decoder.decode(content)
    except msgspec.ValidationError as error:
        message = f"the body does not match the schema: {error}{_fields_hint(decoder.type, error)}"
        raise ApiError("invalid_request", message) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        message = f"the body is not valid JSON: {error}{_nan_hint(content, error)}"
        raise ApiError("invalid_json", message) from None


def _fields_hint(kind: Any, error: Exception) -> str:
    """List the valid fields if a field is unknown."""
    if not str(error).startswith("Object contains unknown field"):
        return ""
    place = re.search(r" - at `\$((?:\.\w+\[\d+\])+)`$", str(error))  # inside an item of a list
    for name in re.findall(r"\.(\w+)", place[1] if place else ""):
        types = [field.type for field in msgspec.structs.fields(kind) if field.name == name]
        kind = next(_structs(types), kind)
    return f"; the fields are {', '.join(field.encode_name for field in msgspec.structs.fields(kind))}"


def _structs(types: Iterable[Any]) -> Iterator[type[msgspec.Struct]]:
    """Yield the structs in types and in their arguments."""
    for kind in types:
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            yield kind
        yield from _structs(get_args(kind))


def _nan_hint(content: bytes, error: Exception) -> str:
    """Explain what to send instead of NaN and Infinity, which some JSON libraries write."""
    place = re.search(r"\(byte (\d+)\)$", str(error))
    literal = place and re.compile(rb"NaN|Infinity").match(content, int(place[1]))
    return f"; {literal[0].decode()} is not valid JSON: send null for a missing value" if literal else ""


# ---- responses ----------------------------------------------------------------------------------


def add_security_headers(headers: list[Header]) -> None:
    """Add the headers of every response, except those that the response already sets."""
    names = {name for name, _ in headers}
    headers.extend(pair for pair in SECURITY_HEADERS if pair[0] not in names)


async def send_json(send: Send, answer: JsonAnswer) -> None:
    """Send a JSON response."""
    headers = [*JSON_HEADERS, (b"content-length", b"%d" % len(answer.content)), *answer.headers]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.content})


def error_answer(error: ApiError) -> JsonAnswer:
    """Return an error response."""
    return JsonAnswer(status_of(error), error_body(error), _error_headers(error))


def error_body(error: ApiError) -> bytes:
    """Return the body of an error response."""
    return encode(ErrorResponse(ErrorDetail(error.code, str(error), error.field)))


def _error_headers(error: ApiError) -> list[Header]:
    status, allow = status_of(error), allowed_methods_of(error)
    if status == 401:
        return [(b"www-authenticate", b"Bearer")]
    if allow:
        return [(b"allow", allow.encode())]
    if status in (429, 503):
        return [(b"retry-after", b"1")]
    if error.code in ("too_large", "request_timeout"):  # the rest of the request is not read
        return [(b"connection", b"close")]
    return []
