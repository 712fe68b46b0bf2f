"""HTTP/1.1 connections: Uvicorn's protocol, with limits on everything that a client controls.

A connection answers one request at a time. It holds at most ``MAX_HEADER_BYTES`` of headers, trailers and
chunk framing, a part of a body that the application has not read yet, and one part of a response. A client
has ``idle_seconds`` to start a request, ``request_seconds`` to complete its headers, and ``write_seconds`` to
read what was sent; the application limits the time for the body. If there are too many connections, the one
that has waited longest for its client is aborted.

``HttpToolsProtocol`` is not a public class of Uvicorn: ``pyproject.toml`` allows only tested versions.
"""

import asyncio
import functools
import logging
import time
from typing import Any, NamedTuple, Protocol

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from glcb.service.errors import ApiError
from glcb.service.http import wire
from glcb.service.http.errors import HttpError
from glcb.service.http.wire import Message, Receive, Scope, Send

log = logging.getLogger("glcb.service")

MAX_HEADER_BYTES = 65_536
_MAX_HEADERS = 100
_MAX_TARGET_BYTES = 4_096
"""Decoding and routing a path takes much longer than reading it, and happens before any key is checked."""
_PARSE_BYTES = 16_384
"""Bytes that are parsed before they are checked against the limits."""
_WRITE_BYTES = 32_768
_BODY_PER_FRAMING = 64
"""A body in chunks may have one more byte of framing for this many bytes of content."""
_MAX_WAITING = 16
"""Requests that may wait for the response to another one; the connection is closed after them."""
_MAX_DROPPED_BYTES = 32_000_000
"""Bytes that are dropped after the last response, because a client that still sends does not read it."""
_MAX_LINGER_SECONDS = 5.0
_SWEEP_SECONDS = 0.25


class Timeouts(NamedTuple):
    """The settings of the same names."""

    request_seconds: float
    idle_seconds: float
    write_seconds: float


class _Unacceptable(ValueError):
    """A request that the parser accepts, and the service does not."""

    def __init__(self, problem: ApiError) -> None:
        super().__init__(str(problem))
        self.problem = problem


class Answering(Protocol):
    """An ASGI application that also answers requests which could not be parsed."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

    async def reject(self, problem: ApiError, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that could not be parsed."""


class Connections:
    """All connections of a server. Uvicorn calls it to make one.

    Parameters
    ----------
    app
        Answers the requests.
    timeouts
        How long a connection waits for its client.
    max_connections
        The number of connections beyond which one is aborted.
    """

    def __init__(self, app: "Answering", timeouts: Timeouts, max_connections: int) -> None:
        self.app = app
        self.timeouts = timeouts
        self._max_connections = max_connections
        self._waiting: dict[Connection, float] = {}
        """When connections that wait for their client expire; those that have waited longest are first."""
        self._is_sweeping = False

    def __call__(
        self, config: Config, server_state: ServerState, app_state: dict[str, Any], _loop: Any = None
    ) -> "Connection":
        """Return the protocol of a new connection."""
        return Connection(self, config, server_state, app_state, _loop)

    def add(self, connection: "Connection") -> None:
        """Add a connection; if there are too many, abort the one that has waited longest."""
        if len(connection.connections) > self._max_connections:
            next(iter(self._waiting), connection).abort()

    def expect(self, connection: "Connection", seconds: float | None) -> None:
        """Abort a connection after this time, unless something else is expected of it meanwhile."""
        self._waiting.pop(connection, None)
        if seconds is None:
            return
        self._waiting[connection] = time.monotonic() + seconds
        if not self._is_sweeping:
            self._is_sweeping = True
            asyncio.get_running_loop().call_later(_SWEEP_SECONDS, self._sweep)

    def _sweep(self) -> None:
        """Abort connections whose time is up. One timer for all is cheaper than two for each request."""
        loop, now = asyncio.get_running_loop(), time.monotonic()
        for connection in [one for one, deadline in self._waiting.items() if deadline < now]:
            loop.call_soon(connection.abort)  # separately: an error in one must not affect the others
        self._is_sweeping = bool(self._waiting)
        if self._is_sweeping:
            loop.call_later(_SWEEP_SECONDS, self._sweep)


