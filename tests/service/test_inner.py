"""Connections between workers: pools, the hop mark, and the secret of the database."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvicorn

from glcb.service.errors import ApiError
from glcb.service.http.protocol import Connections, Timeouts
from glcb.service.http.wire import Receive, Scope, Send, read_body
from glcb.service.workers.dispatch import InnerApplication
from glcb.service.workers.forwarding import Broken, NotSent, Peer, Peers, request_head
from glcb.service.workers.inner import Hop, Listener, bound_inner_socket, take_hop
from glcb.service.workers.partitions import WorkerRow

Scenario = Callable[["Other", WorkerRow], Awaitable[None]]


class Other:
    """What another worker answers."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = []
        self.bodies: list[bytes] = []
        self.answer = b"answer"
        self.hangs = False
        self.inner = self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        self.bodies.append(await read_body(scope, receive, 10_000_000, 10, lambda _: None))
        if self.hangs:
            await asyncio.sleep(3600)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-own", b"1")]})
        half = len(self.answer) // 2
        await send({"type": "http.response.body", "body": self.answer[:half], "more_body": True})
        await send({"type": "http.response.body", "body": self.answer[half:]})

    async def reject(self, problem: ApiError, scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError(problem)


def with_other(scenario: Scenario, address: str = "127.0.0.1", secret: str = "secret") -> None:
    async def run() -> None:
        other = Other()
        config = uvicorn.Config(other)
        config.load()
        connections = Connections(other, Timeouts(0.3, 60, 60), 100)
        with bound_inner_socket(address) as (listening, place):
            listener = Listener(listening, secret, connections, config)
            await listener.start()
            row = WorkerRow("w-1", "1", place, None, "host", 1, False, 0)
            await scenario(other, row)
            await listener.stop()

    asyncio.run(run())


def scope_of(path: str = "/v1/experiments/home", **changes: Any) -> Scope:
    scope = {"method": "POST", "raw_path": path.encode(), "path": path, "query_string": b"", "headers": []}
    return {**scope, **changes}


async def asked(peer: Peer, body: bytes = b"", is_own: bool = False) -> bytes:
    connection = await peer.acquire(is_own)
    try:
        head = request_head(scope_of(), Hop(3, ("10.0.0.1", 80)), len(body))
        reply = await connection.ask(head, body)
        return reply.body if reply.more is None else b"".join([part async for part in reply.more])
    finally:
        peer.release(connection, is_own)


@pytest.mark.parametrize("address", ["127.0.0.1", "unix"])
def test_requests_share_connections_and_large_ones_pass_in_parts(address: str, tmp_path: Any) -> None:
    async def scenario(other: Other, row: WorkerRow) -> None:
        peer = Peers("secret", 10, 1000).to(row)
        assert [await asked(peer, b"body") for _ in range(3)] == [b"answer"] * 3
        assert len(peer._all) == 1
        assert other.bodies == [b"body"] * 3
        other.answer = bytes(range(256)) * 8000
        body = b"x" * 3_000_000
        assert await asked(peer, body) == other.answer
        assert await asked(peer, b"", is_own=True) == other.answer
        assert other.bodies[-2] == body
        assert await asyncio.gather(*(asked(peer) for _ in range(100))) == [other.answer] * 100
        assert len(peer._all) <= 64
        peer.close()

    with_other(scenario, str(tmp_path / "socket") if address == "unix" else address)


def test_a_worker_with_another_secret_gets_nothing() -> None:
    async def scenario(other: Other, row: WorkerRow) -> None:
        with pytest.raises(NotSent, match="it rejects the secret of this worker"):
            await asked(Peers("another", 10, 1000).to(row))
        assert other.scopes == []

    with_other(scenario)


def test_a_worker_that_does_not_know_the_secret_is_not_believed() -> None:
    async def scenario(other: Other, row: WorkerRow) -> None:
        async def pretend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"glcb workers 1 0123456789abcdef\n")
            await reader.readline()
            writer.write(b"trust me\n")
            received.append(await reader.read())
            writer.close()
            done.set()

        received: list[bytes] = []
        done = asyncio.Event()
        server = await asyncio.start_server(pretend, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(NotSent, match="its secret is another one"):
            await asked(Peers("secret", 10, 1000).to(row._replace(address=f"127.0.0.1:{port}")))
        await asyncio.wait_for(done.wait(), 10)
        assert received == [b""]  # no request
        server.close()

    with_other(scenario)


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\nglcb-hop: 0  0\r\n\r\n", b"x" * 300, b"x"])
def test_a_client_without_the_secret_is_disconnected(sent: bytes) -> None:
    async def scenario(other: Other, row: WorkerRow) -> None:
        host, port = row.address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(sent)
        async with asyncio.timeout(10):
            try:
                received = await reader.read()
            except ConnectionError:
                received = b""
        assert received.startswith(b"glcb workers 1 ") or received == b""
        assert received.count(b"\n") <= 1
        assert other.scopes == []
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    with_other(scenario)


def test_a_request_to_a_worker_that_is_gone_is_not_sent(tmp_path: Any) -> None:
    async def run() -> None:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        for place in (f"127.0.0.1:{port}", str(tmp_path / "nothing")):
            row = WorkerRow("w-1", "1", place, None, "host", 1, False, 0)
            with pytest.raises(NotSent):
                await asked(Peers("secret", 10, 1000).to(row))

    asyncio.run(run())


def test_requests_to_a_worker_that_was_replaced_break() -> None:
    async def scenario(other: Other, row: WorkerRow) -> None:
        peers = Peers("secret", 10, 1000)
        other.hangs = True
        waiting = asyncio.ensure_future(asked(peers.to(row)))
        while not other.scopes:
            await asyncio.sleep(0.01)
        peers.keep((row._replace(incarnation="2"),))
        with pytest.raises(Broken):
            await asyncio.wait_for(waiting, 5)

    with_other(scenario)


def test_requests_and_bytes_that_wait_for_a_worker_are_limited() -> None:
    async def run() -> None:
        peer = Peers("secret", 2, 1000).to(WorkerRow("w-1", "1", "/x", None, "host", 1, False, 0))
        with peer.place() as first, peer.place() as second:
            first.hold(600)
            with pytest.raises(ApiError, match="too much data"):
                second.hold(600)
            with pytest.raises(ApiError, match="too many requests"), peer.place():
                pass
        assert (peer.waiting, peer.bytes) == (0, 0)

    asyncio.run(run())


def test_headers_between_two_hops_are_removed_and_the_mark_is_added() -> None:
    headers = [
        (b"host", b"example.com"),
        (b"connection", b"keep-alive"),
        (b"transfer-encoding", b"chunked"),
        (b"glcb-hop", b"99 forged 1"),
        (b"authorization", b"Bearer key"),
    ]
    scope = scope_of(headers=headers, query_string=b"a=1")
    head = request_head(scope, Hop(3, ("10.0.0.1", 80)), 5)
    assert head == (
        b"POST /v1/experiments/home?a=1 HTTP/1.1\r\nhost: example.com\r\nauthorization: Bearer key\r\n"
        b"glcb-hop: 3 10.0.0.1 80\r\ncontent-length: 5\r\n\r\n"
    )


def test_an_inner_request_has_the_address_of_its_client() -> None:
    seen: list[tuple[Scope, Hop]] = []

    class Inside:
        async def answer(self, scope: Scope, receive: Receive, send: Send, hop: Hop) -> None:
            seen.append((scope, hop))

    async def run() -> None:
        nothing: Any = None
        inside: Any = Inside()
        scope = scope_of(headers=[(b"glcb-hop", b"3 10.0.0.1 80")], client=("127.0.0.1", 1))
        await InnerApplication(inside)(scope, nothing, nothing)

    asyncio.run(run())
    ((scope, hop),) = seen
    assert scope["client"] == hop.client == ("10.0.0.1", 80)
    assert scope["headers"] == []
    assert take_hop({"headers": [(b"glcb-hop", b"0  0")]}) == Hop(0, None)
