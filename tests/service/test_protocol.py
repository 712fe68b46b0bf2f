"""Connections with a real socket: early responses, timeouts and header limits."""

import asyncio
import contextlib
import random
import socket
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from glcb.service.access import api_keys as keys
from glcb.service.http.app import Application
from glcb.service.http.protocol import Connection, Connections, Timeouts
from glcb.service.http.static import pages
from tests.support.asgi import Service, create_experiment, lifespan, running_service

BODY = b" " * 500_000
PATH = "/v1/experiments/home/decisions"

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Watched(Connection):
    """A connection of the service that tells when its transport is closed."""

    is_lost = False

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self.is_lost = True


@dataclass
class Listening:
    """An application that listens on a port."""

    state: ServerState
    address: tuple[str, int]
    made: list["Watched"]

    async def connect(self) -> Streams:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        await asyncio.get_running_loop().sock_connect(client, self.address)
        return await asyncio.open_connection(sock=client)

    @property
    def open(self) -> list[Any]:
        return list(self.state.connections)

    @property
    def count(self) -> int:
        return len(self.open)


@contextlib.asynccontextmanager
async def listening(
    app: Application, max_connections: int = 10, **seconds: float
) -> AsyncIterator[Listening]:
    """Let an application listen; ``seconds`` are timeouts."""
    timeouts = Timeouts(**{"request_seconds": 10, "idle_seconds": 60, "write_seconds": 30, **seconds})
    connections, state = Connections(app, timeouts, max_connections), ServerState()
    config = uvicorn.Config(app, ws="none", log_config=None, access_log=False, proxy_headers=False)
    loop = asyncio.get_running_loop()
    made: list[Watched] = []

    def make() -> Watched:
        made.append(Watched(connections, config, state, {}))
        return made[-1]

    listener = await loop.create_server(make, "127.0.0.1", 0)
    for own in listener.sockets:  # small buffers, so that unread responses stay in the process
        own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    try:
        yield Listening(state, listener.sockets[0].getsockname(), made)
    finally:
        listener.close()


@contextlib.asynccontextmanager
async def connected(app: Application, request_seconds: float = 10) -> AsyncIterator[Streams]:
    """Yield a connection to an application."""
    async with listening(app, request_seconds=request_seconds) as server:
        reader, writer = await server.connect()
        try:
            yield reader, writer
        finally:
            writer.close()
            await until(lambda: all(one.is_lost for one in server.made))


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


@pytest.fixture(scope="module")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    """The event loop of the service, which is uvloop where it is available."""
    return "asyncio", {"loop_factory": uvicorn.Config("").get_loop_factory()}


@pytest.fixture
async def starting() -> AsyncIterator[Streams]:
    """A connection to an application that has not started."""
    async with connected(Application(lifespan)) as connection:
        yield connection


@pytest.fixture
async def listener(service: Service) -> AsyncIterator[Listening]:
    """The service, listening on a port."""
    async with listening(service.app) as running:
        yield running


@pytest.fixture
async def streams(request: pytest.FixtureRequest, service: Service) -> AsyncIterator[Streams]:
    """A connection to the service."""
    marker = request.node.get_closest_marker("settings")
    async with connected(service.app, **({} if marker is None else marker.kwargs)) as connection:
        yield connection


async def ask(streams: Streams, *parts: bytes) -> int:
    """Send a request in parts that arrive one after another; return the status of the response."""
    reader, writer = streams
    for number, part in enumerate(parts):
        if number:
            await asyncio.sleep(0.01)
        writer.write(part)
    return await answer(reader)


CONTEXT = b'{"context": {"age": 31}}'


def request(
    path: str = PATH, body: bytes = CONTEXT, key: str | None = None, extra: bytes = b"", method: str = "POST"
) -> bytes:
    """Return a request; ``extra`` is a line of its headers."""
    authorization = b"" if key is None else b"Authorization: Bearer %b\r\n" % key.encode()
    return head(method, path, len(body))[:-2] + authorization + extra + b"\r\n" + body


async def test_an_unauthorized_client_can_finish_its_request_and_reuse_the_connection(
    service: Service, streams: Streams
) -> None:
    service.add_key("shop", "decide")
    assert await refused_early(streams) == [401, 200]


async def test_a_client_refused_during_startup_can_reuse_the_connection() -> None:
    async with connected(Application(lifespan)) as streams:
        assert await refused_early(streams) == [503, 200]


