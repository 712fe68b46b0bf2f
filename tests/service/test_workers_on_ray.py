"""Ray starts workers on the nodes of a cluster, and starts them again."""

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from benchmarks.service import postgres
from benchmarks.service.client import Client
from benchmarks.service.server import Server
from glcb import _ray
from glcb.cli import app

DATABASE = ("--database", "postgresql://nobody@127.0.0.1:9/none")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--workers", "2"], "several workers need PostgreSQL"),
        (["--executor", "ray"], "several workers need PostgreSQL"),
        (["--set", "inner_address=127.0.0.1"], "several workers need PostgreSQL"),
        (["--workers", "2", *DATABASE, "--set", "high_water_file=m"], "have no high_water_file"),
    ],
)
def test_settings_that_workers_cannot_have_are_rejected(
    flags: list[str], message: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = CliRunner().invoke(app, ["serve", "--port", "0", *flags])
    assert message in str(ran.exception)
    assert list(tmp_path.iterdir()) == []


def test_a_cluster_needs_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ray, "find_spec", lambda _: None)
    ran = CliRunner().invoke(app, ["serve", "--executor", "ray", *DATABASE])
    assert "the executor ray needs Ray: pip install" in str(ran.exception)


@pytest.fixture
def nodes() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_prestart_worker_first_driver", "0")  # these workers would not be used
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": 80_000_000}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        for _ in range(2):
            cluster.add_node(num_cpus=1, object_store_memory=80_000_000)
        yield cluster
        cluster.shutdown()


# Ray starts processes by forking, and other tests may have imported JAX, which warns of that.
@pytest.mark.live
@pytest.mark.postgres
@pytest.mark.ray
@pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning")
def test_every_node_has_workers_and_lost_ones_are_replaced(nodes: Any, cluster: postgres.Cluster) -> None:
    flags = ("--executor", "ray", "--address", str(nodes.address), "--workers", "1")
    server = Server(["--database", cluster.url], *flags, "--set", "advertise=http://127.0.0.1")
    try:
        server.start(seconds=180)
        first = await_workers(server, 2)
        assert server.client.put("/v1/experiments/home", {"arms": ["a", "b"]}).status == 201
        victim = first[0]["process"]
        os.kill(victim, signal.SIGKILL)  # its parent or Ray starts it again
        second = await_workers(server, 2, without=victim)
        survivors = [Client(one["url"], timeout=5) for one in second]
        nodes.remove_node(next(iter(nodes.worker_nodes)), allow_graceful=False)
        await_answer(survivors)
        server.kill()  # the workers go on, and another process takes its place
        nodes.add_node(num_cpus=1, object_store_memory=80_000_000)
        server.start(seconds=180)
        await_workers(server, 2)
        await_answer(served(server))
        assert server.stop(90) == 0, server.output()[-3000:]
        assert not any(answers(client) for client in survivors)
    finally:
        server.close()


def answers(client: Client) -> bool:
    """Return whether a worker answers for the experiment."""
    try:
        return client.get("/v1/experiments/home").status == 200
    except OSError:
        return False


def await_answer(clients: list[Client]) -> None:
    deadline = time.monotonic() + 60
    while not any(answers(client) for client in clients):
        assert time.monotonic() < deadline
        time.sleep(0.1)


def served(server: Server) -> list[Client]:
    """Return clients of all nodes, also of those that were lost."""
    return [Client(url, timeout=5) for url in re.findall(r"serving on (\S+)", server.output())]


def await_workers(server: Server, count: int, without: int | None = None) -> list[dict[str, Any]]:
    deadline = time.monotonic() + 90
    while True:
        found: list[dict[str, Any]] = []
        for client in served(server):
            with contextlib.suppress(OSError):
                found = found or client.get("/v1/workers").data["workers"]
        ready = [one for one in found if one["state"] == "ready" and one["partitions"] == 256 // count]
        if len(ready) == len(found) == count and without not in [one["process"] for one in found]:
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
