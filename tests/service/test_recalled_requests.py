"""Requests with known headers are not parsed again, and are answered like all others."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from glcb.service import auth as keys
from glcb.service.http import fast_path
from glcb.service.http.protocol import Connection
from tests.service.asgi import Service, create_experiment, running_service
from tests.service.test_protocol import Listening, Streams, answer, listening, run_as_served

PATH = "/v1/experiments/home/decisions"
CONTEXT = b'{"context": {"age": 31}}'


def request(
    path: str = PATH, body: bytes = CONTEXT, key: str | None = None, extra: bytes = b"", method: str = "POST"
) -> bytes:
    """Return a request; ``extra`` is a line of its headers."""
    authorization = b"" if key is None else b"Authorization: Bearer %b\r\n" % key.encode()
    lines = b"%b %b HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" % (
        method.encode(),
        path.encode(),
    )
    return lines + authorization + extra + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Collect what is parsed."""
    fed: list[bytes] = []
    feed = Connection._feed

    def collect(self: Connection, data: bytes | memoryview) -> None:
        fed.append(bytes(data))
        feed(self, data)

    monkeypatch.setattr(Connection, "_feed", collect)
    return fed


def in_connection(
    folder: Path,
    scenario: Callable[[Service, Listening, Streams], Awaitable[None]],
    request_seconds: float = 10.0,
) -> None:
    folder.mkdir(exist_ok=True)

    async def run() -> None:
        async with (
            running_service(folder) as own,
            listening(own.app, request_seconds=request_seconds) as server,
        ):
            await create_experiment(own)
            reader, writer = await server.connect()
            try:
                await scenario(own, server, (reader, writer))
            finally:
                writer.close()

    run_as_served(run())


async def ask(streams: Streams, *parts: bytes) -> int:
    """Send a request in parts that arrive one after another; return the status of the response."""
    reader, writer = streams
    for number, part in enumerate(parts):
        if number:
            await asyncio.sleep(0.05)
        writer.write(part)
    return await answer(reader)


def test_only_the_first_request_with_the_same_headers_is_parsed(tmp_path: Path, parsed: list[bytes]) -> None:
    async def scenario(own: Service, server: Listening, streams: Streams) -> None:
        for _ in range(3):
            assert await ask(streams, request()) == 200
        assert parsed == [request()]
        assert own.engine.loaded["home"].experiment.bandit.counts["decisions"] == 3
        other = request(extra=b"X-Request-Id: 1\r\n")
        assert await ask(streams, other) == 200
        assert parsed == [request(), other]

    in_connection(tmp_path, scenario)


def test_a_reward_has_the_headers_of_a_decision_of_the_same_length(
    tmp_path: Path, parsed: list[bytes]
) -> None:
    async def scenario(own: Service, server: Listening, streams: Streams) -> None:
        assert await ask(streams, request()) == 200
        (decision,) = own.engine.loaded["home"].experiment.bandit._core.pending
        value = b'{"value": 1}'.ljust(len(CONTEXT))
        assert await ask(streams, request(f"{PATH}/{decision.id}/reward", value)) == 200
        assert await ask(streams, request(f"{PATH}/{decision.id}/reward", value)) == 409
        assert parsed == [request()]

    in_connection(tmp_path, scenario)


def test_a_body_may_follow_its_headers(tmp_path: Path, parsed: list[bytes]) -> None:
    async def scenario(own: Service, server: Listening, streams: Streams) -> None:
        assert await ask(streams, request()) == 200
        head, end = request()[: -len(CONTEXT)], len(CONTEXT)
        assert await ask(streams, head, CONTEXT) == 200
        assert parsed == [request()]
        assert await ask(streams, head, CONTEXT[:5], CONTEXT[5:]) == 200
        assert parsed[1:] == [head + CONTEXT[:5], CONTEXT[5:]]
        assert await ask(streams, head[:-end], head[-end:], CONTEXT) == 200
        assert await ask(streams, head, CONTEXT + request()) == 200
        assert await answer(streams[0]) == 200

    in_connection(tmp_path, scenario)


