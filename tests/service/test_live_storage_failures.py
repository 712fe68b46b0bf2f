"""Database failures under load: clear errors, no acknowledged event lost, and full recovery."""

import asyncio
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from benchmarks.outage import outage
from benchmarks.service import postgres
from benchmarks.service.audit import audit, replay
from benchmarks.service.server import Server
from benchmarks.service.traffic import EXPERIMENT, Ledger, Traffic, retry_unanswered
from tests.service.conftest import Serve

pytestmark = pytest.mark.live

PATH = "/v1/experiments/e"
RECOVERY_SECONDS = 30.0
"""Time within which the service must recover once its storage is back."""


def _start_traffic(server: Server) -> Ledger:
    assert server.client.put(PATH, {**EXPERIMENT, "policy": "linucb"}).status == 201
    ledger = Ledger()
    _send_traffic(server, ledger)
    assert ledger.decisions
    assert ledger.rewards
    assert not ledger.refused
    return ledger


def _send_traffic(server: Server, ledger: Ledger, seconds: float = 0.7) -> None:
    traffic = Traffic("e", ledger, seed=len(ledger.decisions))
    asyncio.run(traffic.run(server.url, 4, seconds))


def _assert_unavailable(server: Server, ledger: Ledger) -> None:
    """Requests get status 503 with a reason and ``Retry-After``."""
    _send_traffic(server, ledger, 1.5)
    assert set(ledger.refused) == {503}
    answer = server.client.post(f"{PATH}/decisions", {"context": {"age": 31}})
    assert (answer.status, answer.code) == (503, "storage_unavailable")
    assert int(answer.headers["retry-after"]) >= 1
    assert server.client.get("/healthz").status == 200
    assert server.client.get("/readyz").status == 503


def _assert_recovered(server: Server, ledger: Ledger) -> None:
    deadline = time.monotonic() + RECOVERY_SECONDS
    while server.client.get("/readyz").status != 200:
        assert time.monotonic() < deadline, server.output()
        time.sleep(0.05)
    retry_unanswered(server.client, ledger)
    before, ledger.refused = len(ledger.decisions), {}
    _send_traffic(server, ledger)
    assert not ledger.refused
    assert len(ledger.decisions) > before
    audit(ledger, server.client.events("e"))
    server.kill()
    server.start()
    audit(ledger, server.client.events("e"))
    replay(server.store)


def test_a_file_size_limit(serve: Serve) -> None:
    """It applies to the log as well."""
    server = serve()
    ledger = _start_traffic(server)
    limit = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (1, limit[1]))
    _assert_unavailable(server, ledger)
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, limit)
    _assert_recovered(server, ledger)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of a few megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk(serve: Serve, small_disk: Path) -> None:
    server = serve(store=("--data", str(small_disk / "glcb.db")))
    ledger = _start_traffic(server)
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    assert shutil.disk_usage(small_disk).free == 0
    # SQLite can reuse free pages, so a few commits may still succeed.
    while not ledger.refused:
        _send_traffic(server, ledger)
    assert set(ledger.refused) == {503}
    assert server.client.get("/healthz").status == 200
    filler.unlink()
    _assert_recovered(server, ledger)


@pytest.mark.postgres
@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_the_database_is_down_temporarily(serve: Serve, cluster: postgres.Cluster, mode: str) -> None:
    server = serve(store=("--database", cluster.url))
    ledger = _start_traffic(server)
    cluster.stop(mode)
    _assert_unavailable(server, ledger)
    cluster.start()
    _assert_recovered(server, ledger)


@pytest.mark.postgres
def test_the_database_goes_down_under_load(serve: Serve, cluster: postgres.Cluster) -> None:
    result = outage(serve(store=("--database", cluster.url)), cluster, seconds=1.0)
    assert result.refused > 0
    assert result.slowest < 10


def _processes(cluster: postgres.Cluster) -> list[int]:
    """Return the processes of a cluster."""
    children = Path(f"/proc/{cluster.pid}/task/{cluster.pid}/children").read_text().split()
    return [cluster.pid, *map(int, children)]


@pytest.mark.postgres
def test_the_database_hangs_temporarily(serve: Serve, cluster: postgres.Cluster) -> None:
    server = serve("--set", "storage_seconds=1", store=("--database", cluster.url))
    ledger = _start_traffic(server)
    stopped = _processes(cluster)
    for process in stopped:
        os.kill(process, signal.SIGSTOP)
    try:
        started = time.monotonic()
        _assert_unavailable(server, ledger)
        assert time.monotonic() - started < 10
    finally:
        for process in stopped:
            os.kill(process, signal.SIGCONT)
    _assert_recovered(server, ledger)


def test_another_process_locks_the_database_temporarily(serve: Serve, tmp_path: Path) -> None:
    server = serve("--set", "storage_seconds=1")
    ledger = _start_traffic(server)
    with closing(sqlite3.connect(tmp_path / "glcb.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        _assert_unavailable(server, ledger)
        other.rollback()
    _assert_recovered(server, ledger)
