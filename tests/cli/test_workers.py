"""``glcb workers`` against a service that answers as the test wants."""

from collections.abc import Callable
from typing import Any

import httpx
import msgspec
import pytest
from typer.testing import CliRunner

from glcb._api.workers import WorkerInfo, WorkerList
from glcb.cli import app, workers
from glcb.client import Client


def listed(*partitions: int, **changes: Any) -> WorkerList:
    """Return workers with so many partitions each; the last one has other values."""
    infos = [
        WorkerInfo(
            name=f"w-{number}",
            state="ready",
            host="machine",
            process=100 + number,
            partitions=count,
            experiments=3,
            loaded=2,
            trouble=None,
            draining=False,
            restarting=False,
        )
        for number, count in enumerate(partitions)
    ]
    infos[-1] = msgspec.structs.replace(infos[-1], **changes)
    return WorkerList(tuple(infos), pins={"7": "w-1"} if changes else {})


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run a command while the service returns these lists, and the last one again."""

    def start(lists: list[WorkerList], *arguments: str) -> Any:
        requests: list[tuple[str, bytes]] = []
        remaining = list(lists)

        def respond(request: httpx.Request) -> httpx.Response:
            requests.append((f"{request.method} {request.url.path}", request.content))
            assert request.headers["authorization"] == "Bearer secret"
            found = remaining.pop(0) if len(remaining) > 1 else remaining[0]
            return httpx.Response(200, content=msgspec.json.encode(found))

        def client(url: str, api_key: str | None) -> Client:
            return Client(url, api_key, retry_for=0, transport=httpx.MockTransport(respond))

        monkeypatch.setattr(workers, "_client", client)
        monkeypatch.setattr(workers, "_POLL_SECONDS", 0.0)
        ran = CliRunner().invoke(app, ["workers", *arguments, "--api-key", "secret"])
        return ran, requests

    return start


def test_workers_are_listed(run: Callable[..., Any]) -> None:
    ran, _ = run([listed(128, 128, state="away", draining=True, trouble="the disk is full")], "list")
    assert ran.output == (
        "w-0  ready  machine  process 100  partitions: 128  experiments: 3, 2 loaded\n"
        "w-1  away  machine  process 101  partitions: 128  experiments: 3, 2 loaded  draining  "
        "the disk is full\n"
        "partition 7 was moved to w-1\n"
    )


def test_a_service_that_is_one_process_is_listed(run: Callable[..., Any]) -> None:
    ran, _ = run([WorkerList()], "list")
    assert ran.output == "this service is one process\n"


def test_move_names_the_experiment_and_the_worker_or_none(run: Callable[..., Any]) -> None:
    _, requests = run([listed(256)], "move", "home", "w-1")
    assert requests == [("POST /v1/workers/move", b'{"experiment":"home","worker":"w-1"}')]
    _, requests = run([listed(256)], "move", "home")
    assert requests == [("POST /v1/workers/move", b'{"experiment":"home","worker":null}')]


def test_drain_waits_until_the_worker_has_nothing(run: Callable[..., Any]) -> None:
    lists = [listed(128, 128), listed(200, 56), listed(256, 0)]
    ran, requests = run([lists[0], *lists], "drain", "w-1")
    assert ran.output == "w-1 has no experiments\n"
    assert requests[0] == ("PATCH /v1/workers/w-1", b'{"draining":true}')
    assert [request for request, _ in requests[1:]] == ["GET /v1/workers"] * 3


def test_undrain_changes_the_worker_only(run: Callable[..., Any]) -> None:
    _, requests = run([listed(256)], "undrain", "w-0")
    assert requests == [("PATCH /v1/workers/w-0", b'{"draining":false}')]


def test_restart_waits_until_all_workers_are_back(run: Callable[..., Any]) -> None:
    lists = [
        listed(128, 128, restarting=True),
        listed(256, restarting=True),
        listed(128, 128, restarting=True),
        listed(128, 128),
    ]
    ran, requests = run(lists, "restart")
    assert ran.output == "all workers have been restarted\n"
    assert [request for request, _ in requests] == ["POST /v1/workers/restart", *["GET /v1/workers"] * 3]


def test_a_wait_ends_after_the_timeout(run: Callable[..., Any]) -> None:
    ran, _ = run([listed(128, 128)], "drain", "w-1", "--timeout", "0.01")
    assert ran.exit_code == 1
    assert "not all experiments have left w-1 after 0.01 seconds" in str(ran.exception)
    ran, requests = run([listed(128, 128)], "drain", "w-1", "--timeout", "0")
    assert ran.exit_code == 0
    assert len(requests) == 1
