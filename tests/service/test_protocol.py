"""Connections with a real socket: early responses, timeouts and header limits."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from glcb.service import auth as keys
from glcb.service.http.app import Application
from glcb.service.http.protocol import Connection, Connections, Timeouts
from tests.service.asgi import Service, lifespan, running_service

BODY = b" " * 500_000
PATH = "/v1/experiments/home/decisions"

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextlib.asynccontextmanager
async def connected(app: Application, max_connections: int = 10, **seconds: float) -> AsyncIterator[Streams]:
    """Yield a connection to an application."""
    timeouts = Timeouts(**{"request_seconds": 10, "idle_seconds": 60, "write_seconds": 30, **seconds})
    connections = Connections(app, ServerState(), timeouts, max_connections)
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(lambda: Connection(connections), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*listener.sockets[0].getsockname())
    try:
        yield reader, writer
    finally:
        writer.close()
        listener.close()


def run_as_served(scenario: Coroutine[Any, Any, None]) -> None:
    """Run a scenario in the event loop of the service, which is uvloop where it is available."""
    with asyncio.Runner(loop_factory=uvicorn.Config("").get_loop_factory()) as runner:
        runner.run(scenario)


async def answer(reader: asyncio.StreamReader) -> int:
    """Return the status of the next response."""
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    await reader.readexactly(int(length.partition(b":")[2]))
    return int(head.split()[1])


def head(method: str, path: str, length: int = 0) -> bytes:
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: localhost",
        "Content-Type: application/json",
        f"Content-Length: {length}",
    ]
    return "\r\n".join([*lines, "", ""]).encode()


async def refused_early(streams: Streams) -> list[int]:
    """Send most of a body after its response, then another request; return both statuses."""
    reader, writer = streams
    writer.write(head("POST", PATH, len(BODY)) + BODY[:1000])
    first = await answer(reader)
    for start in range(1000, len(BODY), 50_000):
        writer.write(BODY[start : start + 50_000])
        await writer.drain()
    writer.write(head("GET", "/healthz"))
    return [first, await answer(reader)]


def in_connection(folder: Path, scenario: Callable[[Service, Streams], Awaitable[None]]) -> None:
    async def run() -> None:
        async with running_service(folder) as own, connected(own.app) as streams:
            await scenario(own, streams)

    run_as_served(run())


def test_an_unauthorized_client_can_finish_its_request_and_reuse_the_connection(tmp_path: Path) -> None:
    async def scenario(own: Service, streams: Streams) -> None:
        keys.add_key(own.storage, "shop", "decide")
        own.authenticator.keyring.refresh()
        assert await refused_early(streams) == [401, 200]

    in_connection(tmp_path, scenario)


def test_a_client_refused_during_startup_can_reuse_the_connection() -> None:
    async def run() -> None:
        async with connected(Application(lifespan)) as streams:
            assert await refused_early(streams) == [503, 200]

    run_as_served(run())


def test_a_connection_is_closed_if_the_rest_of_the_body_never_arrives() -> None:
    async def run() -> None:
        async with connected(Application(lifespan), request_seconds=0.1) as (reader, writer):
            writer.write(head("POST", PATH, len(BODY)) + BODY[:1000])
            assert await answer(reader) == 503
            assert await asyncio.wait_for(reader.read(), 20) == b""

    run_as_served(run())


def test_endless_headers_are_refused_even_on_a_reused_connection() -> None:
    async def run() -> None:
        async with connected(Application(lifespan)) as (reader, writer):
            writer.write(head("GET", "/healthz"))
            assert await answer(reader) == 200
            writer.write(b"GET /healthz HTTP/1.1\r\nX: " + b"x" * 70_000)
            assert await answer(reader) == 431
            assert await asyncio.wait_for(reader.read(), 20) == b""

    run_as_served(run())