def test_a_body_that_never_follows_is_refused(tmp_path: Path) -> None:
    async def scenario(own: Service, server: Listening, streams: Streams) -> None:
        assert await ask(streams, request()) == 200
        assert await ask(streams, request()[: -len(CONTEXT)]) == 408
        assert await asyncio.wait_for(streams[0].read(), 20) == b""

    in_connection(tmp_path, scenario, request_seconds=0.2)


def test_a_client_that_stays_does_not_end_the_timeouts_of_others(tmp_path: Path) -> None:
    async def scenario(own: Service, server: Listening, streams: Streams) -> None:
        assert await ask(streams, request()) == 200
        assert await ask(streams, request()[: -len(CONTEXT)]) == 408
        await asyncio.sleep(1)  # it reads no further, and its deadline passes again
        reader, writer = await server.connect()
        writer.write(b"POST ")
        assert await asyncio.wait_for(reader.read(), 20) == b""
        writer.close()

    in_connection(tmp_path, scenario, request_seconds=0.2)


def test_one_connection_that_cannot_be_expired_does_not_affect_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(own: Service, server: Listening, streams: Streams) -> None:
        streams[1].write(b"POST ")
        assert await asyncio.wait_for(streams[0].read(), 20) == b""
        reader, writer = await server.connect()
        monkeypatch.setattr(Connection, "expire", Connection.abort)
        writer.write(b"POST ")
        assert await asyncio.wait_for(reader.read(), 20) == b""
        writer.close()

    def fail(self: Connection) -> None:
        raise RuntimeError("closed")

    monkeypatch.setattr(Connection, "expire", fail)
    in_connection(tmp_path, scenario, request_seconds=0.2)


def test_a_request_is_completed_during_shutdown(tmp_path: Path) -> None:
    async def scenario(own: Service, server: Listening, streams: Streams) -> None:
        assert await ask(streams, request()) == 200
        streams[1].write(request()[: -len(CONTEXT)])
        (connection,) = server.open
        while not connection._held:
            await asyncio.sleep(0.01)
        connection.shutdown()
        assert await ask(streams, CONTEXT) == 200
        assert await asyncio.wait_for(streams[0].read(), 20) == b""

    in_connection(tmp_path, scenario)


def test_a_removed_key_is_refused(tmp_path: Path, parsed: list[bytes]) -> None:
    async def scenario(own: Service, server: Listening, streams: Streams) -> None:
        secret = keys.add_key(own.storage, "shop", "decide")
        keys.add_key(own.storage, "other", "decide")
        own.authenticator.keyring.refresh()
        for _ in range(2):
            assert await ask(streams, request(key=secret)) == 200
        assert len(parsed) == 1
        keys.remove_key(own.storage, "shop")
        own.authenticator.keyring.refresh()
        assert await ask(streams, request(key=secret)) == 401

    in_connection(tmp_path, scenario)


@pytest.mark.parametrize("breaks", [b"\r\n", b"\r\n\r\n", b"\r\n\r\n\r\n"])
def test_line_breaks_before_a_request_lend_its_key_to_nobody(tmp_path: Path, breaks: bytes) -> None:
    async def scenario(own: Service, server: Listening, streams: Streams) -> None:
        secret = keys.add_key(own.storage, "shop", "decide")
        own.authenticator.keyring.refresh()
        assert await ask(streams, breaks + request(key=secret)) == 200
        line = b"POST %b HTTP/1.1" % PATH.encode()
        for thief in (line + b"\r\n\r\n" + CONTEXT, breaks + line + b"\r\n\r\n" + CONTEXT):
            reader, writer = await server.connect()
            writer.write(thief)
            assert await answer(reader) in (400, 401)
            writer.close()

    in_connection(tmp_path, scenario)