async def test_a_connection_is_closed_if_the_rest_of_the_body_never_arrives() -> None:
    async with connected(Application(lifespan), request_seconds=0.1) as (reader, writer):
        writer.write(head("POST", PATH, len(BODY)) + BODY[:1000])
        assert await answer(reader) == 503
        assert await asyncio.wait_for(reader.read(), 20) == b""


async def test_endless_headers_are_refused_even_on_a_reused_connection(starting: Streams) -> None:
    reader, writer = starting
    writer.write(head("GET", "/healthz"))
    assert await answer(reader) == 200
    writer.write(b"GET /healthz HTTP/1.1\r\nX: " + b"x" * 70_000)
    assert await answer(reader) == 431
    assert await asyncio.wait_for(reader.read(), 20) == b""


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.02)


async def send_until_refused(streams: Streams, part: bytes, max_bytes: int) -> bytes:
    """Send the same part again and again; return what the server sends once it has closed its side."""
    reader, writer = streams
    reading = asyncio.ensure_future(reader.read())
    for _ in range(max_bytes // len(part)):
        writer.write(part)
        await asyncio.sleep(0)
        if reading.done() or writer.is_closing():
            break
        with contextlib.suppress(OSError):
            await writer.drain()
    try:
        return await asyncio.wait_for(reading, 5)
    except OSError:
        return b""


CHUNKED = (
    f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    "Transfer-Encoding: chunked\r\n\r\n"
).encode()


@pytest.mark.parametrize(
    ("start", "part"),
    [
        (b"GET /healthz HTTP/1.1\r\n", b"X: x\r\n" * 1000),
        (b"\r\n", b"\r\n" * 5000),
        (CHUNKED + b"2\r\n{}\r\n0\r\n", b"X: x\r\n" * 1000),
        (CHUNKED + b"2\r\n{}\r\n0\r\nX: ", b"x" * 10_000),
        (CHUNKED + b"2;", b"x" * 10_000),
        (CHUNKED, b"1\r\n \r\n" * 1000),
    ],
    ids=["headers", "empty lines", "trailers", "one trailer", "chunk extension", "chunks of one byte"],
)
async def test_bytes_outside_the_body_are_refused_in_every_state(
    service: Service, streams: Streams, start: bytes, part: bytes
) -> None:
    await create_experiment(service)
    streams[1].write(start)
    received = await send_until_refused(streams, part, max_bytes=400_000)
    assert received.startswith(b"HTTP/1.1 431"), received
    assert received.count(b"HTTP/1.1 ") == 1


async def test_the_rest_is_dropped_after_a_refusal(starting: Streams) -> None:
    reader, writer = starting
    writer.write(b"not HTTP\r\n\r\n")
    for _ in range(50):
        writer.write(head("GET", "/healthz") * 1000)
        await writer.drain()
    writer.write_eof()
    received = await asyncio.wait_for(reader.read(), 20)
    assert received.startswith(b"HTTP/1.1 400")
    assert received.count(b"HTTP/1.1 ") == 1


async def test_clients_that_do_not_read_are_disconnected_and_hold_little_memory() -> None:
    path = f"/static/{pages().digest}/vendor/uPlot.iife.min.js"
    async with listening(Application(lifespan), write_seconds=0.5) as server:
        streams = [await server.connect() for _ in range(5)]
        for reader, writer in streams:
            reader._transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(head("GET", path) * 15)
        await until(lambda: server.count == 5)
        await until(lambda: all(one.flow.write_paused for one in server.open))
        unsent = [one.transport.get_write_buffer_size() for one in server.open]
        assert max(unsent) <= 3 * 32_768
        await until(lambda: server.count == 0)
        for _, writer in streams:
            writer.close()


async def test_pipelined_requests_are_answered_in_order_up_to_a_limit(starting: Streams) -> None:
    reader, writer = starting
    writer.write(head("GET", "/healthz") * 3 + head("GET", "/readyz"))
    assert [await answer(reader) for _ in range(4)] == [200, 200, 200, 503]
    writer.write(head("GET", "/healthz") * 100)
    received = await asyncio.wait_for(reader.read(), 20)
    assert received.count(b"HTTP/1.1 200") == 17
    assert received.count(b"connection: close") == 1


async def test_a_complete_request_is_answered_before_the_garbage_behind_it(
    service: Service, streams: Streams
) -> None:
    await create_experiment(service)
    reader, writer = streams
    body = b'{"context":{"age":31}}'
    writer.write(head("POST", PATH, len(body)) + body + b"\x00garbage\r\n\r\n")
    assert [await answer(reader), await answer(reader)] == [200, 400]
    assert await asyncio.wait_for(reader.read(), 20) == b""
    assert service.engine.loaded["home"].experiment.bandit.counts["decisions"] == 1


async def test_a_content_length_with_thousands_of_digits_is_no_internal_error(
    service: Service, streams: Streams
) -> None:
    await create_experiment(service)
    reader, writer = streams
    body = b'{"context":{"age":31}}'
    lines = head("POST", PATH, len(body)).replace(b"Length: ", b"Length: " + b"0" * 5000)
    writer.write(lines + body)
    assert await answer(reader) == 200


@pytest.mark.parametrize("size", [65_537, 80_000, 99_999])
@pytest.mark.parametrize("way", ["at once", "in two parts", "behind another request", "with an upgrade"])
async def test_a_large_body_of_a_decision_is_received_whole(
    service: Service, streams: Streams, size: int, way: str
) -> None:
    await create_experiment(service)
    reader, writer = streams
    body = b'{"context":{"age":31}}'.ljust(size)
    lines = head("POST", PATH, size)
    if way == "with an upgrade":
        lines = lines[:-2] + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    if way == "behind another request":
        writer.write(lines + body + lines + body)
        assert [await answer(reader), await answer(reader)] == [200, 200]
        return
    first = 65_600 if way == "in two parts" else size
    writer.write(lines + body[:first])
    await writer.drain()
    writer.write(body[first:])
    assert await answer(reader) == 200


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (head("GET", "/healthz?" + "a" * 4_000), 200),
        (head("GET", "/healthz?" + "a" * 4_100), 414),
        (head("GET", "/v1/experiments/" + "%41" * 20_000), 414),
        (head("GET", "/healthz")[:-2] + b"X: a\r\n" * 90 + b"\r\n", 200),
        (head("GET", "/healthz")[:-2] + b"X: a\r\n" * 100 + b"\r\n", 431),
    ],
    ids=["long query", "too long query", "too long path", "many headers", "too many headers"],
)
async def test_targets_and_headers_that_take_long_to_parse_are_refused(
    starting: Streams, content: bytes, status: int
) -> None:
    reader, writer = starting
    writer.write(content)
    assert await answer(reader) == status
    if status != 200:
        assert await asyncio.wait_for(reader.read(), 20) == b""


