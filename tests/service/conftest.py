"""Fixtures that start servers and databases."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.service import postgres
from benchmarks.service.server import Server, serving

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
