"""Benchmark runs on a Ray cluster."""

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import CliRunner

from glcb import DataError, InvalidSettings, MissingExtra
from glcb._ray import connected
from glcb.bench import ray_executor
from glcb.bench.executors import LocalExecutor, make_executor
from glcb.bench.plan import run_missing
from glcb.bench.results import Results
from glcb.bench.run import Failure, Run, RunRecord, execute
from glcb.cli import app

TIMES = {"decide_us", "learn_us", "cpu_us", "seconds"}
RUNS = [Run("wheel", policy, seed, 200) for policy in ("uniform", "linucb") for seed in range(4)]


def without_times(records: Sequence[RunRecord]) -> dict[str, dict[str, object]]:
    return {
        record.key: {name: value for name, value in asdict(record).items() if name not in TIMES}
        for record in records
    }


class TwoNodes(NamedTuple):
    """A cluster on this machine: a head without cores, and two nodes with one core each."""

    cluster: Any
    first: Any
    second: Any


@pytest.fixture(scope="module")
def nodes() -> Iterator[TwoNodes]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_prestart_worker_first_driver", "0")  # these workers would not be used
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 0, "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        yield TwoNodes(cluster, cluster.add_node(num_cpus=1), cluster.add_node(num_cpus=1))
        cluster.shutdown()


@pytest.fixture(scope="module")
def connection(nodes: TwoNodes) -> Iterator[None]:
    """Connect once: every new connection starts new processes."""
    with connected(nodes.cluster.address):
        yield


# Ray starts processes by forking, and other tests may have imported JAX, which warns of that.
pytestmark = [pytest.mark.live, pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning")]


@pytest.mark.ray
def test_an_address_without_a_cluster_is_refused() -> None:
    with pytest.raises(InvalidSettings, match=r"cannot connect to Ray at 127\.0\.0\.1:1 .*ray start --head"):
        next(iter(make_executor("ray", address="127.0.0.1:1").run(RUNS)))


@pytest.mark.ray
def test_a_node_without_the_data_is_named_before_anything_runs(
    connection: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = make_executor("ray")
    monkeypatch.setattr(ray_executor, "_has_data", lambda name: True)  # here, but not in the workers
    monkeypatch.setitem(executor._environment, "GLCB_DATA_DIR", str(tmp_path))  # type: ignore[attr-defined]
    with pytest.raises(DataError, match=r"node .* has no data for adult in .*: share this folder"):
        next(iter(executor.run([*RUNS, Run("adult", "uniform", 0, 10)])))


@pytest.mark.ray
def test_a_run_that_kills_its_process_fails_and_the_others_continue(
    connection: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(run: Run) -> RunRecord | Failure:
        if run.seed == 3:
            import os

            os._exit(1)
        return execute(run)

    monkeypatch.setattr(ray_executor, "execute", die)
    monkeypatch.setattr("glcb._ray.MAX_LOSSES", 2)
    outcomes = list(make_executor("ray").run(RUNS[:4]))
    assert sorted(outcome.seed for outcome in outcomes) == [0, 1, 2, 3]
    (failure,) = (outcome for outcome in outcomes if isinstance(outcome, Failure))
    assert failure.seed == 3
    assert "died 2 times" in failure.error


@pytest.mark.ray
def test_runs_of_a_dead_node_are_repeated_and_recorded_once_as_by_the_local_executor(
    nodes: TwoNodes, connection: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It kills a node, so it must be the last test with the cluster."""
    victim, started = nodes.second.node_id, tmp_path / "started"

    def hang_on_the_victim(run: Run) -> RunRecord | Failure:
        import ray

        if ray.get_runtime_context().get_node_id() == victim:
            started.touch()
            time.sleep(60)
        return execute(run)

    def kill() -> None:
        while not started.exists():
            time.sleep(0.05)
        nodes.cluster.remove_node(nodes.second, allow_graceful=False)

    monkeypatch.setattr(ray_executor, "execute", hang_on_the_victim)
    killer = threading.Thread(target=kill)
    killer.start()
    executor = make_executor("ray")
    progress = [done for done, _, _ in run_missing(RUNS, tmp_path / "ray", executor)]
    killer.join()
    assert progress == list(range(len(RUNS) + 1))
    records = Results(tmp_path / "ray").records
    assert len(records) == len(RUNS)
    local = [outcome for outcome in LocalExecutor(1).run(RUNS) if isinstance(outcome, RunRecord)]
    assert without_times(records) == without_times(local)
    assert list(run_missing(RUNS, tmp_path / "ray", executor)) == [(len(RUNS), len(RUNS), None)]


def test_without_ray_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("glcb._ray.find_spec", lambda package: None)
    result = CliRunner().invoke(app, ["bench", "--executor", "ray", "--out", str(tmp_path / "out")])
    assert isinstance(result.exception, MissingExtra)
    assert "'.[ray]'" in str(result.exception)
    assert not (tmp_path / "out").exists()


def test_the_local_executor_has_no_address() -> None:
    with pytest.raises(InvalidSettings, match="'local' has no address: pass --executor ray as well"):
        make_executor("local", address="127.0.0.1:6379")
