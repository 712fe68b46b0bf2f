"""Fixtures that start servers, databases and browsers."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.service import postgres
from benchmarks.service.server import Server, serving
from tests.bench.browser import browser
from tests.support.pages import Open, opening

if TYPE_CHECKING:
    from playwright.sync_api import Browser

Serve = Callable[..., Server]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Return a function that starts servers, which stop after the test and share a SQLite file by default."""
    started: list[Server] = []

    def start(*flags: str, store: tuple[str, ...] = (), **more: object) -> Server:
        server = Server(store or ("--data", str(tmp_path / "glcb.db")), *flags, **more)  # type: ignore[arg-type]
        started.append(server)
        return server.start()

    yield start
    for server in started:
        server.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for all tests of a module."""
    with serving(["--data", str(tmp_path_factory.mktemp("data") / "glcb.db")]) as running:
        yield running


@pytest.fixture
def cluster() -> Iterator[postgres.Cluster]:
    """A PostgreSQL cluster for one test, which may stop and start it."""
    with postgres.cluster() as running:
        yield running


@pytest.fixture(scope="module")
def chrome() -> "Iterator[Browser]":
    """A browser for all tests of a module."""
    with browser() as running:
        yield running


@pytest.fixture
def expected() -> list[str]:
    """Patterns of allowed console messages: the browser logs every rejected request."""
    return []


@pytest.fixture
def opened(chrome: "Browser", expected: list[str]) -> Iterator[Open]:
    """Return a function that opens pages of the dashboard."""
    with opening(chrome, expected) as open_page:
        yield open_page