async def test_slow_bodies_hold_no_slot(tmp_path: Path) -> None:
    async with (
        running_service(tmp_path, max_concurrent_requests=2) as service,
        listening(service.app) as server,
    ):
        await create_experiment(service)
        slow = [await server.connect() for _ in range(4)]
        for number, (_, writer) in enumerate(slow):
            media = b"application/json; charset=utf-8" if number % 2 else b"application/json"
            writer.write(head("POST", PATH, 100).replace(b"application/json", media) + b"{")
        await until(lambda: server.count == 4)
        reader, writer = await server.connect()
        body = b'{"context":{"age":31}}'
        writer.write(head("POST", PATH, len(body)) + body)
        assert await answer(reader) == 200
        for _, other in slow:
            other.close()
        writer.close()


async def test_a_body_that_does_not_arrive_ends_in_a_timeout(tmp_path: Path) -> None:
    async with (
        running_service(tmp_path, request_seconds=0.2) as service,
        connected(service.app, request_seconds=0.2) as (reader, writer),
    ):
        await create_experiment(service)
        writer.write(head("POST", PATH, 100) + b"{")
        assert await answer(reader) == 408
        assert await asyncio.wait_for(reader.read(), 20) == b""


async def test_a_new_connection_replaces_the_one_that_has_waited_longest() -> None:
    async with listening(Application(lifespan), max_connections=3) as server:
        streams = []
        for _ in range(3):  # none of them is idle
            streams.append(await server.connect())
            streams[-1][1].write(head("POST", PATH, 1000)[:40])
            await until(lambda: server.count == len(streams))
        await asyncio.sleep(0.05)
        reader, writer = await server.connect()
        writer.write(head("GET", "/healthz"))
        assert await answer(reader) == 200
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.wait_for(streams[0][0].read(), 5) == b""
        assert server.count == 3
        for _, other in streams:
            other.close()
        writer.close()


