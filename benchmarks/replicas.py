"""CPU time per decision with replicas: what a shard saves, and what everything costs together.

First, an experiment alone makes decisions with and without scores, in alternation, and its model is copied
and loaded. Then, with ``--seconds``, a service gets requests for one hot experiment, from connections that
request a decision and send its reward, one after the other, without and with replicas, on one PostgreSQL.
Client, front end, shards, replicas and database share this machine, so only CPU times are compared.
"""

import argparse
import asyncio
import json
import os
import pickle
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.service import postgres
from benchmarks.service.server import Server, serving
from benchmarks.service.wire import Wire, connect, post
from benchmarks.shard_load import _alone
from glcb._api.requests import DecisionRequest, ExperimentSettings, RewardItem, encode
from glcb.service.core.experiment import Experiment, new_creation
from glcb.service.core.scoring import ModelScorer, model_of, without_old_scores
from glcb.service.shards.messages import Item

CONNECTIONS = 16
WARM_UP = 5.0
PAIRS = 300
SIZES = ("3,20", "50,100", "200,100")
"""Arms and features."""
REPLICAS = (0, 1, 2)


class Result(NamedTuple):
    """The result of one configuration. CPU times are in ms per pair."""

    arms: int
    features: int
    replicas: int
    pairs_per_s: float
    scored: float
    """Share of the decisions with scores from a replica."""
    lag: float
    """Events that the models of the replicas did not reflect at the end, on average."""
    shard: float
    replica: float
    """All replicas."""
    front_end: float


class Costs(NamedTuple):
    """CPU times of an experiment without a service."""

    arms: int
    features: int
    decision_us: float
    scored_us: float
    """A decision with scores from a replica."""
    reward_us: float
    replica_us: float
    """What the replica does for a decision."""
    event_bytes: int
    """Size of the request with scores."""
    model_mb: float
    copy_ms: float
    load_ms: float


def measure_alone(arms: int, features: int) -> Costs:
    """Measure an experiment without a service; the first half of the pairs warms up."""
    rng = np.random.default_rng(10_000)
    settings = ExperimentSettings(arms=[f"a{i:03}" for i in range(arms)])
    experiment, _ = Experiment.create(new_creation("hot", settings), 1e9)
    spent: dict[str, list[float]] = defaultdict(list)

    def timed(what: str, function: Callable[..., Any], *arguments: Any) -> Any:
        start = time.thread_time()
        result = function(*arguments)
        spent[what].append(time.thread_time() - start)
        return result

    def decide(content: bytes) -> bytes:
        request = Item("hot", "decide", content).request()
        request = without_old_scores(experiment, request, max_lag=10**6)
        answer = experiment.apply("decide", request, time.time(), encode(request))[1]
        assert isinstance(answer, bytes)
        return answer

    scorer: ModelScorer | None = None
    for step in range(PAIRS):
        context = {f"f{i:02}": float(value) for i, value in enumerate(rng.random(features).round(3))}
        request = DecisionRequest(context=context)
        contents = {"decision": encode(request)}
        if step == PAIRS // 2:
            spent.clear()
            content, buffers = timed("copy", _pickled, experiment)
            scorer = timed("load", ModelScorer, pickle.loads(content, buffers=buffers))
        if scorer is not None:
            contents["scored"] = timed("replica", _scored, scorer, request)
        for what, content in contents.items():
            answer = timed(what, decide, content)
            reward = RewardItem(id=json.loads(answer)["id"], value=int(rng.random() < 0.3))
            timed("reward", experiment.apply, "reward", reward, time.time())
    median = {what: 1e6 * statistics.median(seconds) for what, seconds in spent.items()}
    return Costs(
        arms,
        features,
        median["decision"],
        median["scored"],
        median["reward"],
        median["replica"],
        len(contents["scored"]),
        sum(map(len, buffers)) / 1e6,
        median["copy"] / 1e3,
        median["load"] / 1e3,
    )


def _scored(scorer: ModelScorer, request: DecisionRequest) -> bytes:
    return encode(scorer.scored(request, seed=10_000))