def test_headers_may_be_cut_anywhere(tmp_path: Path) -> None:
    async def scenario(own: Service, server: Listening, streams: Streams) -> None:
        for length in range(len(request()) - len(CONTEXT) - 8, len(request()) - len(CONTEXT) + 2):
            whole = request(body=CONTEXT.ljust(length))
            assert await ask(streams, whole) == 200
            end = whole.index(b"\r\n\r\n")
            for cut in range(end - 2, end + 6):
                assert await ask(streams, whole[:cut], whole[cut:]) == 200, (length, cut)

    in_connection(tmp_path, scenario)


def test_a_key_does_not_reach_other_experiments(tmp_path: Path) -> None:
    async def scenario(own: Service, server: Listening, streams: Streams) -> None:
        secret = keys.add_key(own.storage, "shop", "decide", ["home"])
        own.authenticator.keyring.refresh()
        assert await ask(streams, request(key=secret)) == 200
        assert await ask(streams, request(PATH.replace("home", "shop"), key=secret)) == 404

    in_connection(tmp_path, scenario)


@pytest.mark.parametrize(
    "other",
    [
        request(method="GET"),
        request(f"{PATH}?x=1"),
        request(PATH.replace("home", "h%6Fme")),
        request(f"http://localhost{PATH}"),
        b"\r\n" + request(),
        request().replace(b"HTTP/1.1", b"HTTP/1.0"),
        request().replace(b" HTTP/1.1", b"  HTTP/1.1"),
    ],
)
def test_only_plain_paths_are_recalled(other: bytes) -> None:
    assert fast_path._REQUEST_LINE.fullmatch(request(), 0, request().find(b"\r\n"))
    assert fast_path._REQUEST_LINE.fullmatch(other, 0, other.find(b"\r\n")) is None


def test_headers_are_forgotten_when_there_are_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast_path, "_MAX_REMEMBERED", 3)

    async def scenario(own: Service, server: Listening, streams: Streams) -> None:
        assert own.app._serving is not None
        remembered: list[int] = []
        for number in range(6):
            assert await ask(streams, request(extra=b"X-Number: %d\r\n" % number)) == 200
            remembered.append(len(own.app._serving.fast_path._remembered))
        assert await ask(streams, request(extra=b"X-Long: %b\r\n" % (b"x" * 2_000))) == 200
        assert [*remembered, len(own.app._serving.fast_path._remembered)] == [1, 2, 3, 1, 2, 3, 3]

    in_connection(tmp_path, scenario)


@pytest.mark.parametrize("seed", range(4))
def test_any_sequence_of_requests_is_answered_as_if_all_were_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    rng = random.Random(seed)
    kinds = [
        request(),
        request(body=b'{"context": {"age": 7}} '),
        request(body=b"not JSON".ljust(len(CONTEXT))),
        request(f"{PATH}/none/reward", b'{"value": 1}'.ljust(len(CONTEXT))),
        request("/v1/experiments/none/decisions"),
        request(extra=b"Connection: keep-alive\r\n"),
        request("/v1/experiments/home", body=b"", method="GET"),
    ]
    sent = [rng.choice(kinds) for _ in range(40)]
    stream = b"".join(sent)
    cuts = sorted(rng.sample(range(1, len(stream)), 60))
    parts = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    if seed % 2:  # every request in a part of its own
        parts = sent

    async def scenario(own: Service, server: Listening, streams: Streams) -> None:
        reader, writer = streams

        async def send() -> None:
            for part in parts:
                writer.write(part)
                await asyncio.sleep(0.002)

        sending = asyncio.create_task(send())
        statuses.append([await answer(reader) for _ in sent])
        await sending

    statuses: list[list[int]] = []
    in_connection(tmp_path / "recalled", scenario)
    monkeypatch.setattr(fast_path.FastPath, "recall", lambda self, received: None)
    in_connection(tmp_path / "parsed", scenario)
    assert statuses[0] == statuses[1]
    assert {200, 404} < set(statuses[0])
