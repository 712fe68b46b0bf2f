"""HTTP/1.1 connections with limits on everything that a client controls.

A connection handles one request at a time and reads no further meanwhile. It holds at most
``MAX_HEADER_BYTES`` of headers, trailers and chunk framing, a part of a body that the application has not
read yet, and ``_WRITE_BYTES`` of a response. A client has ``idle_seconds`` to start a request,
``request_seconds`` to complete its headers, and ``write_seconds`` to read what was sent; then the connection
is aborted. If there are too many connections, the one that has waited longest for its client is aborted.
"""

import asyncio
import functools
import logging
import time
from collections import deque
from typing import Any, NamedTuple

import httptools
from uvicorn.server import ServerState

from glcb.service.errors import ApiError
from glcb.service.http import wire
from glcb.service.http.app import Application
from glcb.service.http.exchange import Disconnected, Exchange, RecalledExchange, Unacceptable, head
from glcb.service.http.fast_path import Admitted
from glcb.service.http.wire import Header

log = logging.getLogger("glcb.service")

MAX_HEADER_BYTES = 65_536
_MAX_HEADERS = 1_000
_READ_BYTES = 32_768
_WRITE_BYTES = 32_768
_BODY_PER_FRAMING = 64
"""A body in chunks may have one more byte of framing for this many bytes of content."""
_MAX_PIPELINED = 16
"""Requests that are parsed before the first of them is answered; the connection is closed after them."""
_MAX_DROPPED_BYTES = 32_000_000
"""Bytes that are dropped after a refusal, because a client that still sends does not read the response."""
_MAX_LINGER_SECONDS = 5.0
_SWEEP_SECONDS = 0.25
_NEVER = float("inf")

_buffer = bytearray(_READ_BYTES)
"""Where all connections read into: what is read is used before the next read."""
_view = memoryview(_buffer)


class Timeouts(NamedTuple):
    """The settings of the same names."""

    request_seconds: float
    idle_seconds: float
    write_seconds: float


class Connections:
    """All connections of a server.

    Parameters
    ----------
    app
        Handles the requests.
    state
        The state of Uvicorn's server, which waits for connections and tasks at shutdown.
    timeouts
        How long a connection waits for its client.
    max_connections
        The number of connections beyond which one is aborted.
    """

    def __init__(
        self,
        app: Application,
        state: ServerState,
        timeouts: Timeouts,
        max_connections: int,
    ) -> None:
        self.app = app
        self.state = state
        self.timeouts = timeouts
        self.waiting: dict[Connection, None] = {}
        """Connections that wait for their client, longest first."""
        self._max_connections = max_connections
        self._is_sweeping = False
        self._date_headers: list[Header] = []
        self._date_line = b""
        self._success_head = b""

    def add(self, connection: "Connection") -> None:
        """Add a connection; if there are too many, abort the one that has waited longest."""
        connections: set[Any] = self.state.connections
        connections.add(connection)
        if len(connections) > self._max_connections:
            next(iter(self.waiting), connection).abort()
        if not self._is_sweeping:
            self._is_sweeping = True
            asyncio.get_running_loop().call_later(_SWEEP_SECONDS, self._sweep)

    def remove(self, connection: "Connection") -> None:
        """Remove a closed connection."""
        connections: set[Any] = self.state.connections
        connections.discard(connection)
        self.waiting.pop(connection, None)

    def _sweep(self) -> None:
        """Expire connections whose time is up. One timer for all is cheaper than two for each request."""
        now = time.monotonic()
        connections: set[Any] = self.state.connections
        for connection in [one for one in connections if one.deadline < now]:
            try:
                connection.expire()
            except Exception:  # without the sweep, no connection would expire any more
                log.exception("a connection could not be expired")
                connection.abort()
        self._is_sweeping = bool(connections)
        if self._is_sweeping:
            asyncio.get_running_loop().call_later(_SWEEP_SECONDS, self._sweep)

    @property
    def date_line(self) -> bytes:
        """The Date header, which Uvicorn renews every second."""
        if self.state.default_headers is not self._date_headers:
            self._date_headers = self.state.default_headers
            self._date_line = b"".join(b"%b: %b\r\n" % pair for pair in self._date_headers)
            lines = b"".join(b"%b: %b\r\n" % pair for pair in wire.JSON_HEADERS)
            self._success_head = b"HTTP/1.1 200 OK\r\n" + self._date_line + lines + b"content-length: "
        return self._date_line

    def json_response(self, answer: wire.JsonAnswer, keep_alive: bool) -> bytes:
        """Return a complete response with a JSON body."""
        date_line = self.date_line
        end = b"\r\n" if keep_alive else b"connection: close\r\n\r\n"
        if answer.status == 200 and self._success_head:
            return b"%b%d\r\n%b%b" % (self._success_head, len(answer.content), end, answer.content)
        headers = [*wire.JSON_HEADERS, *answer.headers]
        return head(answer.status, headers, len(answer.content)) + date_line + end + answer.content


