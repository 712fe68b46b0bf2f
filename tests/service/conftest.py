"""Fixtures that start servers, databases and browsers."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.service import postgres
from benchmarks.service.server import Server, serving
from glcb.service.engine.engine import Engine
from glcb.service.storage import journal
from tests.bench.browser import browser
from tests.support.asgi import Service, running_service
from tests.support.engine_harness import FailingDatabase, running_engine
from tests.support.pages import Open, opening

if TYPE_CHECKING:
    from playwright.sync_api import Browser

Serve = Callable[..., Server]


@pytest.fixture(autouse=True)
def quick_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask a database that has failed every 10 ms whether it is back."""
    monkeypatch.setattr(journal, "_PROBE_SECONDS", 0.01)


def _settings(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Return the service settings of a test, from the marker ``settings``."""
    marker = request.node.get_closest_marker("settings")
    return {} if marker is None else dict(marker.kwargs)


@pytest.fixture
async def service(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Service]:
    """An application with its engine and storage, without a socket; it stops before patches are undone."""
    async with running_service(tmp_path, **_settings(request)) as running:
        yield running


@pytest.fixture
def database(tmp_path: Path) -> FailingDatabase:
    """The database of ``engine``, which can reject events."""
    return FailingDatabase(tmp_path)


@pytest.fixture
async def engine(
    request: pytest.FixtureRequest, database: FailingDatabase, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Engine]:
    """An engine without HTTP; it stops before patches are undone."""
    async with running_engine(database, **_settings(request)) as running:
        yield running


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