async def test_invalid_requests_leave_nothing_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    upgrade = head("GET", "/")[:-2] + b"Connection: Upgrade\r\nUpgrade: other\r\n\r\n"
    invalid = (
        b"not HTTP\r\n\r\n",
        head("CONNECT", "localhost:80"),
        head("GET", "nowhere"),
        upgrade + b"\0\1",
    )
    async with listening(Application(lifespan)) as server:
        for content in invalid:
            reader, writer = await server.connect()
            writer.write(content)
            writer.write_eof()
            assert b"HTTP/1.1 400" in await asyncio.wait_for(reader.read(), 20)
            writer.close()
    assert caplog.records == []


@pytest.mark.parametrize(
    ("method", "path"),
    [("DELETE", "/v1/experiments/home"), ("GET", "/v1/experiments/home"), ("GET", "/readyz")],
)
async def test_a_request_that_turns_out_to_be_invalid_changes_nothing(
    service: Service, streams: Streams, caplog: pytest.LogCaptureFixture, method: str, path: str
) -> None:
    await create_experiment(service)
    reader, writer = streams
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Transfer-Encoding: chunked"]
    writer.write("\r\n".join([*lines, "", "no size", ""]).encode())
    assert await answer(reader) == 400
    assert await asyncio.wait_for(reader.read(), 20) == b""
    assert (await service.ask("GET", "/v1/experiments/home")).status == 200
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


@pytest.mark.parametrize("upgrade", ["websocket", "h2c"])
async def test_a_request_for_another_protocol_is_answered_as_if_it_asked_for_none(
    service: Service, streams: Streams, upgrade: str
) -> None:
    await create_experiment(service)
    reader, writer = streams
    body = b'{"context":{"age":31}}'
    lines = f"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: {upgrade}\r\n\r\n"
    post, get = head("POST", PATH, len(body)), head("GET", "/healthz")
    for request in (post[:-2] + lines.encode() + body, get[:-2] + lines.encode(), post + body):
        writer.write(request[:-4])
        await asyncio.sleep(0.01)
        writer.write(request[-4:])
        assert await answer(reader) == 200
    assert service.engine.loaded["home"].experiment.bandit.counts["decisions"] == 2


def test_hundreds_of_requests_for_another_protocol_leave_nothing_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run() -> None:
        async with connected(Application(lifespan)) as (reader, writer):
            writer.write(b"GET /healthz HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n" * 300)
            assert [await answer(reader) for _ in range(17)] == [200] * 17
            assert await reader.read() == b""

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(250)  # what a wrapper of each call, such as coverage, would leave
    try:
        with asyncio.Runner(loop_factory=uvicorn.Config("").get_loop_factory()) as runner:
            runner.run(run())
    finally:
        sys.setrecursionlimit(limit)
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def test_a_connection_of_http_1_0_is_closed_after_the_response(starting: Streams) -> None:
    reader, writer = starting
    writer.write(b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n")
    assert await answer(reader) == 200
    assert await asyncio.wait_for(reader.read(), 20) == b""


async def test_a_request_may_arrive_in_parts(service: Service, streams: Streams) -> None:
    await create_experiment(service)
    lines = request()[: -len(CONTEXT)]
    assert await ask(streams, lines, CONTEXT) == 200
    assert await ask(streams, lines, CONTEXT[:5], CONTEXT[5:]) == 200
    assert await ask(streams, lines[:-20], lines[-20:], CONTEXT) == 200
    assert await ask(streams, lines, CONTEXT + request()) == 200
    assert await answer(streams[0]) == 200


async def test_headers_may_be_cut_anywhere(service: Service, streams: Streams) -> None:
    await create_experiment(service)
    for length in range(len(request()) - len(CONTEXT) - 8, len(request()) - len(CONTEXT) + 2):
        whole = request(body=CONTEXT.ljust(length))
        assert await ask(streams, whole) == 200
        end = whole.index(b"\r\n\r\n")
        for cut in range(end - 2, end + 6):
            assert await ask(streams, whole[:cut], whole[cut:]) == 200, (length, cut)


@pytest.mark.parametrize("seed", range(4))
async def test_a_stream_of_requests_is_answered_in_order_however_it_is_cut(
    service: Service, streams: Streams, seed: int
) -> None:
    rng = random.Random(seed)
    kinds = [
        (request(), 200),
        (request(body=b'{"context": {"age": 7}} '), 200),
        (request(body=b"not JSON"), 400),
        (request(f"{PATH}/none/reward", b'{"value": 1}'), 404),
        (request("/v1/experiments/none/decisions"), 404),
        (request(extra=b"Connection: keep-alive\r\n"), 200),
        (request("/v1/experiments/home", body=b"", method="GET"), 200),
    ]
    sent = [rng.choice(kinds) for _ in range(40)]
    stream = b"".join(content for content, _ in sent)
    cuts = sorted(rng.sample(range(1, len(stream)), 60))
    parts = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    if seed % 2:  # every request in a part of its own
        parts = [content for content, _ in sent]

    await create_experiment(service)
    reader, writer = streams

    starts = list(accumulate((len(content) for content, _ in sent), initial=0))
    answered: list[int] = []

    async def send() -> None:
        written = 0
        for part in parts:
            written += len(part)
            while sum(start < written for start in starts) - len(answered) > 10:  # less than the limit
                await asyncio.sleep(0.002)
            writer.write(part)
            await asyncio.sleep(0.002)

    sending = asyncio.create_task(send())
    for _ in sent:
        answered.append(await answer(reader))
    assert answered == [status for _, status in sent]
    await sending


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (request(f"{PATH}?x=1"), 200),
        (request(PATH.replace("home", "h%6Fme")), 200),
        (request(f"http://localhost{PATH}"), 200),
        (b"\r\n" + request(), 200),
        (request().replace(b"HTTP/1.1", b"HTTP/1.0"), 200),
        (request(f"ftp:{PATH}"), 400),
        (request().replace(b" HTTP/1.1", b" HTTP/7.1"), 400),
    ],
    ids=["query", "escaped", "absolute", "empty line", "HTTP/1.0", "no path", "no version"],
)
async def test_a_target_may_have_other_forms(
    service: Service, streams: Streams, content: bytes, status: int
) -> None:
    await create_experiment(service)
    assert await ask(streams, content) == status


