"""Ray starts workers on the nodes of a cluster, and starts them again."""

import contextlib
import os
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
        first = await_workers(server.client, 2)
        assert server.client.put("/v1/experiments/home", {"arms": ["a", "b"]}).status == 201
        url, victim = next((one["url"], one["process"]) for one in first if one["url"] != server.url)
        os.kill(victim, signal.SIGKILL)  # its parent or Ray starts it again
        second = await_workers(server.client, 2, without=victim)
        kept = next(one for one in second if one["url"] != url)
        client = Client(kept["url"])
        assert client.get("/v1/experiments/home").status == 200
        nodes.remove_node(next(iter(nodes.worker_nodes)), allow_graceful=False)
        nodes.add_node(num_cpus=1, object_store_memory=80_000_000)
        survivors = [Client(one["url"]) for one in second]
        deadline = time.monotonic() + 120
        while True:
            assert time.monotonic() < deadline, server.output()[-3000:]
            with contextlib.suppress(OSError, AssertionError):
                for client in survivors:
                    with contextlib.suppress(OSError):
                        await_workers(client, 2, seconds=1.0)
                        assert client.get("/v1/experiments/home").status == 200
                        assert server.stop(60) == 0
                        return
            time.sleep(0.2)
    finally:
        server.close()


def await_workers(
    client: Client, count: int, without: int | None = None, seconds: float = 90.0
) -> list[dict[str, Any]]:
    deadline = time.monotonic() + seconds
    while True:
        found: list[dict[str, Any]] = client.get("/v1/workers").data["workers"]
        ready = [one for one in found if one["state"] == "ready" and one["partitions"] == 256 // count]
        if len(ready) == len(found) == count and without not in [one["process"] for one in found]:
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
