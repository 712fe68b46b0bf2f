"""``glcb shards`` against a service that answers as the test wants."""

from collections.abc import Callable
from typing import Any

import httpx
import msgspec
import pytest
from typer.testing import CliRunner

from glcb._api.shards import NodeInfo, ShardInfo, ShardList
from glcb.cli import app, shards
from glcb.client import Client

A, B = "a" * 56, "b" * 56


def listed(*places: tuple[str | None, int], draining: bool = False, wanted: int = 0) -> ShardList:
    """Return shards with a node and a generation each; those without a node are away."""
    infos = tuple(
        ShardInfo(
            number=number,
            state="away" if node is None else "ready",
            node=node,
            process=100 + number,
            experiments=3,
            loaded=2,
            trouble=None,
            generation=generation,
            wanted=wanted,
            silent=0.1,
        )
        for number, (node, generation) in enumerate(places)
    )
    counts = [sum(node == one for node, _ in places) for one in (A, B)]
    nodes = tuple(
        NodeInfo(id=one, address="10.0.0.1", host=f"host-{one[0]}", cpus=4.0, draining=draining, shards=count)
        for one, count in zip((A, B), counts, strict=True)
    )
    return ShardList(infos, nodes)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run a command while ``GET /v1/shards`` returns these lists, and the last one again."""

    def start(lists: list[ShardList], *arguments: str) -> Any:
        requests: list[tuple[str, bytes]] = []
        remaining = list(lists)

        def respond(request: httpx.Request) -> httpx.Response:
            requests.append((f"{request.method} {request.url.path}", request.content))
            assert request.headers["authorization"] == "Bearer secret"
            if request.method == "PATCH":
                return httpx.Response(200, content=msgspec.json.encode(lists[0].nodes[0]))
            found = remaining.pop(0) if len(remaining) > 1 else remaining[0]
            return httpx.Response(
                202 if request.method == "POST" else 200, content=msgspec.json.encode(found)
            )

        def client(url: str, api_key: str | None) -> Client:
            return Client(url, api_key, retry_for=0, transport=httpx.MockTransport(respond))

        monkeypatch.setattr(shards, "_client", client)
        monkeypatch.setattr(shards, "_POLL_SECONDS", 0.0)
        ran = CliRunner().invoke(app, ["shards", *arguments, "--api-key", "secret"])
        return ran, requests

    return start


def test_shards_and_nodes_are_listed(run: Callable[..., Any]) -> None:
    ran, _ = run([listed((A, 1), (B, 1), draining=True)], "list")
    assert "shard 0  ready  host-a aaaaaaaa  process 100  experiments: 3, 2 loaded" in ran.output
    assert "node bbbbbbbb  host-b  10.0.0.1  4 CPUs  shards: 1  draining" in ran.output


def test_a_service_without_shards_is_listed(run: Callable[..., Any]) -> None:
    ran, _ = run([ShardList()], "list")
    assert ran.output == "this service is one process without shards\n"


def test_drain_waits_until_the_node_is_empty(run: Callable[..., Any]) -> None:
    ran, requests = run(
        [
            listed((A, 1), (A, 1)),
            listed((A, 1), (B, 2)),
            listed((None, 0), (B, 2)),  # it may come back to the node
            listed((B, 2), (B, 2)),
        ],
        "drain",
        "host-a",
    )
    assert ran.output == "the node aaaaaaaa has no shards\n"
    assert requests[0] == ("PATCH /v1/nodes/host-a", b'{"draining":true}')
    assert [request for request, _ in requests[1:]] == ["GET /v1/shards"] * 4


def test_undrain_changes_the_node_only(run: Callable[..., Any]) -> None:
    _, requests = run([listed((A, 1))], "undrain", "host-a")
    assert requests == [("PATCH /v1/nodes/host-a", b'{"draining":false}')]


def test_restart_waits_until_every_shard_has_a_new_process(run: Callable[..., Any]) -> None:
    lists = [
        listed((A, 2), (None, 0), wanted=3),  # one is away, and comes back as it was
        listed((A, 2), (B, 2)),
        listed((A, 3), (B, 2)),
        listed((A, 3), (B, 3)),
    ]
    ran, requests = run(lists, "restart")
    assert ran.output == "all shards have been restarted\n"
    assert [request for request, _ in requests] == ["POST /v1/shards/restart", *["GET /v1/shards"] * 3]


def test_a_wait_ends_after_the_timeout(run: Callable[..., Any]) -> None:
    ran, _ = run([listed((A, 1))], "drain", "host-a", "--timeout", "0.01")
    assert ran.exit_code == 1
    assert "not all shards answer on other nodes than aaaaaaaa after 0.01 seconds" in str(ran.exception)
    ran, requests = run([listed((A, 1))], "drain", "host-a", "--timeout", "0")
    assert ran.exit_code == 0
    assert len(requests) == 1