async def test_a_client_that_stays_does_not_end_the_timeouts_of_others(tmp_path: Path) -> None:
    async with (
        running_service(tmp_path, request_seconds=0.2) as service,
        listening(service.app, request_seconds=0.2) as server,
    ):
        await create_experiment(service)
        first = await server.connect()
        assert await ask(first, request()[: -len(CONTEXT)]) == 408
        await asyncio.sleep(0.4)  # it reads no further, and its deadline passes
        reader, writer = await server.connect()
        writer.write(b"POST ")
        assert await asyncio.wait_for(reader.read(), 20) == b""
        writer.close()
        first[1].close()


async def test_one_connection_that_cannot_be_aborted_does_not_affect_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    genuine = Connection.abort
    failed: list[Connection] = []

    def fail_once(self: Connection) -> None:
        if not failed or self in failed:
            failed.append(self)
            raise RuntimeError("closed")
        genuine(self)

    monkeypatch.setattr(Connection, "abort", fail_once)
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)
    async with listening(Application(lifespan), request_seconds=0.2) as server:
        streams = []
        for number in range(2):
            streams.append(await server.connect())
            streams[-1][1].write(b"POST ")
            await until(lambda number=number: server.count > number)  # type: ignore[misc]
        assert await asyncio.wait_for(streams[1][0].read(), 20) == b""
        assert failed
        for _, writer in streams:
            writer.close()


async def test_a_request_is_completed_during_shutdown(service: Service, listener: Listening) -> None:
    await create_experiment(service)
    reader, writer = await listener.connect()
    assert await ask((reader, writer), request()) == 200
    writer.write(request()[: -len(CONTEXT)])
    await until(lambda: service.engine.metrics.in_flight == 1)
    (connection,) = listener.open
    connection.shutdown()
    assert await ask((reader, writer), CONTEXT) == 200
    assert await asyncio.wait_for(reader.read(), 20) == b""
    writer.close()


async def test_a_key_does_not_reach_other_experiments_and_ends_when_it_is_removed(
    service: Service, streams: Streams
) -> None:
    await create_experiment(service)
    secret = service.add_key("shop", "decide", ["home"])
    service.add_key("other", "decide")
    for _ in range(2):
        assert await ask(streams, request(key=secret)) == 200
    assert await ask(streams, request(PATH.replace("home", "shop"), key=secret)) == 404
    keys.remove_key(service.storage, "shop")
    service.authenticator.keyring.refresh()
    assert await ask(streams, request(key=secret)) == 401