class Connection(HttpToolsProtocol):
    """One connection. The parser calls the methods ``on_…``, asyncio and Uvicorn the other public ones.

    Parameters
    ----------
    connections
        All connections of the server.
    config, server_state, app_state, loop
        See Uvicorn.
    """

    def __init__(
        self,
        connections: Connections,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, loop)
        self.app = connections.app
        self._all = connections
        self._active: RequestResponseCycle | None = None
        """The request that is being answered. Those in ``pipeline`` wait for it; ``cycle`` is the newest."""
        self._is_receiving = False
        """Whether a request has begun and is not complete."""
        self._has_headers = False
        """Whether its headers are complete, so that it is ``cycle``."""
        self._received = 0
        """Bytes of the current request."""
        self._content = 0
        """Bytes of its body."""
        self._is_dropping = False
        """Whether nothing is parsed any more; the connection is closed after the requests so far."""
        self._dropped = 0
        self._is_last = False
        """Whether the connection is closed after the current response."""
        self._is_closing = False
        self._has_ended = False
        """Whether the client has closed its side, or the service stops."""
        self._expected = ""
        """What the client has to do before the connection expires."""

    # ---- transport ------------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        """Wait for the first request."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=_WRITE_BYTES)
        self._expect()
        self._all.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the application that the client is gone."""
        self._leave()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what was received, a part at a time."""
        view = memoryview(data)
        for start in range(0, len(view), _PARSE_BYTES):
            if self._is_dropping:
                self._dropped += len(view) - start
                if self._dropped > _MAX_DROPPED_BYTES:
                    self.abort()
                return
            self._parse(view[start : start + _PARSE_BYTES])

    def eof_received(self) -> bool:  # type: ignore[override]  # as asyncio permits
        """Return whether a response is still to be sent."""
        self._is_dropping = self._has_ended = True
        incomplete = self._incomplete()
        if self._active is None or self._active is incomplete:
            return False
        if incomplete is not None:
            self._is_receiving = False
            self.pipeline.popleft()
        return True

    def pause_writing(self) -> None:
        """Wait for a client that does not read fast enough."""
        super().pause_writing()
        self._expect()

    def resume_writing(self) -> None:
        """Continue with the response."""
        super().resume_writing()
        self._expect()

    def shutdown(self) -> None:
        """Close the connection after the requests so far, without waiting for the client."""
        self._has_ended = True
        super().shutdown()

    def abort(self) -> None:
        """Close the connection at once and forget what was not sent."""
        self._leave()
        self.transport.abort()

    def _leave(self) -> None:
        """Let the application know that nobody waits for its response."""
        self._is_dropping = self._is_closing = True
        self._all.expect(self, None)
        self.pipeline.clear()
        if self._active is not None:
            _disconnect(self._active)

    def _close(self) -> None:
        """Close our side and drop what still arrives: an immediate close could destroy the response."""
        self._is_dropping = self._is_closing = True
        self.pipeline.clear()
        if self._has_ended:
            self.transport.close()
            self._expect()
            return
        try:
            self.transport.write_eof()
        except OSError:  # the client is gone
            self.abort()
            return
        self.flow.resume_reading()
        self._expect()

    def _expect(self) -> None:
        """Limit the time for what the client has to do now, unless that is limited already."""
        times = self._all.timeouts
        seconds: float | None = None
        if self.flow.write_paused or (self._is_closing and self.transport.get_write_buffer_size()):
            expected, seconds = "read", times.write_seconds
        elif self._is_closing:
            expected, seconds = "close", min(times.request_seconds, _MAX_LINGER_SECONDS)
        elif self._active is not None:
            expected = ""
        elif self._is_receiving:
            expected, seconds = "send", times.request_seconds
        else:
            expected, seconds = "begin", times.idle_seconds
        if expected != self._expected:
            self._expected = expected
            self._all.expect(self, seconds)

    # ---- requests -------------------------------------------------------------------------------

    def _parse(self, data: bytes | memoryview) -> None:
        """Parse a part of what was received; what follows a request to upgrade is parsed again."""
        rest: bytes | memoryview = data
        while rest and not self._is_dropping:
            upgraded = self._feed(rest)
            rest = b"" if upgraded is None else self._without_upgrade(bytes(rest[upgraded:]))

    def _feed(self, data: bytes | memoryview) -> int | None:
        """Feed the parser; return where the body of a request to upgrade begins, if there is one."""
        self._received += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            return int(upgrade.args[0])
        except httptools.HttpParserError as error:
            cause = error.__context__
            if not isinstance(cause, ValueError | None):
                log.error("a request could not be parsed", exc_info=cause)
            self._reject(cause.problem if isinstance(cause, _Unacceptable) else _invalid())
        else:
            if self._received - self._content > MAX_HEADER_BYTES + self._content // _BODY_PER_FRAMING:
                self._reject(wire.headers_too_large(MAX_HEADER_BYTES, _MAX_HEADERS))
        return None

    def _without_upgrade(self, rest: bytes) -> bytes:
        """Return a request that asks for another protocol, without the header that does, for a new parser.

        The old one does not read its body: ``rest`` begins with it.
        """
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        lines += [b"%b: %b" % pair for pair in self.headers if pair[0] != b"upgrade"]
        self._received = 0
        self.parser = httptools.HttpRequestParser(self)
        return b"\r\n".join([*lines, b"", rest])

    def on_message_begin(self) -> None:
        """Start the time limit of the headers."""
        super().on_message_begin()
        self.scope["asgi"]["spec_version"] = "2.4"  # send() raises OSError if the client is gone
        self._is_receiving, self._has_headers = True, False
        self._expect()

    def on_url(self, url: bytes) -> None:
        """Add a part of the target."""
        super().on_url(url)
        if len(self.url) > _MAX_TARGET_BYTES:
            raise _Unacceptable(wire.target_too_long(_MAX_TARGET_BYTES))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header; ignore trailers."""
        if not self._has_headers:
            if len(self.headers) == _MAX_HEADERS:
                raise _Unacceptable(wire.headers_too_large(MAX_HEADER_BYTES, _MAX_HEADERS))
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start to answer a request, or let it wait for others."""
        if self._is_dropping:
            return
        if self.parser.get_method() == b"CONNECT":
            raise _Unacceptable(_invalid())
        if self.parser.should_upgrade():
            return  # the request is parsed again without it
        try:
            super().on_headers_complete()
        except (httptools.HttpParserError, AttributeError, UnicodeError):  # the target is not a path
            raise _Unacceptable(_invalid()) from None
        self._has_headers = True
        if len(self.pipeline) == _MAX_WAITING:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Add a part of a body; read no further if the application does not take it."""
        self._content += len(body)
        if not self._is_dropping:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait for the next request, if one may follow."""
        if self._is_dropping or not self._has_headers:
            return
        super().on_message_complete()
        self._is_receiving = False
        self._received = self._content = 0
        self._is_dropping = not self.cycle.keep_alive
        self._expect()

    def _incomplete(self) -> RequestResponseCycle | None:
        """Return the request whose body is being received."""
        return self.cycle if self._is_receiving and self._has_headers else None

    def _reject(self, problem: ApiError) -> None:
        """Parse nothing more; respond with an error after the requests that were complete."""
        if self._is_dropping:
            return
        incomplete = self._incomplete()
        if incomplete is not None and incomplete.response_complete:
            self._close()
            return
        if incomplete is not None and incomplete.response_started:
            self.abort()
            return
        if incomplete is not None and incomplete is not self._active:
            self.pipeline.popleft()
        elif incomplete is not None:
            _disconnect(incomplete)  # the application waits for the rest of the body
            self._active = None
            self.cycle = None  # type: ignore[assignment]  # as before the first request
        # The error is the answer to one more request, which closes the connection.
        self.app = functools.partial(self._all.app.reject, problem)
        self.parser = httptools.HttpRequestParser(self)
        self.parser.feed_data(b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")

    # ---- responses ------------------------------------------------------------------------------

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._active = cycle
        self._expect()
        super()._start_asgi_task(cycle, functools.partial(self._answer, cycle, app))

    async def _answer(
        self, cycle: RequestResponseCycle, app: Any, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Let an application answer; write its response at the pace of the client."""
        is_old = scope["http_version"] != "1.1"
        if is_old:  # Uvicorn would send chunks, which the client does not know
            cycle.keep_alive = cycle.chunked_encoding = False

        async def write(message: Message, is_end: bool = False) -> None:
            await self.flow.drain()
            if cycle.disconnected or self.transport.is_closing():
                raise wire.Disconnected
            if is_end:  # Uvicorn would close the connection at once
                self._is_last, cycle.keep_alive = not cycle.keep_alive, True
            await send(message)

        async def write_parts(message: Message) -> None:
            if message["type"] == "http.response.start":
                await write(message)
                return
            body, more = message.get("body", b""), message.get("more_body", False)
            for start in range(0, len(body) or 1, _WRITE_BYTES):
                part = bytes(body[start : start + _WRITE_BYTES])
                is_end = not more and start + _WRITE_BYTES >= len(body)
                if is_old:
                    cycle.expected_content_length += len(part)
                await write({"type": message["type"], "body": part, "more_body": not is_end}, is_end)

        try:
            await app(scope, receive, write_parts)
        except (wire.Disconnected, asyncio.CancelledError):
            pass
        except Exception:
            log.exception("a response failed")
        if not cycle.response_complete:
            cycle.disconnected = True  # Uvicorn must not respond, either
            if cycle is self._active:  # closing the connection is the only way to say that it is incomplete
                self.abort()

    def on_response_complete(self) -> None:
        """Go on with the next request after a response."""
        if self._active is not None:
            self._active.body.clear()  # of a request that was rejected before its body was read
        self._active = None
        if self.transport.is_closing():
            return
        if self._is_last or (self._is_dropping and not self.pipeline):
            self._close()
            return
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        if not self.pipeline:
            self.flow.resume_reading()
        self._expect()


def _disconnect(cycle: RequestResponseCycle) -> None:
    """Let the application know that nobody waits for its response."""
    cycle.disconnected = True
    cycle.waiting_for_100_continue = False
    cycle.message_event.set()


def _invalid() -> ApiError:
    return HttpError("invalid_request", "the request is not valid HTTP/1.1", status=400)
