"""Shards on a Ray cluster lose nothing when they are killed, and refuse nothing when they are restarted.

``make soak`` does this a hundred times. A shard also moves here, to the node that replaces the killed one.
"""

import pytest

from benchmarks.service import postgres
from benchmarks.shards import ShardTest

# Ray starts processes by forking, and other tests may have imported JAX, which warns of that.
pytestmark = [
    *(pytest.mark.live, pytest.mark.postgres, pytest.mark.ray),
    pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning"),
]


def test_no_acknowledged_event_is_lost_when_shards_and_nodes_die_or_are_restarted(
    cluster: postgres.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_prestart_worker_first_driver", "0")  # these workers would not be used
    test = ShardTest(cluster.url, seed=10_000, shards=2, pause=0.01)
    try:
        tally = test.run(["kill process", "kill node", "stop process", "restart"])
    finally:
        test.close()
    assert len(tally.ways) == 4
    assert len(tally.pauses["restart"]) == 2
    assert tally.decisions > 100
    assert tally.rewards > 50