def _pickled(experiment: Experiment) -> tuple[bytes, list[bytes]]:
    """Copy a model as Ray does it: arrays apart from the rest."""
    buffers: list[pickle.PickleBuffer] = []
    model = model_of(experiment, copy=False)
    content = pickle.dumps(model, protocol=5, buffer_callback=buffers.append)
    return content, [bytes(buffer.raw()) for buffer in buffers]


async def _send_pairs(wire: Wire, path: str, features: int, pairs: list[int]) -> None:
    rng = random.Random(10_000)
    while True:
        context = {f"f{i:02}": round(rng.random(), 3) for i in range(features)}
        status, body = await wire.ask(post(f"{path}/decisions", json.dumps({"context": context}).encode()))
        assert status == 200, body
        reward = post(f"{path}/decisions/{json.loads(body)['id']}/reward", b'{"value":1}')
        status, body = await wire.ask(reward)
        assert status == 200, body
        pairs[0] += 1


async def _load(url: str, path: str, features: int, seconds: float) -> int:
    """Send pairs for some seconds; return their number."""
    pairs = [0]
    wires = await asyncio.gather(*(connect(url) for _ in range(CONNECTIONS)))
    tasks = [asyncio.create_task(_send_pairs(wire, path, features, pairs)) for wire in wires]
    done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    for task in done:
        task.result()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for wire in wires:
        wire.close()
    return pairs[0]


def _samples(server: Server, name: str) -> list[float]:
    """Return the values of a metric."""
    lines = server.client.get("/metrics").content.decode().splitlines()
    return [float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name}{{")]


def measure(server: Server, arms: int, features: int, replicas: int, seconds: float) -> Result:
    """Measure one running server."""
    path = "/v1/experiments/hot"
    made = server.client.put(path, {"arms": [f"a{i:02}" for i in range(arms)], "seed": 10_000})
    assert made.status == 201, made
    asyncio.run(_load(server.url, path, features, WARM_UP))
    processes = server.client.get("/v1/shards").data
    groups = {
        "shard": [one["process"] for one in processes["shards"]],
        "replica": [one["process"] for one in processes["replicas"]],
        "front_end": [server.pid],
    }
    before = {name: sum(map(_alone, group)) for name, group in groups.items()}
    scored_before, start = sum(_samples(server, "glcb_scored_decisions_total")), time.perf_counter()
    pairs = asyncio.run(_load(server.url, path, features, seconds))
    taken = time.perf_counter() - start
    after = {name: sum(map(_alone, group)) for name, group in groups.items()}
    scored = sum(_samples(server, "glcb_scored_decisions_total")) - scored_before
    lags = _samples(server, "glcb_replica_lag_events") or [0.0]
    used = {name: 1e3 * (after[name] - before[name]) / pairs for name in groups}
    return Result(arms, features, replicas, pairs / taken, scored / pairs, sum(lags) / len(lags), **used)


def main() -> None:
    """Measure all configurations, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, help="measure a service, too, for these seconds each time")
    parser.add_argument("--sizes", nargs="+", default=SIZES, help="arms,features")
    chosen = parser.parse_args()
    for size in chosen.sizes:
        _print(measure_alone(*map(int, size.split(","))))
    if chosen.seconds is None:
        return
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_prestart_worker_first_driver="0")
    with postgres.cluster("max_connections = 300") as database:
        for size in chosen.sizes:
            arms, features = map(int, size.split(","))
            for replicas in REPLICAS:
                hot = ["--set", "hot_experiments=hot", "--set", f"replicas={replicas}"] if replicas else []
                with serving(["--database", database.url], "--workers", "2", *hot) as server:
                    result = measure(server, arms, features, replicas, chosen.seconds)
                    gone = server.client.ask("DELETE", "/v1/experiments/hot")
                    assert gone.status == 204, gone
                    server.stop()
                _print(result)


def _print(result: Costs | Result) -> None:
    fields = (f"{name} {value:,.2f}" for name, value in result._asdict().items())
    print("; ".join(fields), flush=True)


if __name__ == "__main__":
    main()