class Connection(asyncio.BufferedProtocol):
    """One connection. The parser calls the methods ``on_…``.

    Parameters
    ----------
    connections
        All connections of the server.
    """

    def __init__(self, connections: Connections) -> None:
        self._all = connections
        self._transport: asyncio.Transport
        self._parser = httptools.HttpRequestParser(self)
        self.deadline = _NEVER
        """When the connection expires, unless something happens before."""
        self._method = b""
        self._target = b""
        self._headers: list[Header] = []
        self._received = 0
        """Bytes of the current request."""
        self._content = 0
        """Bytes of its body."""
        self._incoming: Exchange | None = None
        """The request whose body is being received."""
        self._active: Exchange | RecalledExchange | None = None
        """The request that is being answered."""
        self._admitted: Admitted | None = None
        """The decision or reward that waits for its body."""
        self._pipelined: deque[Exchange] = deque()
        self._unparsed = b""
        """What was received behind a complete request."""
        self._is_between = True
        """Whether the parser waits for the first byte of a request."""
        self._first_bytes = b""
        """What was received together with the first byte of the current request, while it is parsed."""
        self._held = b""
        """The headers of a decision or a reward that are known, so that they need not be parsed."""
        self._refusal: ApiError | None = None
        """The response after all others; nothing is parsed any more."""
        self._is_dropping = False
        self._dropped = 0
        self._is_reading = True
        self._is_ending = False
        """Whether the connection is closed after the last response."""
        self._writable: asyncio.Future[None] | None = None
        """Done when the client has read enough; None while it does."""

    # ---- transport ------------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        """Wait for the first request."""
        self._transport = transport
        transport.set_write_buffer_limits(high=_WRITE_BYTES)
        self._wait(self._all.timeouts.idle_seconds)
        self._all.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the application that the client is gone."""
        self.deadline = _NEVER
        self._is_dropping = True
        self._all.remove(self)
        self._pipelined.clear()
        self._admitted = None
        self._held = b""
        if self._active is not None:
            self._active.leave()
        self.resume_writing()

    @property
    def peer(self) -> tuple[str, int] | None:
        """The address and port of the client."""
        name = self._transport.get_extra_info("peername")
        return (name[0], name[1]) if isinstance(name, tuple) else None

    def get_buffer(self, sizehint: int) -> bytearray:
        """Return the buffer to read into."""
        return _buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Parse what was read, or keep it while a request is being answered."""
        if self._is_dropping:
            self._dropped += nbytes
            if self._dropped > _MAX_DROPPED_BYTES:
                self.abort()
        elif self._is_busy:
            self._unparsed += _view[:nbytes]
            self._pause_reading()
        elif self._is_between:
            self._receive(bytes(_view[:nbytes]))
        else:
            self._feed(_view[:nbytes])

    def eof_received(self) -> bool:
        """Return whether a response is still to be sent."""
        self._is_dropping = self._is_ending = True
        return self._active is not None and self._active.is_received

    def pause_writing(self) -> None:
        """Wait for a client that does not read fast enough."""
        self._writable = asyncio.get_running_loop().create_future()
        self._wait(self._all.timeouts.write_seconds)

    def resume_writing(self) -> None:
        """Continue with the response or the next request."""
        if self._writable is not None:
            self._writable.set_result(None)
            self._writable = None
            if self._active is not None:
                self._stop_waiting()
            elif not self._transport.is_closing():
                self._next()

    def shutdown(self) -> None:
        """Close the connection once the current request has been answered; Uvicorn calls it."""
        held, self._held = self._held, b""
        if held:
            self._feed(held)
        self._is_ending = True
        if self._active is None:
            self._close()
        else:
            self._active.keep_alive = False

    def abort(self) -> None:
        """Close the connection at once and forget what was not sent."""
        self._is_dropping = True
        self._transport.abort()

    def expire(self) -> None:
        """Give up on a client that is too slow."""
        if (self._admitted is not None or self._held) and self._writable is None:
            seconds = self._all.timeouts.request_seconds
            self._refuse(wire.request_timeout(seconds))
        else:
            self.abort()

    @property
    def _is_busy(self) -> bool:
        """Whether the next request has to wait: for the application, or until the client has read."""
        if self._active is None:
            return self._writable is not None
        return self._active.is_received

    # ---- waiting for the client -----------------------------------------------------------------

    def _wait(self, seconds: float) -> None:
        self.deadline = time.monotonic() + seconds
        self._all.waiting.pop(self, None)
        self._all.waiting[self] = None

    def _stop_waiting(self) -> None:
        self.deadline = _NEVER
        self._all.waiting.pop(self, None)

    def _pause_reading(self) -> None:
        if self._is_reading and not self._transport.is_closing():
            self._is_reading = False
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on, unless a complete request is being answered."""
        if not self._is_reading and not self._unparsed and not self._transport.is_closing():
            self._is_reading = True
            self._transport.resume_reading()

    # ---- requests -------------------------------------------------------------------------------

    def _receive(self, data: bytes) -> None:
        """Receive the first bytes of a request.

        A decision or a reward with known headers is not parsed, if its body comes with them or at once after
        them. Everything else is.
        """
        held, self._held = self._held, b""
        data = held + data
        recalled = self._all.app.recall(data)
        if recalled is not None and len(data) == recalled.end:
            exchange = self._active = RecalledExchange()
            self._received = 0
            self._stop_waiting()
            respond = functools.partial(self._respond, exchange)
            self._all.app.answer(recalled.admitted, data[recalled.start :], respond)
        elif recalled is not None and len(data) == recalled.start and not held:
            self._held = data
            self._wait(self._all.timeouts.request_seconds)
        else:
            self._first_bytes = data
            self._feed(data)
            self._first_bytes = b""

    def _feed(self, data: bytes | memoryview) -> None:
        self._received += len(data)
        rest: bytes | None = None
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            rest = bytes(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            if not isinstance(error.__context__, ValueError | None):
                log.error("a request could not be parsed", exc_info=error.__context__)
            if isinstance(error.__context__, Unacceptable):
                self._refuse(error.__context__.problem)
            elif not self._is_dropping:
                self._refuse(ApiError("invalid_request", "the request is not valid HTTP/1.1", status=400))
        else:
            allowed = MAX_HEADER_BYTES + self._content // _BODY_PER_FRAMING
            if self._received - self._content > allowed and not self._is_dropping:
                self._refuse(wire.headers_too_large(MAX_HEADER_BYTES, _MAX_HEADERS))
        if rest is not None:  # not while the exception is handled, which would look like the cause of others
            self._ignore_upgrade(rest)

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Parse a request that asks for another protocol again, without the header that does.

        The parser does not read its body: ``rest`` begins with it.
        """
        if self._is_dropping or self._method == b"CONNECT":
            self._is_dropping = self._is_ending = True
            return
        version = self._parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self._method, self._target, version)]
        lines += [b"%b: %b" % pair for pair in self._headers if pair[0] != b"upgrade"]
        self._parser = httptools.HttpRequestParser(self)
        self._feed(b"\r\n".join([*lines, b"", rest]))

    def on_message_begin(self) -> None:
        """Start the time limit of a request."""
        self._is_between = False
        self._target = b""
        self._headers = []
        self._incoming = None
        if self._active is None and not self._is_dropping:
            self._wait(self._all.timeouts.request_seconds)

    def on_url(self, url: bytes) -> None:
        """Add a part of the target."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header; ignore trailers."""
        if self._incoming is None:
            if len(self._headers) == _MAX_HEADERS:
                raise Unacceptable(wire.headers_too_large(MAX_HEADER_BYTES, _MAX_HEADERS))
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Start to answer a request, or queue it behind others."""
        if self._is_dropping:
            return
        parser = self._parser
        self._method = parser.get_method()
        if parser.should_upgrade() and self._method != b"CONNECT":
            return  # _ignore_upgrade() comes next
        version = parser.get_http_version()
        keep_alive = version == "1.1" and parser.should_keep_alive()
        method = self._method.decode("ascii")
        exchange = Exchange(self, method, self._target, self._headers, version, keep_alive)
        self._incoming = exchange
        if self._active is None and self._writable is None:
            self._start(exchange)
            return
        self._pipelined.append(exchange)
        if len(self._pipelined) == _MAX_PIPELINED:
            self._is_ending = True
            exchange.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Add a part of a body; read no further if the application does not take it."""
        self._content += len(body)
        if self._incoming is None or self._is_dropping:
            return
        is_full = self._incoming.add(body)
        # Nobody takes the body of a decision or a reward before it is complete; its length is limited.
        if is_full and not (self._admitted is not None and self._incoming is self._active):
            self._pause_reading()

    def on_message_complete(self) -> None:
        """Handle a decision or a reward, whose body is complete."""
        exchange, self._incoming = self._incoming, None
        length, self._received, self._content = self._content, 0, 0
        self._is_between = True
        if exchange is None or self._is_dropping:
            return
        exchange.finish()
        if len(self._pipelined) == _MAX_PIPELINED:
            self._is_dropping = True
        if exchange is self._active and self._admitted is not None:
            if self._first_bytes and exchange.keep_alive:
                self._all.app.remember(self._first_bytes, self._admitted, length)
            self._run_admitted(exchange, self._admitted)
        elif exchange.is_answered and self._active is None:
            self._next()

    def _start(self, exchange: Exchange) -> None:
        """Answer a request: the application reads its body, except that of decisions and rewards."""
        self._active = exchange
        self._admitted = self._all.app.admit(exchange.method, exchange.path, exchange.headers)
        if self._admitted is None:
            self._stop_waiting()
            self._run(exchange.run(self._all.app))
        elif exchange.is_received:
            self._run_admitted(exchange, self._admitted)
        else:
            self._wait(self._all.timeouts.request_seconds)
            self.resume_reading()  # it may have been paused while other requests were answered

    def _run_admitted(self, exchange: Exchange, admitted: Admitted) -> None:
        self._admitted = None
        self._stop_waiting()
        respond = functools.partial(self._respond, exchange)
        self._all.app.answer(admitted, bytes(exchange.body), respond)

    def _run(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._all.state.tasks.add(task)
        task.add_done_callback(self._all.state.tasks.discard)

    def _respond(self, exchange: Exchange | RecalledExchange, answer: wire.JsonAnswer) -> None:
        """Send the answer to a decision or a reward."""
        exchange.is_answered = True
        self.write(self._all.json_response(answer, exchange.keep_alive))
        self.finished(exchange)

    # ---- responses ------------------------------------------------------------------------------

    @property
    def date_line(self) -> bytes:
        """The Date header."""
        return self._all.date_line

    def write(self, content: bytes) -> None:
        """Write a small part of a response."""
        if not self._transport.is_closing():
            self._transport.write(content)

    async def write_all(self, exchange: Exchange, content: bytes) -> None:
        """Write a part of a response at the pace of the client; raise Disconnected if it is gone."""
        view = memoryview(content)
        for start in range(0, len(view), _WRITE_BYTES):
            if self._writable is not None:
                await asyncio.shield(self._writable)
            if exchange.is_gone or self._transport.is_closing():
                raise Disconnected
            self._transport.write(view[start : start + _WRITE_BYTES])

    def finished(self, exchange: Exchange | RecalledExchange) -> None:
        """Go on with the next request after a response."""
        if self._active is not exchange:
            return  # it has been refused
        self._active = None
        if not exchange.is_answered:  # incomplete: closing the connection is the only way to say so
            self.abort()
        if self._transport.is_closing():
            return
        if not exchange.keep_alive:
            self._is_ending = True
            self._pipelined.clear()
        if exchange.is_received or self._is_ending:
            self._next()
        else:  # the rest of its body is parsed and ignored
            self.resume_reading()
            self._wait(self._all.timeouts.request_seconds)

    def _next(self) -> None:
        if self._writable is not None:
            return  # resume_writing() comes back
        if self._pipelined:
            self._start(self._pipelined.popleft())
        elif self._refusal is not None:
            self._send_refusal(self._refusal)
            return
        elif self._is_ending:
            self._close()
            return
        else:
            self._wait(self._all.timeouts.idle_seconds)
        if not self._is_busy:
            unparsed, self._unparsed = self._unparsed, b""
            if unparsed:
                self._feed(unparsed)
            self.resume_reading()

    def _refuse(self, problem: ApiError) -> None:
        """Parse nothing more; respond with an error after the requests that were complete."""
        self._is_dropping = True
        self._refusal = problem
        self._held = b""
        incoming, self._incoming = self._incoming, None
        if incoming is not None and incoming in self._pipelined:
            self._pipelined.remove(incoming)
        if incoming is not None and incoming is self._active:  # the application waits for its body
            self._admitted = self._active = None
            incoming.leave()
            if not incoming.can_be_refused:
                self.abort()
                return
        if incoming is not None and incoming.is_answered:
            self._linger()
        elif self._active is None:
            self._next()

    def _send_refusal(self, problem: ApiError) -> None:
        answer = wire.JsonAnswer(problem.status, wire.error_body(problem), ())
        self._all.app.count_refusal(problem)
        self.write(self._all.json_response(answer, keep_alive=False))
        self._linger()

    def _close(self) -> None:
        """Close the connection once everything is sent."""
        if self._incoming is not None and not self._is_dropping:
            self._linger()
            return
        self._is_dropping = True
        self._wait(self._all.timeouts.write_seconds)
        self._transport.close()

    def _linger(self) -> None:
        """Close our side and drop what still arrives: an immediate close could destroy the response."""
        self._is_dropping = True
        self._active = None
        self._unparsed = b""
        self._pipelined.clear()
        self._wait(min(self._all.timeouts.request_seconds, _MAX_LINGER_SECONDS))
        self._transport.write_eof()
        self.resume_reading()
