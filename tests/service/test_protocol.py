"""Connections, with a real socket: who is answered before the whole request is there can go on."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import uvicorn
from uvicorn.server import ServerState

from glcb.service import auth as keys
from glcb.service.http.app import Application
from glcb.service.http.protocol import PatientProtocol
from tests.service.asgi import House, house, lifespan

BODY = b" " * 500_000
PATH = "/v1/experiments/home/decisions"

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@contextlib.asynccontextmanager
async def connected(app: Application) -> AsyncIterator[Streams]:
    """Give a connection to an application."""
    config = uvicorn.Config(
        app,
        http=PatientProtocol,
        ws="none",
        log_config=None,
        timeout_keep_alive=600,
    )
    state = ServerState()
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(lambda: PatientProtocol(config, state, {}), "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*listener.sockets[0].getsockname())
    try:
        yield reader, writer
    finally:
        writer.close()
        listener.close()


async def answer(reader: asyncio.StreamReader) -> int:
    """Return the status of the next answer."""
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 20)
    length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
    await reader.readexactly(int(length.partition(b":")[2]))
    return int(head.split()[1])


def head(method: str, path: str, length: int = 0) -> bytes:
    said = "Content-Type: application/json\r\n"
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{said}Content-Length: {length}\r\n\r\n".encode()


async def refused_early(streams: Streams) -> list[int]:
    """Send the body of a request after its answer, then another request; return both statuses."""
    reader, writer = streams
    writer.write(head("POST", PATH, len(BODY)) + BODY[:1000])
    first = await answer(reader)
    for start in range(1000, len(BODY), 50_000):
        writer.write(BODY[start : start + 50_000])
        await writer.drain()
    writer.write(head("GET", "/healthz"))
    return [first, await answer(reader)]


def in_connection(folder: Path, play: Callable[[House, Streams], Awaitable[None]]) -> None:
    async def run() -> None:
        async with house(folder) as own, connected(own.app) as streams:
            await play(own, streams)

    asyncio.run(run())


def test_who_has_no_key_can_send_the_rest_and_ask_again(tmp_path: Path) -> None:
    async def play(own: House, streams: Streams) -> None:
        keys.add(own.storage, "shop", "decide")
        own.door.keyring.refresh()
        assert await refused_early(streams) == [401, 200]

    in_connection(tmp_path, play)


def test_who_comes_too_soon_can_send_the_rest_and_ask_again() -> None:
    async def run() -> None:
        async with connected(Application(lifespan)) as streams:
            assert await refused_early(streams) == [503, 200]

    asyncio.run(run())


def test_who_never_sends_the_rest_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PatientProtocol, "request_seconds", 0.1)

    async def run() -> None:
        async with connected(Application(lifespan)) as (reader, writer):
            writer.write(head("POST", PATH, len(BODY)) + BODY[:1000])
            assert await answer(reader) == 503
            assert await asyncio.wait_for(reader.read(), 20) == b""

    asyncio.run(run())


def test_headers_without_end_are_refused_also_after_another_request() -> None:
    async def run() -> None:
        async with connected(Application(lifespan)) as (reader, writer):
            writer.write(head("GET", "/healthz"))
            assert await answer(reader) == 200
            writer.write(b"GET /healthz HTTP/1.1\r\nX: " + b"x" * 70_000)
            assert await answer(reader) == 431
            assert await asyncio.wait_for(reader.read(), 20) == b""

    asyncio.run(run())
