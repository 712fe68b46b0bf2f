"""A service per module and an experiment per test."""

from collections.abc import Iterator

import pytest

from benchmarks.service.server import Server, serving
from glcb.client import Client, Experiment

ARMS = ["sports", "news", "a/b ü.%41"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(["--data", str(tmp_path_factory.mktemp("client") / "glcb.db")]) as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server.url) as open_client:
        yield open_client


@pytest.fixture
def experiment(client: Client, request: pytest.FixtureRequest) -> Experiment:
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name.lower())[-60:]
    return client.create(name, ARMS, policy="linucb", seed=3)
