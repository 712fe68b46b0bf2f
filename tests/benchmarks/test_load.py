"""Short runs of the load and endurance benchmarks."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import endurance, load
from benchmarks.service import metrics, postgres

pytestmark = pytest.mark.live


def test_one_second_of_load_on_every_database(tmp_path: Path) -> None:
    load.run(load.Plan(seconds=1.0, connections=4, policy="linucb"), Console(quiet=True), tmp_path)
    rows = json.loads((tmp_path / "load.json").read_text())
    assert [row["store"] for row in rows] == ["SQLite", "PostgreSQL"][: 2 if postgres.binaries() else 1]
    for row in rows:
        assert row["pairs"] == pytest.approx(row["pairs_per_s"] * row["seconds"])
        assert row["pairs"] > 0
        assert 0 < row["decision_p50_ms"] <= row["decision_p99_ms"]
        assert 0 < row["reward_p50_ms"] <= row["reward_p99_ms"]
        assert 0 < row["model_decide_us"] < 1e3 * row["decision_p99_ms"]
        assert 1 <= row["events_per_commit"] <= 4
        assert row["generator_cores"] > 0
        assert row["server_cores"] > 0
    assert all(row["database_cores"] > 0 for row in rows[1:])


def test_memory_and_restart_times_are_measured(tmp_path: Path) -> None:
    memory = endurance.memory(tmp_path, 200, "linucb")
    assert memory["decisions"][-1] == 200
    assert min(memory["bytes"]) > 2**20
    restarts = endurance.restarts(tmp_path, 400, "linucb")
    assert restarts["with_snapshot_s"] > 0
    assert restarts["without_snapshot_s"] > 0


def test_the_mean_of_a_summary_is_computed() -> None:
    samples = {'took_sum{a="b"}': 3.0, 'took_count{a="b"}': 2.0}
    assert metrics.mean(samples, 'took{a="b"}') == 1.5
    assert metrics.difference({"x": 1.0}, {"x": 3.0, "y": 1.0}) == {"x": 2.0, "y": 1.0}
