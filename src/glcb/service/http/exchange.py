"""One HTTP request and its response, as an ASGI application sees them."""

import asyncio
import http
import logging
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote

from glcb.service.errors import ApiError
from glcb.service.http.wire import Header, Message, Receive, Scope, Send, target_too_long

if TYPE_CHECKING:
    from glcb.service.http.protocol import Connection

log = logging.getLogger("glcb.service")

_MAX_UNREAD_BYTES = 65_536
"""Bytes of a body that are received before the application asks for them."""
_MAX_TARGET_BYTES = 4_096
"""Decoding and routing a path takes much longer than reading it, and happens before any key is checked."""
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_EMPTY_STATUSES = (204, 304)


class App(Protocol):
    """An ASGI application."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""


class Disconnected(OSError):
    """The client is gone or too slow: the response cannot be sent."""


class Unacceptable(ValueError):
    """A request is valid HTTP, but its headers or its target are too long."""

    def __init__(self, problem: ApiError) -> None:
        super().__init__(str(problem))
        self.problem = problem


class RecalledExchange:
    """A complete decision or reward that was not parsed, because its headers are known."""

    __slots__ = ("is_answered", "keep_alive")

    is_received = True

    def __init__(self) -> None:
        self.keep_alive = True
        self.is_answered = False

    def leave(self) -> None:
        """Do nothing: the decision or the reward counts, even if the client is gone."""


class Exchange:
    """A request whose headers are complete, and its response.

    Parameters
    ----------
    connection
        Where the request comes from.
    method, target
        From the request line.
    headers
        The headers, with names in lower case.
    version
        The HTTP version, such as ``"1.1"``.
    keep_alive
        Whether the client wants to reuse the connection.

    Raises
    ------
    Unacceptable
        The target is too long.
    ValueError
        The target is not a path.
    """

    def __init__(
        self,
        connection: "Connection",
        method: str,
        target: bytes,
        headers: list[Header],
        version: str,
        keep_alive: bool,
    ) -> None:
        self._connection = connection
        self.method = method
        if len(target) > _MAX_TARGET_BYTES:
            raise Unacceptable(target_too_long(_MAX_TARGET_BYTES))
        raw, _, self._query = target.partition(b"#")[0].partition(b"?")
        if not raw.startswith(b"/"):  # the absolute form, which proxies send
            scheme, _, rest = raw.partition(b"://")
            if scheme.lower() not in (b"http", b"https"):
                raise ValueError("the target must be a path")
            raw = b"/" + rest.partition(b"/")[2]
        self._raw_path = raw
        path = raw.decode("ascii")
        self.path = unquote(path) if "%" in path else path
        self.headers = headers
        self._version = version
        self.keep_alive = keep_alive
        self.body = bytearray()
        """What was received of the body and not yet read by the application."""
        self.is_received = False
        """Whether the whole request was received."""
        self.is_answered = False
        """Whether the response is complete."""
        self.is_gone = False
        """Whether the client is gone, or its request was refused."""
        self._can_continue = version == "1.1"
        """Whether the client may wait for permission to send its body."""
        self._is_read = False
        """Whether the application has read the whole request."""
        self._changed: asyncio.Future[None] | None = None
        """What the application waits for."""
        self._start: Message | None = None
        self._has_started = False
        self._is_chunked = False

    # ---- called by the connection ---------------------------------------------------------------

    def add(self, part: bytes) -> bool:
        """Add a part of the body; return whether the connection should stop reading for now."""
        if self.is_answered:
            return False
        self.body += part
        self._wake()
        return len(self.body) > _MAX_UNREAD_BYTES

    def finish(self) -> None:
        """Note that the request was received."""
        self.is_received = True
        self._wake()

    def leave(self) -> None:
        """Note that the client is gone, or that its request was refused."""
        self.is_gone = True
        self._wake()

    def _wake(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    @property
    def can_be_refused(self) -> bool:
        """Whether an error response can still replace the response of the application."""
        return not self._has_started

    async def run(self, app: App) -> None:
        """Let the application respond."""
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": self._version,
            "method": self.method,
            "scheme": "http",
            "path": self.path,
            "raw_path": self._raw_path,
            "query_string": self._query,
            "root_path": "",
            "headers": self.headers,
            "client": self._connection.peer,
        }
        try:
            await app(scope, self._receive, self._send)
        except Disconnected:
            pass
        except Exception:
            log.exception("a response failed")
        finally:
            self._connection.finished(self)

    # ---- called by the application --------------------------------------------------------------

    async def _receive(self) -> Message:
        if self._can_continue and not self.is_gone:
            self._can_continue = False
            if any(name == b"expect" and value.lower() == b"100-continue" for name, value in self.headers):
                self._connection.write(_CONTINUE)
        while not (self.body or self.is_gone or self.is_answered or self.is_received > self._is_read):
            self._connection.resume_reading()
            self._changed = asyncio.get_running_loop().create_future()
            await self._changed
        if self.is_gone or self.is_answered:
            return {"type": "http.disconnect"}
        part = bytes(self.body)
        self.body.clear()
        self._is_read = self.is_received
        return {"type": "http.request", "body": part, "more_body": not self.is_received}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message  # until the body is there, an error can replace the response
            return
        content, more = message.get("body", b""), message.get("more_body", False)
        if self.is_gone:  # or it was refused, and its connection may already be closed for writing
            raise Disconnected
        if self._start is not None:
            self._connection.write(self._head(self._start))
            self._start, self._has_started, self._can_continue = None, True, False
        await self._connection.write_all(self, self._framed(content, more))
        if not more:
            self.is_answered = True
            self._wake()

    def _head(self, start: Message) -> bytes:
        status: int = start["status"]
        lines = [status_line(status), self._connection.date_line]
        has_length = False
        for name, value in start["headers"]:
            lines.append(b"%b: %b\r\n" % (name, value))
            has_length = has_length or name == b"content-length"
            if name == b"connection" and value == b"close":
                self.keep_alive = False
        if not has_length and status not in _EMPTY_STATUSES:
            if self._version == "1.1":
                self._is_chunked = True
                lines.append(b"transfer-encoding: chunked\r\n")
            else:
                self.keep_alive = False
        if not self.keep_alive:
            lines.append(b"connection: close\r\n")
        return b"".join([*lines, b"\r\n"])

    def _framed(self, content: bytes, more: bool) -> bytes:
        if self.method == "HEAD":
            return b""
        if not self._is_chunked:
            return content
        chunk = b"%x\r\n%b\r\n" % (len(content), content) if content else b""
        return chunk if more else chunk + b"0\r\n\r\n"


def status_line(status: int) -> bytes:
    """Return the first line of a response.

    >>> status_line(404)
    b'HTTP/1.1 404 Not Found\\r\\n'
    """
    return b"HTTP/1.1 %d %b\r\n" % (status, http.HTTPStatus(status).phrase.encode())


def head(status: int, headers: list[Header], length: int) -> bytes:
    """Return the first lines of a response, without its date and its last empty line."""
    lines = [status_line(status), *(b"%b: %b\r\n" % pair for pair in headers)]
    return b"".join([*lines, b"content-length: %d\r\n" % length])