@pytest.mark.parametrize("breaks", [b"\r\n", b"\r\n\r\n", b"\r\n\r\n\r\n"])
async def test_line_breaks_before_a_request_lend_its_key_to_nobody(
    service: Service, listener: Listening, breaks: bytes
) -> None:
    await create_experiment(service)
    secret = service.add_key("shop", "decide")
    streams = [await listener.connect() for _ in range(3)]
    assert await ask(streams[0], breaks + request(key=secret)) == 200
    line = b"POST %b HTTP/1.1" % PATH.encode()
    for number, start in enumerate((b"", breaks), 1):
        assert await ask(streams[number], start + line + b"\r\n\r\n" + CONTEXT) in (400, 401)
    for _, writer in streams:
        writer.close()


@pytest.mark.parametrize("is_second", [False, True], ids=["alone", "behind another request"])
async def test_trailers_do_not_become_headers(service: Service, streams: Streams, is_second: bool) -> None:
    await create_experiment(service)
    secret = service.add_key("shop", "decide")
    if is_second:
        streams[1].write(request(key=secret))
    chunks = b"%x\r\n%b\r\n0\r\n" % (len(CONTEXT), CONTEXT)
    streams[1].write(CHUNKED + chunks + b"Authorization: Bearer %b\r\n\r\n" % secret.encode())
    assert [await answer(streams[0]) for _ in range(1 + is_second)] == [200, 401][not is_second :]


async def test_a_stream_without_a_length_is_sent_to_http_1_0_without_chunks(
    service: Service, streams: Streams
) -> None:
    await create_experiment(service)
    assert await ask(streams, request()) == 200
    export = head("GET", "/v1/experiments/home/export").replace(b"HTTP/1.1", b"HTTP/1.0")
    streams[1].write(export)
    received = await asyncio.wait_for(streams[0].read(), 20)
    lines, _, body = received.partition(b"\r\n\r\n")
    assert lines.startswith(b"HTTP/1.1 200")
    assert b"transfer-encoding" not in lines
    assert body.startswith(b"{")
    assert body.endswith(b"}\n")


async def test_a_client_that_has_ended_its_side_gets_all_responses(
    service: Service, streams: Streams
) -> None:
    await create_experiment(service)
    streams[1].write(request() * 3 + request()[:-5])
    streams[1].write_eof()
    received = await asyncio.wait_for(streams[0].read(), 5)
    assert received.count(b"HTTP/1.1 200") == received.count(b"HTTP/1.1 ") == 3


async def test_requests_do_not_extend_the_time_for_reading_a_response() -> None:
    path = f"/static/{pages().digest}/vendor/uPlot.iife.min.js"
    async with listening(Application(lifespan), write_seconds=1) as server:
        reader, writer = await server.connect()
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        began = asyncio.get_running_loop().time()
        with contextlib.suppress(OSError):
            while server.count or asyncio.get_running_loop().time() < began + 0.5:
                writer.write(head("GET", path))
                await asyncio.sleep(0.05)
                assert asyncio.get_running_loop().time() < began + 10
        writer.close()


@pytest.mark.parametrize(
    ("content", "count"),
    [
        (request(extra=b"Connection: close\r\n") + request(), 1),
        (request(extra=b"Connection: close\r\n") + b"\x00garbage\r\n\r\n", 1),
        (request() + request(extra=b"Connection: close\r\n") + b"\x00garbage\r\n\r\n", 2),
        (request(extra=b"Expect: 100-continue\r\nConnection: close\r\n"), 2),
        (head("HEAD", "/readyz")[:-2] + b"Connection: close\r\n\r\n", 1),
    ],
    ids=["another request", "garbage", "garbage after two", "continue", "HEAD"],
)
async def test_the_last_request_of_a_connection_is_answered_once(
    service: Service, streams: Streams, content: bytes, count: int
) -> None:
    await create_experiment(service)
    streams[1].write(content)
    received = await asyncio.wait_for(streams[0].read(), 3)
    assert received.count(b"HTTP/1.1 ") == count
    assert received.count(b"HTTP/1.1 200") + received.count(b"HTTP/1.1 100") == count
    if content.startswith(b"HEAD"):
        assert received.endswith(b"\r\n\r\n")


async def test_a_rejected_request_is_not_told_to_continue(service: Service, streams: Streams) -> None:
    await create_experiment(service)
    expecting = CHUNKED[:-2] + b"Expect: 100-continue\r\n\r\n"
    streams[1].write(expecting + b"no size\r\n")
    received = await asyncio.wait_for(streams[0].read(), 3)
    assert received.startswith(b"HTTP/1.1 400")
    assert received.count(b"HTTP/1.1 ") == 1
