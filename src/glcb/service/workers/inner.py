"""Connections between workers: plain HTTP/1.1 on a Unix socket, or on TCP after a challenge and its response.

A request that another worker has forwarded has one more header, the hop mark: the epoch of its partition as
that worker knows it, and the address of the client. It counts on these connections only. The same header of a
client is dropped.
"""

import asyncio
import contextlib
import hmac
import os
import secrets
import socket
from collections.abc import Iterator
from typing import Any, NamedTuple

from uvicorn.config import Config
from uvicorn.server import ServerState

from glcb._errors import InvalidSettings
from glcb.service.http.protocol import Connection, Connections
from glcb.service.http.wire import Header, Scope
from glcb.service.workers.orders import split_address

HOP = b"glcb-hop"
"""The header of the hop mark."""
_GREETING = b"glcb workers 1 "
_NONCE_BYTES = 16
_MAX_LINE = 200


class Hop(NamedTuple):
    """What a hop mark says."""

    epoch: int
    """The epoch of the partition as the sender knows it; 0 if the request has none."""
    client: tuple[str, int] | None
    """The address of the client."""

    def header(self) -> Header:
        """Return the mark as a header.

        >>> Hop(7, ("10.0.0.1", 80)).header()
        (b'glcb-hop', b'7 10.0.0.1 80')
        """
        host, port = self.client or ("", 0)
        return HOP, b"%d %b %d" % (self.epoch, host.encode("latin-1", "replace"), port)


def take_hop(scope: Scope) -> Hop:
    """Remove the mark from the headers of a request, and return it.

    >>> scope = {"headers": [(b"host", b"a"), (b"glcb-hop", b"7 10.0.0.1 80")]}
    >>> take_hop(scope), scope["headers"]
    (Hop(epoch=7, client=('10.0.0.1', 80)), [(b'host', b'a')])
    """
    marks = [value for name, value in scope["headers"] if name == HOP]
    scope["headers"] = [pair for pair in scope["headers"] if pair[0] != HOP]
    epoch, host, port = marks[0].decode("latin-1").split(" ")
    return Hop(int(epoch), (host, int(port)) if host else None)


# ---- authentication -----------------------------------------------------------------------------


def _proof(secret: str, side: bytes, first: bytes, second: bytes) -> bytes:
    """Return what proves the knowledge of the secret."""
    return hmac.digest(secret.encode(), b"%b %b %b" % (side, first, second), "sha256").hex().encode()


class Challenge:
    """The side of the worker that was called.

    Parameters
    ----------
    secret
        The secret of the service.

    Examples
    --------
    >>> challenge, response = Challenge("secret"), ChallengeResponse("secret")
    >>> answer = response.answer(challenge.line)
    >>> response.accepts(challenge.verdict(answer))
    True
    >>> Challenge("another").verdict(answer) is None
    True
    """

    def __init__(self, secret: str) -> None:
        self._secret = secret
        self._nonce = secrets.token_hex(_NONCE_BYTES).encode()

    @property
    def line(self) -> bytes:
        """The first line."""
        return _GREETING + self._nonce + b"\n"

    def verdict(self, line: bytes) -> bytes | None:
        """Return the proof for the other side, or None if its own is wrong."""
        nonce, _, proof = line.strip().partition(b" ")
        if not hmac.compare_digest(proof, _proof(self._secret, b"caller", self._nonce, nonce)):
            return None
        return _proof(self._secret, b"called", nonce, self._nonce) + b"\n"


class ChallengeResponse:
    """The side of the worker that calls."""

    def __init__(self, secret: str) -> None:
        self._secret = secret
        self._nonce = secrets.token_hex(_NONCE_BYTES).encode()
        self._challenge = b""

    def answer(self, line: bytes) -> bytes | None:
        """Return the line that answers a challenge; None if it is none."""
        if not line.startswith(_GREETING):
            return None
        self._challenge = line.removeprefix(_GREETING).strip()
        return b"%b %b\n" % (self._nonce, _proof(self._secret, b"caller", self._challenge, self._nonce))

    def accepts(self, line: bytes | None) -> bool:
        """Return whether the other side knows the secret, too."""
        expected = _proof(self._secret, b"called", self._nonce, self._challenge)
        return line is not None and hmac.compare_digest(line.strip(), expected)


