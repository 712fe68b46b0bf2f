"""Requests without an API key: reading them takes a time that is proportional to their length."""

import asyncio
import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import strangers
from benchmarks.service.server import Server
from glcb.service.http import people
from glcb.service.http.people import COOKIE, session_token
from tests.service.conftest import Serve
from tests.support.asgi import Service, create_experiment, with_service

TOKEN = "Zm9v-YmFy_1"
CPU_SECONDS = 60
"""Linear work takes a few seconds; quadratic work would take hours."""


@contextlib.contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise AssertionError("the work grows faster than the length of the request")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@pytest.mark.parametrize(
    ("cookies", "token"),
    [
        (f"{COOKIE}={TOKEN}", TOKEN),
        (f"a=b; {COOKIE}={TOKEN}; c=d", TOKEN),
        (f"a=b;{COOKIE}={TOKEN} ", TOKEN),
        (f"other={COOKIE}={TOKEN}", None),
        (f"other{COOKIE}={TOKEN}", None),
        (f"{COOKIE}=", None),
        (f'{COOKIE}="{TOKEN}"', None),
        (f"{COOKIE}={'a' * 65}", None),
        (f"{COOKIE}=a\xe9", None),
        ("", None),
    ],
)
def test_the_session_is_one_cookie_of_letters_and_digits(cookies: str, token: str | None) -> None:
    assert session_token({b"cookie": cookies.encode("latin-1")}) == token


def test_cookies_are_searched_in_linear_time_and_not_all_of_them() -> None:
    with cpu_limit(CPU_SECONDS):
        for text in strangers.FILLINGS.values():
            for start in (b"", f'{COOKIE}="'.encode()):
                assert people._SESSION.search(start + text * 200_000) is None
    session = f"; {COOKIE}={TOKEN}".encode()
    assert session_token({b"cookie": b"a" * 16_000 + session}) == TOKEN
    assert session_token({b"cookie": b"a" * 17_000 + session}) is None


def test_the_time_to_read_a_header_is_proportional_to_its_length(tmp_path: Path) -> None:
    async def scenario(service: Service) -> None:
        await create_experiment(service)
        service.add_key("team", "admin")
        await service.authenticator.keyring.reload()
        for header in strangers.HEADERS:
            for text in strangers.FILLINGS.values():
                value = (text * (250_000 // len(text))).decode("latin-1")
                more = {} if header in ("Host", "Content-Type") else {header.lower(): value}
                answer = await service.ask(
                    "POST",
                    "/v1/experiments/home/decisions",
                    {"context": {}},
                    host=value if header == "Host" else "localhost",
                    media=value if header == "Content-Type" else "application/json",
                    more_headers=more,
                )
                assert answer.status in (401, 403)
                await asyncio.sleep(0)  # let the limit interrupt

    with cpu_limit(CPU_SECONDS):
        with_service(
            tmp_path,
            scenario,
            cors_origins=("https://example.com",),
            user_header="X-User",
            role_header="X-Role",
            trusted_proxies=("127.0.0.1",),
        )


@pytest.mark.live
def test_every_request_of_a_stranger_is_answered(serve: Serve) -> None:
    server: Server = serve(*strangers.FLAGS)
    assert server.command("keys", "add", "team", "--role", "admin").returncode == 0
    assert len(strangers.measure(server, strangers.SIZE, most=200)) >= 200
    assert "Traceback" not in server.output()
