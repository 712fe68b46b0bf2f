"""Throughput of ``glcb serve`` with several workers, and the time that a call to a shard adds to a decision.

One process, two and four workers are measured one after the other, on one PostgreSQL, with the same load:
eight experiments, and connections that request a decision and send its reward, one after the other. Client,
front end, shards and database share this machine; the CPU time of each shows where the ceiling is. From the
CPU time per pair follows on paper what a cluster could do if nothing else limits it.
"""

import argparse
import asyncio
import json
import os
import resource
import statistics
import time
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.load import ARMS, FEATURES
from benchmarks.service import postgres
from benchmarks.service.server import Server, cpu_seconds, serving
from benchmarks.service.wire import Wire, connect, post

EXPERIMENTS = 8
CONNECTIONS = 32
WARM_UP = 3.0
WORKERS = (1, 2, 4)
NODES, CORES, UTILIZATION = 10, 4, 0.7
"""A cluster on paper."""


class Result(NamedTuple):
    """The result of one configuration. CPU times are in ms per pair."""

    workers: int
    pairs_per_s: float
    alone_p50_ms: float
    """A decision with one connection: the difference to one worker is what a call to a shard adds."""
    alone_p99_ms: float
    generator: float
    generator_share: float
    """Share of all cores that the load generator used, in %."""
    front_end: float
    shards: float
    ray: float
    """All other processes of Ray."""
    database: float
    load_average: float

    @property
    def service(self) -> float:
        """CPU time of front end, shards and Ray."""
        return self.front_end + self.shards + self.ray


async def _send_pairs(wire: Wire, path: str, decisions: list[float]) -> None:
    context = json.dumps({"context": {f"f{i:02}": i / FEATURES for i in range(FEATURES)}}).encode()
    while True:
        start = time.perf_counter()
        status, body = await wire.ask(post(f"{path}/decisions", context))
        decisions.append(time.perf_counter() - start)
        assert status == 200, body
        reward = post(f"{path}/decisions/{json.loads(body)['id']}/reward", b'{"value":1}')
        status, body = await wire.ask(reward)
        assert status == 200, body


async def _load(url: str, paths: list[str], connections: int, seconds: float) -> list[float]:
    """Send pairs for some seconds; return the time of each decision."""
    decisions: list[float] = []
    wires = await asyncio.gather(*(connect(url) for _ in range(connections)))
    tasks = [
        asyncio.create_task(_send_pairs(wire, paths[i % len(paths)], decisions))
        for i, wire in enumerate(wires)
    ]
    done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    for task in done:
        task.result()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for wire in wires:
        wire.close()
    return decisions


def _cpu(server: Server, shards: list[int], database: int) -> dict[str, float]:
    own = resource.getrusage(resource.RUSAGE_SELF)
    front_end, parts = _alone(server.pid), sum(_alone(process) for process in shards)
    return {
        "generator": own.ru_utime + own.ru_stime,
        "front_end": front_end,
        "shards": parts,
        "ray": cpu_seconds(server.pid) - front_end - parts,
        "database": cpu_seconds(database),
    }


def _alone(process: int) -> float:
    """Return the CPU time of a process without its children (Linux)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(server: Server, workers: int, seconds: float, database: int, connections: int) -> Result:
    """Measure one running server."""
    paths = [f"/v1/experiments/load-{workers}-{number}" for number in range(EXPERIMENTS)]
    for path in paths:
        created: Any = server.client.put(path, {"arms": list(ARMS), "seed": 10_000})
        assert created.status == 201, created
    shards = [one["process"] for one in server.client.get("/v1/shards").data["shards"]]
    asyncio.run(_load(server.url, paths, connections, WARM_UP))
    alone = statistics.quantiles(asyncio.run(_load(server.url, paths[:1], 1, seconds / 2)), n=100)
    before, load_average, start = _cpu(server, shards, database), os.getloadavg()[0], time.perf_counter()
    pairs = len(asyncio.run(_load(server.url, paths, connections, seconds)))
    taken, after = time.perf_counter() - start, _cpu(server, shards, database)
    used = {name: 1e3 * (after[name] - before[name]) / pairs for name in after}
    share = 100 * (after["generator"] - before["generator"]) / taken / (os.cpu_count() or 1)
    rates = (pairs / taken, 1e3 * alone[49], 1e3 * alone[98])
    return Result(workers, *rates, generator_share=share, load_average=load_average, **used)


def on_paper(result: Result) -> str:
    """Return what a cluster with the measured CPU time per pair could do."""
    rate = 1e3 * NODES * CORES * UTILIZATION / result.service
    front_ends = NODES * CORES * (result.front_end + result.ray / 2) / result.service
    nodes = f"{NODES} nodes with {CORES} cores each"
    return (
        f"on paper, {nodes} at {UTILIZATION:.0%} could serve {rate:,.0f} pairs/s "
        f"with {front_ends:.0f} of the {NODES * CORES} cores for front ends, if PostgreSQL has "
        f"{1e-3 * rate * result.database / UTILIZATION:.0f} cores and can commit as often"
    )


def main() -> None:
    """Measure all configurations, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--workers", type=int, nargs="+", default=WORKERS)
    parser.add_argument("--connections", type=int, default=CONNECTIONS)
    chosen = parser.parse_args()
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_prestart_worker_first_driver="0")
    with postgres.cluster("max_connections = 300") as database:
        results = []
        for workers in chosen.workers:
            with serving(["--database", database.url], "--workers", str(workers)) as server:
                result = measure(server, workers, chosen.seconds, database.pid, chosen.connections)
                server.stop()
            fields = (f"{name} {value:,.2f}" for name, value in result._asdict().items())
            print("; ".join(fields), flush=True)
            results.append(result)
    alone, *divided = sorted(results)
    for result in divided if alone.workers == 1 else ():
        added = (result.alone_p50_ms - alone.alone_p50_ms, result.alone_p99_ms - alone.alone_p99_ms)
        print(
            f"{result.workers} workers: a call to a shard adds {added[0]:.2f} ms (p50) and {added[1]:.2f} ms "
            f"(p99); {result.service / alone.service:.1f} times the CPU time of one process per pair; "
            f"{on_paper(result)}"
        )


if __name__ == "__main__":
    main()
