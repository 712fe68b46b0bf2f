"""Kills under load lose no acknowledged event. ``make soak`` does this hundreds of times."""

import asyncio
import threading
from pathlib import Path

import pytest

from benchmarks import starts
from benchmarks.crash_test import CrashTest
from benchmarks.service import postgres
from benchmarks.service.audit import audit
from benchmarks.service.traffic import EXPERIMENT, Ledger, Traffic, retry_unanswered
from tests.service.conftest import Serve

pytestmark = pytest.mark.live


def _kill_repeatedly(store: list[str], kills: int) -> None:
    campaign = CrashTest(store, seed=10_000)
    try:
        tally = campaign.run(kills)
    finally:
        campaign.close()
    assert tally.kills == kills
    assert tally.decisions > 10 * kills
    assert tally.rewards > 5 * kills


def test_no_acknowledged_event_is_lost_on_sqlite(tmp_path: Path) -> None:
    _kill_repeatedly(["--data", str(tmp_path / "glcb.db")], 3)


@pytest.mark.postgres
def test_no_acknowledged_event_is_lost_on_postgresql(cluster: postgres.Cluster) -> None:
    _kill_repeatedly(["--database", cluster.url], 2)


def test_a_shutdown_under_load_completes_the_requests_in_flight(serve: Serve) -> None:
    server = serve()
    assert server.client.put("/v1/experiments/e", {**EXPERIMENT, "policy": "linucb"}).status == 201
    ledger, codes = Ledger(), []
    stopper = threading.Timer(0.7, lambda: codes.append(server.stop()))
    stopper.start()
    asyncio.run(Traffic("e", ledger, seed=10_000).run(server.url, 8, 30))
    stopper.join()
    assert codes == [0], server.output()
    assert ledger.decisions
    assert set(ledger.refused) <= {503}
    server.start()
    retry_unanswered(server.client, ledger)
    audit(ledger, server.client.events("e"))


def test_starts_under_load(tmp_path: Path) -> None:
    starts.prepare(tmp_path)
    for _ in range(2):
        code, output = starts.start_under_load(tmp_path)
        assert code is None, output
