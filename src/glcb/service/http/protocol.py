"""Uvicorn's HTTP protocol with limits on idle and slow connections.

Uvicorn's keep-alive timeout starts with the first response. Here a connection has ``idle_seconds`` to start a
request, and ``request_seconds`` from the first byte of a request to the end of its headers; the body has its
own limit. If there are too many connections, the one that has been idle longest is closed.
"""

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from glcb.service.errors import ApiError
from glcb.service.http import wire

MAX_HEADER_BYTES = 65_536


class LimitedProtocol(HttpToolsProtocol):
    """An HTTP/1.1 connection with limits."""

    request_seconds: ClassVar[float] = 10
    idle_seconds: ClassVar[float] = 60
    max_connections: ClassVar[int] = 4000
    _idle: ClassVar[dict["LimitedProtocol", None]] = {}
    """Connections without a request, longest idle first."""

    _deadline: asyncio.TimerHandle | None = None
    _in_body = False
    """Whether the body of a request is being received, even if the response was already sent."""
    _header_bytes = 0
    """Bytes received of incomplete headers."""

    def connection_made(self, transport: Any) -> None:
        """Start the idle timeout of a new connection."""
        super().connection_made(transport)
        self._start_idle()
        if len(self.connections) > self.max_connections and self._idle:
            next(iter(self._idle)).transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timeouts of a closed connection."""
        self._stop_timeout()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Refuse headers that are too large, unless a response is being sent."""
        self._header_bytes += len(data)
        super().data_received(data)
        reading_headers = self._deadline is not None and not self._in_body and not self.transport.is_closing()
        if reading_headers and self._header_bytes > MAX_HEADER_BYTES:
            self._refuse(431, ApiError("too_large", f"headers can have at most {MAX_HEADER_BYTES:,} bytes"))

    def on_message_begin(self) -> None:
        """Start the timeout of the headers, unless another request is in progress."""
        super().on_message_begin()
        if self in self._idle:
            self._stop_timeout()
            self._close_after(self.request_seconds)

    def on_headers_complete(self) -> None:
        """Stop the timeout: from here on, the application limits the time."""
        self._in_body, self._header_bytes = True, 0
        self._stop_timeout()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Start the idle timeout if the response was sent before the request was complete."""
        super().on_message_complete()
        self._in_body, self._header_bytes = False, 0
        if self.cycle.response_complete and not self.transport.is_closing():
            self._start_idle()

    def send_400_response(self, msg: str) -> None:
        """Refuse invalid HTTP with the usual error body."""
        self._refuse(400, ApiError("invalid_request", msg))

    def _refuse(self, status: int, problem: ApiError) -> None:
        content = wire.error_body(problem)
        headers = [*wire.SECURITY_HEADERS, (b"content-type", b"application/json"), (b"connection", b"close")]
        lines = [name + b": " + value for name, value in headers]
        length = b"content-length: %d" % len(content)
        self.transport.write(STATUS_LINE[status] + b"\r\n".join([*lines, length, b"", content]))
        self.transport.close()

    def on_response_complete(self) -> None:
        """Start the idle timeout, or a timeout for the rest of the request body."""
        super().on_response_complete()
        if self.transport.is_closing() or self.timeout_keep_alive_task is None:
            return
        if self._in_body:
            self._close_after(self.request_seconds)
        else:
            self._start_idle()

    def _start_idle(self) -> None:
        self._stop_timeout()
        self._idle[self] = None
        self._close_after(self.idle_seconds)

    def _stop_timeout(self) -> None:
        self._idle.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close_after(self, seconds: float) -> None:
        self._deadline = self.loop.call_later(seconds, self._close)

    def _close(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
