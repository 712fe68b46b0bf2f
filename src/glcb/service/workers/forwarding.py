"""Requests to other workers: a small pool of connections per worker, and one request at a time on each."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, NamedTuple, Self

import httptools

from glcb.service.errors import ApiError
from glcb.service.http.wire import Header, Scope
from glcb.service.workers.inner import HOP, ChallengeResponse, Hop, keep_alive
from glcb.service.workers.orders import split_address
from glcb.service.workers.partitions import WorkerRow

log = logging.getLogger("glcb.service")

MOVED = 421
"""The status with which a worker answers that it does not own the partition: it has done nothing."""
EPOCH = b"glcb-epoch"
"""The header with the epoch of the partition in this answer."""
_CONNECT_SECONDS = 2.0
_CONNECTIONS = 64
"""Connections for small requests to one worker; each has one request at a time."""
_QUIET_SECONDS = 60.0
_SMALL_BYTES = 65_536
"""A larger response is sent on in parts."""
_HIGH_BYTES = 262_144
"""Reading stops while this much of a response waits for the client."""
_HOP_BY_HOP = frozenset(
    (
        *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection"),
        *(b"te", b"trailer", b"transfer-encoding", b"upgrade"),
    )
)
_DROPPED = _HOP_BY_HOP | {HOP, b"content-length", b"expect"}
"""Headers of a request that are not sent on."""


class NotSent(Exception):
    """A worker cannot be reached. It has received nothing."""


class Broken(Exception):
    """A connection broke, or the worker was replaced: what became of the request is unknown."""


class Reply(NamedTuple):
    """A response, or its beginning."""

    status: int
    headers: list[Header]
    body: bytes
    """The whole body, if there is no more."""
    more: AsyncIterator[bytes] | None
    """The rest of the body."""


def request_head(scope: Scope, hop: Hop, length: int | None, expect: bool = False) -> bytes:
    """Return the first line and the headers of a request that is sent on.

    Parameters
    ----------
    scope
        The request.
    hop
        Its hop mark.
    length
        The length of its body; None if it has none.
    expect
        Whether to wait for the permission to send the body.
    """
    query = scope["query_string"]
    target = scope["raw_path"] + b"?" + query if query else scope["raw_path"]
    method = "GET" if scope["method"] == "HEAD" else scope["method"]
    lines = [b"%b %b HTTP/1.1" % (method.encode(), target)]
    lines += [b"%b: %b" % pair for pair in scope["headers"] if pair[0] not in _DROPPED]
    lines.append(b"%b: %b" % hop.header())
    if length is not None:
        lines.append(b"content-length: %d" % length)
    if expect:
        lines.append(b"expect: 100-continue")
    lines.append(b"\r\n")
    return b"\r\n".join(lines)


class PeerConnection(asyncio.Protocol):
    """A connection to another worker. The parser calls the methods ``on_…``."""

    def __init__(self, secret: str | None) -> None:
        self._handshake = None if secret is None else ChallengeResponse(secret)
        self._has_answered = False
        self._line = bytearray()
        loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[None] = loop.create_future()
        """Done once requests can be sent."""
        self._transport: Any = None
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._parser = httptools.HttpResponseParser(self)
        self._head: asyncio.Future[Reply] | None = None
        self._asked_at = 0.0
        self._permission: asyncio.Future[bool] | None = None
        self._headers: list[Header] = []
        self._status = 0
        self._parts: deque[bytes] = deque()
        self._size = 0
        self._is_complete = True
        self._arrived = asyncio.Event()

    @property
    def is_usable(self) -> bool:
        """Whether another request can be sent."""
        return self._transport is not None and not self._transport.is_closing() and self._is_complete

    async def ask(self, head: bytes, body: bytes = b"") -> Reply:
        """Send a complete request; return its response."""
        future = self._begin()
        self._transport.write(head + body)
        return await future

    async def permitted(self, head: bytes) -> Reply | None:
        """Send the head of a request whose body may be sent on; return a response that came instead."""
        reply = self._begin()
        self._permission = asyncio.get_running_loop().create_future()
        self._transport.write(head)
        try:
            either: list[asyncio.Future[Any]] = [reply, self._permission]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._permission = None
        return await reply if reply.done() else None

    async def send_part(self, part: bytes) -> None:
        """Send a part of a body, at the pace of the other side."""
        await self._can_write.wait()
        if self._transport is None or self._transport.is_closing():
            raise Broken
        self._asked_at = asyncio.get_running_loop().time()
        self._transport.write(part)

    async def reply(self) -> Reply:
        """Return the response to a request whose body was sent in parts."""
        assert self._head is not None
        return await self._head

    def close(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def waits_since(self) -> float | None:
        """Return when the request was sent whose response has not begun; None if there is none."""
        return None if self._head is None or self._head.done() else self._asked_at

    def _begin(self) -> "asyncio.Future[Reply]":
        loop = asyncio.get_running_loop()
        self._head, self._asked_at = loop.create_future(), loop.time()
        self._headers, self._status, self._size, self._is_complete = [], 0, 0, False
        self._parts.clear()
        return self._head

    # ---- called by asyncio ----------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        """Wait for the challenge, if there is one."""
        self._transport = transport
        keep_alive(transport)
        if self._handshake is None:
            self.ready.set_result(None)

    def data_received(self, data: bytes) -> None:
        """Parse a part of a response."""
        if not self.ready.done():
            self._shake_hands(data)
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            log.exception("the response of another worker cannot be parsed")
            self.close()

    def _shake_hands(self, data: bytes) -> None:
        assert self._handshake is not None
        self._line += data
        line, newline, _ = bytes(self._line).partition(b"\n")
        if not newline:
            return
        self._line.clear()
        if not self._has_answered:
            answer = self._handshake.answer(line)
            if answer is None:
                self._reject("it is no worker")
                return
            self._has_answered = True
            self._transport.write(answer)
        elif self._handshake.accepts(line):
            self.ready.set_result(None)
        else:
            self._reject("its secret is another one")

    def _reject(self, reason: str) -> None:
        self.ready.set_exception(NotSent(reason))
        self.close()

    def connection_lost(self, error: Exception | None) -> None:
        """Fail the request."""
        self._can_write.set()
        if not self.ready.done():
            reason = (
                "it rejects the secret of this worker" if self._has_answered else "it closes the connection"
            )
            self.ready.set_exception(NotSent(reason))
        if self._head is not None and not self._head.done():
            self._head.set_exception(Broken())
            self._head.exception()  # mark as retrieved
        self._transport = None
        self._arrived.set()

    def pause_writing(self) -> None:
        """Wait for the other side."""
        self._can_write.clear()

    def resume_writing(self) -> None:
        """Go on."""
        self._can_write.set()

    # ---- called by the parser -------------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header."""
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Begin a response."""
        self._status = self._parser.get_status_code()

    def on_body(self, part: bytes) -> None:
        """Add a part of the body; hand over the beginning of a large response."""
        self._parts.append(part)
        self._size += len(part)
        if self._head is not None and not self._head.done():
            if self._size > _SMALL_BYTES:
                self._head.set_result(Reply(self._status, self._headers, b"", self._stream()))
        else:
            self._arrived.set()
        if self._size > _HIGH_BYTES and self._transport is not None:
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """Hand over the response."""
        if self._status == 100:
            self._headers = []
            if self._permission is not None and not self._permission.done():
                self._permission.set_result(True)
            return
        self._is_complete = True
        self._arrived.set()
        if self._head is not None and not self._head.done():
            parts = self._parts
            body = parts[0] if len(parts) == 1 else b"".join(parts)
            self._head.set_result(Reply(self._status, self._headers, body, None))
        if not self._parser.should_keep_alive() and self._transport is not None:
            self._transport.close()

    async def _stream(self) -> AsyncIterator[bytes]:
        """Yield the parts of a body as they arrive."""
        while True:
            while self._parts:
                part = self._parts.popleft()
                self._size -= len(part)
                if self._size < _SMALL_BYTES and self._transport is not None:
                    self._transport.resume_reading()
                yield part
            if self._is_complete:
                return
            if self._transport is None:
                raise Broken
            self._arrived.clear()
            await self._arrived.wait()


class Place:
    """A request that waits for a worker within a ``with`` block, and the memory of its body."""

    __slots__ = ("_bytes", "_peer")

    def __init__(self, peer: "Peer") -> None:
        self._peer = peer
        self._bytes = 0

    def hold(self, count: int) -> None:
        """Count bytes of the body; raise ApiError if there are too many."""
        peer = self._peer
        if peer.bytes + count > peer.max_bytes:
            raise ApiError("overloaded", "too much data waits for the worker of this experiment: retry")
        peer.bytes += count
        self._bytes += count

    def __enter__(self) -> Self:
        peer = self._peer
        if peer.waiting >= peer.max_waiting:
            raise ApiError("overloaded", "too many requests wait for the worker of this experiment: retry")
        peer.waiting += 1
        peer.forwarded += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._peer.waiting -= 1
        self._peer.bytes -= self._bytes


class Peer:
    """All connections to one process of another worker.

    Parameters
    ----------
    row
        The worker.
    secret
        The secret of the service.
    max_waiting, max_bytes
        Requests, and bytes of their bodies, that can wait for this worker.
    """

    def __init__(self, row: WorkerRow, secret: str, max_waiting: int, max_bytes: int) -> None:
        self.row = row
        self._secret = secret
        self.max_waiting = max_waiting
        self.max_bytes = max_bytes
        self._idle: list[PeerConnection] = []
        self._all: set[PeerConnection] = set()
        self._slots = asyncio.Semaphore(_CONNECTIONS)
        self.waiting = 0
        self.bytes = 0
        self.forwarded = 0
        """Number of requests."""
        self.is_closed = False
        self._reported_at = -_QUIET_SECONDS

    def place(self) -> Place:
        """Return a place for a request; raise ApiError in its block if too many wait for this worker."""
        return Place(self)

    async def acquire(self, is_large: bool = False) -> PeerConnection:
        """Return a connection for one request, one of its own for a large one; :meth:`release` it.

        Raises
        ------
        NotSent
            The worker cannot be reached.
        """
        if is_large:
            return await self._connect()
        await self._slots.acquire()
        try:
            while self._idle:
                one = self._idle.pop()
                if one.is_usable:
                    return one
                self._all.discard(one)
            return await self._connect()
        except BaseException:
            self._slots.release()
            raise

    def release(self, connection: PeerConnection, is_large: bool = False) -> None:
        """Let another request use a connection; close it if that is impossible."""
        if not is_large:
            self._slots.release()
            if connection.is_usable and not self.is_closed:
                self._idle.append(connection)
                return
        self._all.discard(connection)
        connection.close()

    async def _connect(self) -> PeerConnection:
        loop, address = asyncio.get_running_loop(), self.row.address
        if self.is_closed:
            raise NotSent("it has been replaced")
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                if address.startswith("/"):
                    _, made = await loop.create_unix_connection(lambda: PeerConnection(None), address)
                else:
                    host, port = split_address(address)
                    _, made = await loop.create_connection(lambda: PeerConnection(self._secret), host, port)
                try:
                    await made.ready
                except BaseException:
                    made.close()
                    raise
        except (OSError, TimeoutError) as error:  # a TimeoutError is an OSError, too
            raise NotSent(str(error) or "it does not answer") from error
        self._all.add(made)
        return made

    def report(self, reason: str) -> None:
        """Log that this worker does not respond, once in a while."""
        now = asyncio.get_running_loop().time()
        if now > self._reported_at + _QUIET_SECONDS:
            self._reported_at = now
            log.warning("a worker does not respond", extra={"worker": self.row.name, "reason": reason})

    def close_before(self, oldest: float) -> None:
        """Close the connections of requests that were sent before a time and have no response."""
        for connection in list(self._all):
            since = connection.waits_since()
            if since is not None and since < oldest:
                connection.close()

    def close(self) -> None:
        """Close all connections; requests on them are broken."""
        self.is_closed = True
        for connection in self._all:
            connection.close()


class Peers:
    """The other workers.

    Parameters
    ----------
    secret
        The secret of the service.
    max_waiting, max_bytes
        Requests, and bytes of their bodies, that can wait for one of them.
    seconds
        Time after which the connection of a request without a response counts as broken.
    """

    def __init__(self, secret: str, max_waiting: int, max_bytes: int, seconds: float = 20.0) -> None:
        self._secret = secret
        self._seconds = seconds
        self._max_waiting = max_waiting
        self._max_bytes = max_bytes
        self._peers: dict[str, Peer] = {}

    def to(self, row: WorkerRow) -> Peer:
        """Return the connections to a worker."""
        peer = self._peers.get(row.incarnation)
        if peer is None:
            peer = self._peers[row.incarnation] = Peer(row, self._secret, self._max_waiting, self._max_bytes)
        return peer

    def keep(self, rows: tuple[WorkerRow, ...]) -> None:
        """Close connections to all workers except these, and those on which no response comes.

        Whoever was replaced will not answer.
        """
        oldest = asyncio.get_running_loop().time() - self._seconds
        for peer in self._peers.values():
            peer.close_before(oldest)
        incarnations = {one.incarnation for one in rows}
        for incarnation in self._peers.keys() - incarnations:
            self._peers.pop(incarnation).close()

    def counts(self) -> dict[str, tuple[int, int]]:
        """Return how many requests were sent to each worker, and how many of them wait for their answer."""
        return {peer.row.name: (peer.forwarded, peer.waiting) for peer in self._peers.values()}

    async def ask(self, row: WorkerRow, scope: Scope, seconds: float) -> Reply:
        """Send a request without a body to a worker, for its own part of the answer.

        Raises
        ------
        NotSent, Broken
            There is no response in time.
        """
        head = request_head(scope, Hop(0, scope.get("client")), None)
        try:
            async with asyncio.timeout(seconds):
                peer = self.to(row)
                connection = await peer.acquire(is_large=True)
                try:
                    reply = await connection.ask(head)
                    if reply.more is None:
                        return reply
                    parts = [part async for part in reply.more]
                    return reply._replace(body=b"".join(parts), more=None)
                finally:
                    peer.release(connection, is_large=True)
        except TimeoutError:
            raise Broken from None


def visible_headers(reply: Reply) -> list[Header]:
    """Return the headers of a response that the client gets."""
    return [pair for pair in reply.headers if pair[0] not in _HOP_BY_HOP]


def header_of(reply: Reply, name: bytes) -> bytes:
    """Return a header of a response; empty if it is missing."""
    return next((value for key, value in reply.headers if key == name), b"")
