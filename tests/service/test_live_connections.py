"""Misbehaving clients get a clear error or a closed connection; other clients are not affected."""

import asyncio
import json
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import urlsplit

import pytest

from benchmarks.service.server import Server, serving
from benchmarks.service.wire import connect, post
from tests.service.conftest import Serve

pytestmark = pytest.mark.live

PATH = "/v1/experiments/e"
CLIENT_TIMEOUT = 2
"""Seconds after which these servers close the connection of a slow or silent client."""
SHORT_TIMEOUTS = ("--set", f"request_seconds={CLIENT_TIMEOUT}", "--set", f"idle_seconds={CLIENT_TIMEOUT}")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(["--data", str(tmp_path_factory.mktemp("data") / "glcb.db")], *SHORT_TIMEOUTS) as running:
        assert running.client.put(PATH, {"arms": ["a", "b"], "policy": "linucb"}).status == 201
        yield running


def _connect(server: Server) -> socket.socket:
    where = urlsplit(server.url)
    return socket.create_connection((where.hostname or "", where.port or 0), timeout=30)


def _read_all(line: socket.socket) -> bytes:
    """Return everything the server sends before it closes the connection."""
    received = b""
    while part := line.recv(65_536):
        received += part
    return received


def _assert_serving(server: Server) -> None:
    decision = server.client.post(f"{PATH}/decisions", {"context": {"x": 1}})
    assert decision.status == 200, decision
    reward = server.client.post(f"{PATH}/decisions/{decision.data['id']}/reward", {"value": 1})
    assert reward.status == 200, reward


HEAD = f"POST {PATH}/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    "partial",
    [
        "",
        "POST /v1/exp",
        HEAD,
        f"{HEAD}Content-Length: 100\r\n\r\n",
        f'{HEAD}Content-Length: 100\r\n\r\n{{"context": ',
        f'{HEAD}Transfer-Encoding: chunked\r\n\r\n5\r\n{{"con',
    ],
    ids=["nothing", "partial line", "partial header", "no body", "partial body", "partial chunk"],
)
def test_an_incomplete_request_is_closed(server: Server, partial: str) -> None:
    decisions = server.client.get(PATH).data["counts"]["decisions"]
    with _connect(server) as line:
        start = time.monotonic()
        line.sendall(partial.encode())
        received = _read_all(line)
        assert time.monotonic() - start < 3 * CLIENT_TIMEOUT + 2
        assert received == b"" or received.startswith((b"HTTP/1.1 400", b"HTTP/1.1 408"))
    _assert_serving(server)
    assert server.client.get(PATH).data["counts"]["decisions"] == decisions + 1


def test_a_request_that_trickles_in_is_closed(server: Server) -> None:
    with _connect(server) as line:
        start = time.monotonic()
        line.sendall(f"{HEAD}Content-Length: 100000\r\n\r\n".encode())
        with suppress(ConnectionError):
            while time.monotonic() - start < 10 * CLIENT_TIMEOUT:
                line.sendall(b" ")
                time.sleep(0.1)
        assert time.monotonic() - start < 3 * CLIENT_TIMEOUT + 2
    _assert_serving(server)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", f"{PATH}/decisions"),
        ("POST", f"{PATH}/decisions/batch"),
        ("POST", f"{PATH}/decisions/0-00000000/reward"),
        ("POST", f"{PATH}/rewards"),
        ("POST", f"{PATH}/explanations"),
        ("POST", f"{PATH}/arms"),
        ("PUT", "/v1/experiments/f"),
        ("PATCH", PATH),
    ],
)
@pytest.mark.parametrize("chunked", [False, True], ids=["announced", "chunked"])
def test_a_body_of_ten_megabytes_is_rejected(server: Server, method: str, path: str, chunked: bool) -> None:
    start = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    pieces = [b'{"context": {"x": "'] + [b"x" * 65_536] * 160 + [b'"}}']
    with _connect(server) as line:
        if chunked:
            line.sendall(f"{start}Transfer-Encoding: chunked\r\n\r\n".encode())
            for piece in pieces:
                line.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
            line.sendall(b"0\r\n\r\n")
        else:
            line.sendall(f"{start}Content-Length: {sum(map(len, pieces))}\r\n\r\n".encode())
            for piece in pieces:
                line.sendall(piece)
        received = _read_all(line)
    assert received.startswith(b"HTTP/1.1 413"), received
    assert json.loads(received.partition(b"\r\n\r\n")[2])["error"]["code"] == "too_large"
    _assert_serving(server)


