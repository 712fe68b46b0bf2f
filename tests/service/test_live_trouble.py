"""The storage fails while visitors come: clear answers, nothing acknowledged is lost, service afterwards."""

import asyncio
import os
import resource
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks.outage import outage
from benchmarks.service import postgres
from benchmarks.service.audit import audit, replay
from benchmarks.service.server import Server
from benchmarks.service.traffic import EXPERIMENT, Ledger, Traffic, ask_again
from tests.service.conftest import Serve

PATH = "/v1/experiments/e"
SOON = 30.0
"""Seconds within which the service must be back once its storage is."""


def _begin(server: Server) -> Ledger:
    assert server.client.put(PATH, {**EXPERIMENT, "policy": "linucb"}).status == 201
    ledger = Ledger()
    _visit(server, ledger)
    assert ledger.decisions
    assert ledger.rewards
    assert not ledger.refused
    return ledger


def _visit(server: Server, ledger: Ledger, seconds: float = 0.7) -> None:
    traffic = Traffic("e", ledger, seed=len(ledger.decisions))
    asyncio.run(traffic.run(server.url, 4, seconds))


def _refused_clearly(server: Server, ledger: Ledger) -> None:
    """Visitors come while the storage is gone: refused, with a reason and the advice to come again."""
    _visit(server, ledger, 1.5)
    assert set(ledger.refused) == {503}
    answer = server.client.post(f"{PATH}/decisions", {"context": {"age": 31}})
    assert (answer.status, answer.code) == (503, "storage_unavailable")
    assert int(answer.headers["retry-after"]) >= 1
    assert server.client.get("/healthz").status == 200
    assert server.client.get("/readyz").status == 503


def _full_service_again(server: Server, ledger: Ledger) -> None:
    deadline = time.monotonic() + SOON
    while server.client.get("/readyz").status != 200:
        assert time.monotonic() < deadline, server.said()
        time.sleep(0.05)
    ask_again(server.client, ledger)
    known, ledger.refused = len(ledger.decisions), {}
    _visit(server, ledger)
    assert not ledger.refused
    assert len(ledger.decisions) > known
    audit(ledger, server.client.events("e"))
    server.kill()
    server.start()
    audit(ledger, server.client.events("e"))
    replay(server.store)


def test_no_file_can_be_written(serve: Serve) -> None:
    """Not the log either."""
    server = serve()
    ledger = _begin(server)
    limit = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (1, limit[1]))
    _refused_clearly(server, ledger)
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, limit)
    _full_service_again(server, ledger)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of a few megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("may not mount a small disk here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_the_disk_is_full(serve: Serve, small_disk: Path) -> None:
    server = serve(store=("--data", str(small_disk / "glcb.db")))
    ledger = _begin(server)
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    assert shutil.disk_usage(small_disk).free == 0
    # What was written before can be written again in its place: some may still be kept, now and then.
    while not ledger.refused:
        _visit(server, ledger)
    assert set(ledger.refused) == {503}
    assert server.client.get("/healthz").status == 200
    filler.unlink()
    _full_service_again(server, ledger)


@pytest.mark.postgres
@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_the_database_is_gone_for_a_while(serve: Serve, cluster: postgres.Cluster, mode: str) -> None:
    server = serve(store=("--database", cluster.url))
    ledger = _begin(server)
    cluster.stop(mode)
    _refused_clearly(server, ledger)
    cluster.start()
    _full_service_again(server, ledger)


@pytest.mark.postgres
def test_the_database_goes_while_visitors_come(serve: Serve, cluster: postgres.Cluster) -> None:
    found = outage(serve(store=("--database", cluster.url)), cluster, seconds=1.0)
    assert found.refused > 0
    assert found.slowest < 10
