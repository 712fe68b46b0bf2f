"""Clients that misbehave: a clear answer or a clean close, and full service for the others."""

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

PATH = "/v1/experiments/e"
REWARD_TIMEOUT = 2
"""Seconds after which these servers hang up on a slow or silent client."""
IMPATIENT = ("--set", f"request_seconds={REWARD_TIMEOUT}", "--set", f"idle_seconds={REWARD_TIMEOUT}")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(["--data", str(tmp_path_factory.mktemp("data") / "glcb.db")], *IMPATIENT) as running:
        assert running.client.put(PATH, {"arms": ["a", "b"], "policy": "linucb"}).status == 201
        yield running


def _dial(server: Server) -> socket.socket:
    where = urlsplit(server.url)
    return socket.create_connection((where.hostname or "", where.port or 0), timeout=30)


def _all(line: socket.socket) -> bytes:
    """Return all that the server says before it hangs up."""
    said = b""
    while part := line.recv(65_536):
        said += part
    return said


def _serves(server: Server) -> None:
    decision = server.client.post(f"{PATH}/decisions", {"context": {"x": 1}})
    assert decision.status == 200, decision
    reward = server.client.post(f"{PATH}/decisions/{decision.data['id']}/reward", {"value": 1})
    assert reward.status == 200, reward


HEAD = f"POST {PATH}/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    "half",
    [
        "",
        "POST /v1/exp",
        HEAD,
        f"{HEAD}Content-Length: 100\r\n\r\n",
        f'{HEAD}Content-Length: 100\r\n\r\n{{"context": ',
        f'{HEAD}Transfer-Encoding: chunked\r\n\r\n5\r\n{{"con',
    ],
    ids=["nothing", "half a line", "half a head", "no body", "half a body", "half a chunk"],
)
def test_half_a_request_is_hung_up_on(server: Server, half: str) -> None:
    issued = server.client.get(PATH).data["counts"]["decisions"]
    with _dial(server) as line:
        start = time.monotonic()
        line.sendall(half.encode())
        said = _all(line)
        assert time.monotonic() - start < 3 * REWARD_TIMEOUT + 2
        assert said == b"" or said.startswith((b"HTTP/1.1 400", b"HTTP/1.1 408"))
    _serves(server)
    assert server.client.get(PATH).data["counts"]["decisions"] == issued + 1


def test_a_request_that_trickles_in_is_hung_up_on(server: Server) -> None:
    with _dial(server) as line:
        start = time.monotonic()
        line.sendall(f"{HEAD}Content-Length: 100000\r\n\r\n".encode())
        with suppress(ConnectionError):
            while time.monotonic() - start < 10 * REWARD_TIMEOUT:
                line.sendall(b" ")
                time.sleep(0.1)
        assert time.monotonic() - start < 3 * REWARD_TIMEOUT + 2
    _serves(server)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", f"{PATH}/decisions"),
        ("POST", f"{PATH}/decisions/batch"),
        ("POST", f"{PATH}/decisions/0-00000000/reward"),
        ("POST", f"{PATH}/rewards"),
        ("POST", f"{PATH}/explain"),
        ("POST", f"{PATH}/arms"),
        ("PUT", "/v1/experiments/f"),
        ("PATCH", PATH),
    ],
)
@pytest.mark.parametrize("chunked", [False, True], ids=["announced", "chunked"])
def test_ten_megabytes_are_refused(server: Server, method: str, path: str, chunked: bool) -> None:
    start = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    pieces = [b'{"context": {"x": "'] + [b"x" * 65_536] * 160 + [b'"}}']
    with _dial(server) as line:
        if chunked:
            line.sendall(f"{start}Transfer-Encoding: chunked\r\n\r\n".encode())
            for piece in pieces:
                line.sendall(b"%x\r\n%b\r\n" % (len(piece), piece))
            line.sendall(b"0\r\n\r\n")
        else:
            line.sendall(f"{start}Content-Length: {sum(map(len, pieces))}\r\n\r\n".encode())
            for piece in pieces:
                line.sendall(piece)
        said = _all(line)
    assert said.startswith(b"HTTP/1.1 413"), said
    assert json.loads(said.partition(b"\r\n\r\n")[2])["error"]["code"] == "too_large"
    _serves(server)


def test_who_asks_first_is_told_before_sending_too_much(server: Server) -> None:
    with _dial(server) as line:
        line.sendall(f"{HEAD}Expect: 100-continue\r\nContent-Length: {10 * 2**20}\r\n\r\n".encode())
        assert _all(line).startswith(b"HTTP/1.1 413")
    _serves(server)


@pytest.mark.parametrize(
    "noise",
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
        "minus",
        "two lengths",
        "length and chunks",
        "huge chunk",
    ],
)
def test_noise_is_answered_with_4xx_or_hung_up_on(server: Server, noise: bytes) -> None:
    with _dial(server) as line:
        try:
            line.sendall(noise)
            said = line.recv(65_536)
        except OSError:
            said = b""
        assert said == b"" or said.startswith(b"HTTP/1.1 4"), said
    _serves(server)


def test_thousands_of_connections_left_open_do_not_stop_service(server: Server) -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(5000, soft - 200)
    lines: list[socket.socket] = []
    try:
        for _ in range(count):
            lines.append(_dial(server))
        _serves(server)
        _hung_up_on(lines)
    finally:
        for line in lines:
            line.close()
    _serves(server)


def _hung_up_on(lines: list[socket.socket]) -> None:
    """Wait until the server has closed all of them."""
    deadline = time.monotonic() + 5 * REWARD_TIMEOUT + 10
    for line in lines:
        line.settimeout(max(0.1, deadline - time.monotonic()))
        with suppress(ConnectionResetError):
            assert line.recv(1) == b""


def test_more_connections_than_the_server_may_open(serve: Serve) -> None:
    server = serve(*IMPATIENT, before=["sh", "-c", 'ulimit -n 128; exec "$@"', "sh"])
    assert server.client.put(PATH, {"arms": ["a", "b"], "policy": "linucb"}).status == 201
    lines = [_dial(server) for _ in range(600)]
    try:
        time.sleep(1)
        # Those who wait come in as soon as the silent ones are hung up on.
        _serves(server)
    finally:
        for line in lines:
            line.close()
    _serves(server)
    assert server.ended() is None
    assert len(server.said()) < 1_000_000, "it complains without end"


def test_more_requests_than_it_can_deal_with_are_refused_at_once(serve: Serve) -> None:
    server = serve("--set", "max_requests=2")
    assert server.client.put(PATH, {"arms": ["a", "b"], "policy": "linucb"}).status == 201
    _serves(server)
    body = b'{"context": {"x": 1}}'

    async def all_at_once() -> list[tuple[int, bytes]]:
        wires = [await connect(server.url) for _ in range(50)]
        answers = await asyncio.gather(*(wire.ask(post(f"{PATH}/decisions", body)) for wire in wires))
        for wire in wires:
            wire.close()
        return answers

    answers = asyncio.run(all_at_once())
    assert {status for status, _ in answers} == {200, 503}
    codes = {json.loads(content)["error"]["code"] for status, content in answers if status == 503}
    assert codes == {"overloaded"}
    _serves(server)
    issued = server.client.get(PATH).data["counts"]["decisions"]
    assert issued == 2 + [status for status, _ in answers].count(200)
