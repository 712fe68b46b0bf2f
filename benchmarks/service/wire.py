"""A lean persistent HTTP connection, for load tests."""

import asyncio
from urllib.parse import urlsplit

_END = b"\r\n\r\n"
_LENGTH = b"content-length:"


class Wire(asyncio.Protocol):
    """One connection with one request at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._pending: asyncio.Future[tuple[int, bytes]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, reason: Exception | None) -> None:
        """Fail the pending request."""
        self._transport = None
        if self._pending is not None and not self._pending.done():
            self._pending.set_exception(ConnectionError("the server closed the connection"))

    def data_received(self, data: bytes) -> None:
        """Complete the pending request once the response is complete."""
        buffer = self._buffer
        buffer += data
        head = buffer.find(_END)
        if head < 0:
            return
        start = buffer[:head].lower().find(_LENGTH)
        length = int(buffer[start + len(_LENGTH) : head].split(b"\r", 1)[0]) if start >= 0 else 0
        end = head + len(_END) + length
        if len(buffer) < end:
            return
        status, body = int(buffer[9:12]), bytes(buffer[head + len(_END) : end])
        del buffer[:end]
        if self._pending is not None and not self._pending.done():
            self._pending.set_result((status, body))

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Send a request; return status and body, or raise ``ConnectionError``."""
        if self._transport is None:
            raise ConnectionError("the connection is closed")
        self._pending = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return await self._pending

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.abort()


async def connect(url: str) -> Wire:
    """Open a connection to the server at ``url``."""
    address = urlsplit(url)
    host, port = address.hostname or "", address.port or 0
    _, wire = await asyncio.get_running_loop().create_connection(Wire, host, port)
    return wire


def post(path: str, body: bytes, method: str = "POST") -> bytes:
    """Return the bytes of a request with a JSON body."""
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return b"%bContent-Length: %d\r\n\r\n%b" % (head.encode(), len(body), body)