def test_expect_100_continue_is_answered_before_the_body_is_sent(server: Server) -> None:
    with _connect(server) as line:
        line.sendall(f"{HEAD}Expect: 100-continue\r\nContent-Length: {10 * 2**20}\r\n\r\n".encode())
        assert _read_all(line).startswith(b"HTTP/1.1 413")
    _assert_serving(server)


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200),
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X-Much: " + b"a" * 200_000 + b"\r\n\r\n",
        f"{HEAD}Content-Length: -5\r\n\r\n".encode(),
        f"{HEAD}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!".encode(),
        f"{HEAD}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".encode(),
        f"{HEAD}Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n".encode(),
    ],
    ids=[
        "TLS",
        "version",
        "long path",
        "long head",
        "negative length",
        "two lengths",
        "length and chunks",
        "huge chunk",
    ],
)
def test_invalid_http_gets_a_4xx_status_or_a_closed_connection(server: Server, data: bytes) -> None:
    with _connect(server) as line:
        try:
            line.sendall(data)
            received = line.recv(65_536)
        except OSError:
            received = b""
        assert received == b"" or received.startswith(b"HTTP/1.1 4"), received
    _assert_serving(server)


def test_thousands_of_idle_connections_do_not_block_the_service(server: Server) -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(5000, soft - 200)
    lines: list[socket.socket] = []
    try:
        for _ in range(count):
            lines.append(_connect(server))
        _assert_serving(server)
        _assert_closed(lines)
    finally:
        for line in lines:
            line.close()
    _assert_serving(server)


def _assert_closed(lines: list[socket.socket]) -> None:
    """Wait until the server has closed all connections."""
    deadline = time.monotonic() + 5 * CLIENT_TIMEOUT + 10
    for line in lines:
        line.settimeout(max(0.1, deadline - time.monotonic()))
        with suppress(ConnectionResetError):
            assert line.recv(1) == b""


def test_more_connections_than_file_descriptors(serve: Serve) -> None:
    server = serve(*SHORT_TIMEOUTS, wrapper=["sh", "-c", 'ulimit -n 128; exec "$@"', "sh"])
    assert server.client.put(PATH, {"arms": ["a", "b"], "policy": "linucb"}).status == 201
    lines = [_connect(server) for _ in range(600)]
    try:
        time.sleep(1)
        # Waiting connections are accepted as soon as idle ones are closed.
        _assert_serving(server)
    finally:
        for line in lines:
            line.close()
    _assert_serving(server)
    assert server.exit_code() is None
    assert len(server.output()) < 1_000_000, "the log is flooded"


def test_requests_beyond_the_concurrency_limit_are_rejected_at_once(serve: Serve) -> None:
    server = serve("--set", "max_concurrent_requests=2")
    assert server.client.put(PATH, {"arms": ["a", "b"], "policy": "linucb"}).status == 201
    _assert_serving(server)
    body = b'{"context": {"x": 1}}'

    async def send_all() -> list[tuple[int, bytes]]:
        wires = [await connect(server.url) for _ in range(50)]
        answers = await asyncio.gather(*(wire.ask(post(f"{PATH}/decisions", body)) for wire in wires))
        for wire in wires:
            wire.close()
        return answers

    answers = asyncio.run(send_all())
    assert {status for status, _ in answers} == {200, 503}
    codes = {json.loads(content)["error"]["code"] for status, content in answers if status == 503}
    assert codes == {"overloaded"}
    _assert_serving(server)
    decisions = server.client.get(PATH).data["counts"]["decisions"]
    assert decisions == 2 + [status for status, _ in answers].count(200)