class GuardedConnection(Connection):
    """A connection on TCP. It accepts requests once the other side has proved that it knows the secret."""

    def __init__(self, secret: str, seconds: float, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._challenge: Challenge | None = Challenge(secret)
        self._seconds = seconds
        self._line = bytearray()

    def connection_made(self, transport: Any) -> None:
        """Send the challenge."""
        super().connection_made(transport)
        keep_alive(transport)
        assert self._challenge is not None
        transport.write(self._challenge.line)
        asyncio.get_running_loop().call_later(self._seconds, self._end_unless_proved)

    def _end_unless_proved(self) -> None:
        if self._challenge is not None:
            self.abort()

    def data_received(self, data: bytes) -> None:
        """Check the response, then parse requests."""
        if self._challenge is None:
            super().data_received(data)
            return
        self._line += data
        line, newline, rest = bytes(self._line).partition(b"\n")
        if not newline and len(line) < _MAX_LINE:
            return
        verdict = self._challenge.verdict(line) if newline else None
        if verdict is None:
            self.abort()
            return
        self._challenge = None
        self.transport.write(verdict)
        if rest:
            super().data_received(rest)


# ---- sockets ------------------------------------------------------------------------------------


class Listener:
    """Accepts the connections of other workers.

    Parameters
    ----------
    listener
        A bound socket.
    secret
        The secret of the service, for TCP.
    connections
        Makes the connections.
    config
        That of the HTTP server.
    """

    def __init__(
        self, listener: socket.socket, secret: str, connections: Connections, config: Config
    ) -> None:
        self._listener = listener
        self._secret = secret
        self._connections = connections
        self._config = config
        self._state = ServerState()
        self._server: asyncio.AbstractServer | None = None

    async def start(self) -> None:
        """Listen."""
        loop = asyncio.get_running_loop()
        if self._listener.family == socket.AF_UNIX:
            self._server = await loop.create_unix_server(self._connection, sock=self._listener)
        else:
            self._server = await loop.create_server(self._connection, sock=self._listener)

    def _connection(self) -> Connection:
        arguments: Any = (self._connections, self._config, self._state, {}, None)
        if self._listener.family == socket.AF_UNIX:
            return Connection(*arguments)
        return GuardedConnection(self._secret, self._connections.timeouts.request_seconds, *arguments)

    async def stop(self) -> None:
        """Accept nothing more, and close all connections."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._state.connections):
            connection.shutdown()


@contextlib.contextmanager
def bound_inner_socket(address: str) -> Iterator[tuple[socket.socket, str]]:
    """Bind a Unix socket if the address is a path, otherwise HOST or HOST:PORT; yield it and its place."""
    family = (
        socket.AF_UNIX
        if address.startswith("/")
        else socket.AF_INET6
        if address.startswith("[")
        else socket.AF_INET
    )
    with socket.socket(family) as listener:
        try:
            if family == socket.AF_UNIX:
                listener.bind(address)
                place = address
            else:
                host, port = split_address(address)
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind((host, port))
                place = f"{address.removesuffix(f':{port}')}:{listener.getsockname()[1]}"
        except (OSError, ValueError) as error:
            raise InvalidSettings(
                f"cannot listen on {address} for other workers ({error}): pass --set inner_address=HOST with "
                "an address of this machine"
            ) from error
        try:
            yield listener, place
        finally:
            if family == socket.AF_UNIX:
                with contextlib.suppress(OSError):
                    os.unlink(address)  # noqa: PTH108


def keep_alive(transport: Any) -> None:
    """Let the system detect within about ten seconds that the other machine is gone."""
    connection = transport.get_extra_info("socket")
    if connection is None or connection.family == socket.AF_UNIX:
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3, "TCP_USER_TIMEOUT": 10_000}
    for name, value in options.items():
        if hasattr(socket, name):  # not on every system
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
