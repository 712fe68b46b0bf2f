"""Connections that do not take for ever: half a request is closed, and so is who only stays.

Uvicorn's own timeout begins with the first answer. Here a connection has some seconds for each request, from
its first byte to the end of its headers (the body has a limit of its own), and a while to begin with one. If
there are too many connections, the one that was idle longest makes way.
"""

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from glcb.service.errors import Problem
from glcb.service.http import wire

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
    _in_body = False
    """Whether what comes next belongs to a request whose headers are complete, answered or not."""
    _head = 0
    """Bytes of a request whose headers are not complete."""

    def connection_made(self, transport: Any) -> None:
        """Give a new connection some time for its first request."""
        super().connection_made(transport)
        self._rest()
        if len(self.connections) > self.most and self._idle:
            next(iter(self._idle)).transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        self._wake()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Watch the size of headers, while no answer is under way which a refusal would get in between."""
        self._head += len(data)
        super().data_received(data)
        watched = self._deadline is not None and not self._in_body and not self.transport.is_closing()
        if watched and self._head > MOST_HEADERS:
            self._refuse(431, Problem("too_large", f"headers can have at most {MOST_HEADERS:,} bytes"))

    def on_message_begin(self) -> None:
        """Watch the time of a request from its first byte on, unless another is under way."""
        super().on_message_begin()
        if self in self._idle:
            self._wake()
            self._close_after(self.request_seconds)

    def on_headers_complete(self) -> None:
        """Stop watching: from here on the application does."""
        self._in_body, self._head = True, 0
        self._wake()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Let the connection rest if the request was answered before it was complete."""
        super().on_message_complete()
        self._in_body, self._head = False, 0
        if self.cycle.response_complete and not self.transport.is_closing():
            self._rest()

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
        """Let the connection rest until the next request; what is left of this one has to come soon."""
        super().on_response_complete()
        if self.transport.is_closing() or self.timeout_keep_alive_task is None:
            return
        if self._in_body:
            self._close_after(self.request_seconds)
        else:
            self._rest()

    def _rest(self) -> None:
        self._wake()
        self._idle[self] = None
        self._close_after(self.idle_seconds)

    def _wake(self) -> None:
        self._idle.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close_after(self, seconds: float) -> None:
        self._deadline = self.loop.call_later(seconds, self._close)

    def _close(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
