"""Connections that do not take for ever: half a request is closed, and so is who only stays.

Uvicorn's own timeout begins with the first answer. Here a connection has some seconds for each request, from
its first byte to the end of its headers (the body has a limit of its own), and a while to begin with one. If
there are too many connections, the one that was idle longest makes way.
"""

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from glcb.service.http import wire
from glcb.service.problems import Problem

MOST_HEADERS = 65_536
"""Bytes of the headers of a request."""


class PatientProtocol(HttpToolsProtocol):
    """Uvicorn's HTTP, with limits."""

    request_seconds: ClassVar[float] = 10
    idle_seconds: ClassVar[float] = 60
    most: ClassVar[int] = 4000
    _idle: ClassVar[dict["PatientProtocol", None]] = {}
    """Connections without a request, the longest idle first."""

    _deadline: asyncio.TimerHandle | None = None
    _head = 0
    """Bytes of a request whose headers are not complete."""

    def connection_made(self, transport: Any) -> None:
        """Give a new connection some time for its first request."""
        super().connection_made(transport)
        self._rest(self.idle_seconds)
        if len(self.connections) > self.most and self._idle:
            next(iter(self._idle)).transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        self._wake()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Watch the time and the size of a request from its first byte on."""
        if self in self._idle:
            self._wake()
            self._deadline = self.loop.call_later(self.request_seconds, self._close)
        self._head += len(data)
        super().data_received(data)
        if self._deadline is not None and self not in self._idle and self._head > MOST_HEADERS:
            self._refuse(431, Problem("too_large", f"headers can have at most {MOST_HEADERS:,} bytes"))

    def on_headers_complete(self) -> None:
        """Stop watching: from here on the application does."""
        self._wake()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP in the shape of all refusals."""
        self._refuse(400, Problem("invalid_request", msg))

    def _refuse(self, status: int, problem: Problem) -> None:
        content = wire.refusal(problem)
        headers = [*wire.SECURITY, (b"content-type", b"application/json"), (b"connection", b"close")]
        lines = [name + b": " + value for name, value in headers]
        length = b"content-length: %d" % len(content)
        self.transport.write(STATUS_LINE[status] + b"\r\n".join([*lines, length, b"", content]))
        self.transport.close()

    def on_response_complete(self) -> None:
        """Let the connection rest until the next request."""
        super().on_response_complete()
        if not self.transport.is_closing() and self.timeout_keep_alive_task is not None:
            self._rest(self.idle_seconds)

    def _rest(self, seconds: float) -> None:
        self._wake()
        self._idle[self] = None
        self._deadline = self.loop.call_later(seconds, self._close)

    def _wake(self) -> None:
        self._head = 0
        self._idle.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
