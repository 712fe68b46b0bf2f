"""Throughput and latency of ``glcb serve``: ``make load``.

Client and server share this machine. Every connection requests a decision, sends its reward as soon as the
response arrives, and continues with the next context. Everything is on disk before it is acknowledged.
"""

import argparse
import asyncio
import json
import os
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.service import metrics, postgres
from benchmarks.service.server import Server, cpu_seconds, serving
from benchmarks.service.wire import Wire, connect, post

ARMS = ("a", "b", "c")
FEATURES = 20
REQUESTS = 2000
"""Number of different contexts, prepared before the measurement."""
WARM_UP = 3.0
"""Seconds before the measurement starts."""
PATH = "/v1/experiments/load"


@dataclass(frozen=True)
class Plan:
    """Settings of a load test."""

    seconds: float = 60.0
    connections: int = 16
    policy: str = "glcb"


@dataclass
class Times:
    """Response times in seconds."""

    decisions: list[float] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Result:
    """The result of one run; times are in ms, model times in µs."""

    store: str
    seconds: float
    connections: int
    pairs: int
    pairs_per_s: float
    decision_p50_ms: float
    decision_p99_ms: float
    reward_p50_ms: float
    reward_p99_ms: float
    model_decide_us: float
    model_learn_us: float
    events_per_commit: float
    commit_ms: float
    sync_ms: float
    """Median of one ``fdatasync`` of 4 KB on this disk, measured alone: the lower bound of a commit."""
    load_average: float
    """Load average of the machine before the run; above a few tenths, the machine was not idle."""
    server_ms_per_pair: float
    """CPU time, which is hardly affected by other processes."""
    generator_cores: float
    server_cores: float
    database_cores: float


class Requests:
    """Prepared requests, and the reward of each arm."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.decisions: list[bytes] = []
        self.rewards: list[dict[bytes, bool]] = []
        for _ in range(REQUESTS):
            context = {f"f{i:02}": round(rng.random(), 6) for i in range(FEATURES)}
            best = max(range(len(ARMS)), key=lambda arm: context[f"f{arm:02}"])
            self.decisions.append(post(f"{PATH}/decisions", json.dumps({"context": context}).encode()))
            self.rewards.append(
                {arm.encode(): rng.random() < (0.8 if i == best else 0.2) for i, arm in enumerate(ARMS)}
            )


async def _send_pairs(wire: Wire, requests: Requests, first: int, times: Times) -> None:
    one, zero = b'{"value":1}', b'{"value":0}'
    index, clock = first, time.perf_counter
    while True:
        index = (index + 1) % REQUESTS
        start = clock()
        status, body = await wire.ask(requests.decisions[index])
        middle = clock()
        assert status == 200, body
        decision = json.loads(body)
        reward = one if requests.rewards[index][decision["arm"].encode()] else zero
        sent = clock()
        status, body = await wire.ask(post(f"{PATH}/decisions/{decision['id']}/reward", reward))
        times.rewards.append(clock() - sent)
        times.decisions.append(middle - start)
        assert status == 200, body


async def _generate(server: Server, plan: Plan, database: int | None) -> tuple[Times, dict[str, float]]:
    """Put load on the server; return the response times and the cores used by each process."""
    requests, times = Requests(10_000), Times()
    wires = await asyncio.gather(*(connect(server.url) for _ in range(plan.connections)))
    spread = REQUESTS // plan.connections
    tasks = [
        asyncio.create_task(_send_pairs(wire, requests, i * spread, times)) for i, wire in enumerate(wires)
    ]
    await run_for(tasks, WARM_UP)
    times.decisions.clear()
    times.rewards.clear()
    before, start = _cpu(server, database), time.perf_counter()
    await run_for(tasks, plan.seconds)
    seconds, after = time.perf_counter() - start, _cpu(server, database)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for wire in wires:
        wire.close()
    shares = {name: (after[name] - before[name]) / seconds for name in after}
    return times, {**shares, "seconds": seconds}


async def run_for(tasks: Sequence["asyncio.Task[None]"], seconds: float) -> None:
    """Let clients run for a while; raise the error of a failed client."""
    done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    for task in done:
        task.result()


def _cpu(server: Server, database: int | None) -> dict[str, float]:
    own = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "generator": own.ru_utime + own.ru_stime,
        "server": cpu_seconds(server.pid),
        "database": cpu_seconds(database) if database else 0.0,
    }


def sync_seconds(folder: Path, rounds: int = 200) -> float:
    """Return the median time to append 4 KB to a file and sync it to disk."""
    taken = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(rounds):
            start = time.perf_counter()
            os.write(file.fileno(), bytes(4096))
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def measure(store: str, server: Server, plan: Plan, database: int | None, sync: float) -> Result:
    """Measure one running server under load."""
    created = server.client.put(PATH, {"arms": list(ARMS), "policy": plan.policy, "seed": 10_000})
    assert created.status == 201, created
    before, load_average = metrics.read(server.client), os.getloadavg()[0]
    times, used = asyncio.run(_generate(server, plan, database))
    spent = metrics.difference(before, metrics.read(server.client))
    pairs = len(times.rewards)
    return Result(
        store=store,
        seconds=used["seconds"],
        connections=plan.connections,
        pairs=pairs,
        pairs_per_s=pairs / used["seconds"],
        decision_p50_ms=1e3 * percentile(times.decisions, 50),
        decision_p99_ms=1e3 * percentile(times.decisions, 99),
        reward_p50_ms=1e3 * percentile(times.rewards, 50),
        reward_p99_ms=1e3 * percentile(times.rewards, 99),
        model_decide_us=1e6 * metrics.mean(spent, metrics.DECIDE),
        model_learn_us=1e6 * metrics.mean(spent, metrics.LEARN),
        events_per_commit=metrics.mean(spent, metrics.COMMIT_EVENTS),
        commit_ms=1e3 * metrics.mean(spent, metrics.COMMIT),
        sync_ms=1e3 * sync,
        load_average=load_average,
        server_ms_per_pair=1e3 * used["server"] * used["seconds"] / pairs,
        generator_cores=used["generator"],
        server_cores=used["server"],
        database_cores=used["database"],
    )


def percentile(values: Sequence[float], percent: int) -> float:
    """Return a percentile."""
    return statistics.quantiles(values, n=100)[percent - 1]


def _on_sqlite(plan: Plan) -> Result:
    with tempfile.TemporaryDirectory(prefix="glcb-load-") as folder:
        sync = sync_seconds(Path(folder))
        with serving(["--data", f"{folder}/glcb.db"]) as server:
            return measure("SQLite", server, plan, None, sync)


def _on_postgres(plan: Plan) -> Result:
    sync = sync_seconds(Path(tempfile.gettempdir()))
    with postgres.cluster() as cluster, serving(["--database", cluster.url]) as server:
        return measure("PostgreSQL", server, plan, cluster.pid, sync)


def run(plan: Plan, console: Console, out: Path) -> list[Result]:
    """Measure on SQLite and, if installed, on PostgreSQL; print a table and write load.json."""
    results = [_on_sqlite(plan)]
    if postgres.binaries():
        results.append(_on_postgres(plan))
    else:
        console.print("PostgreSQL is not installed: only SQLite is measured")
    console.print(load_table(results))
    out.mkdir(parents=True, exist_ok=True)
    (out / "load.json").write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")
    return results


def load_table(results: Sequence[Result]) -> Table:
    """Return a table of the results for the terminal."""
    first = results[0]
    table = Table(
        title=f"{first.connections} connections, {len(ARMS)} arms, {FEATURES} features, "
        f"{first.seconds:.0f} s each, {os.cpu_count()} cores",
        title_justify="left",
    )
    table.add_column("")
    rows: dict[str, list[str]] = {}
    for result in results:
        table.add_column(result.store, justify="right")
        for name, text in _texts(result).items():
            rows.setdefault(name, []).append(text)
    for name, texts in rows.items():
        table.add_row(name, *texts)
    return table


def _texts(result: Result) -> dict[str, str]:
    return {
        "decision + reward pairs per second": f"{result.pairs_per_s:,.0f}",
        "decision, p50 and p99": f"{result.decision_p50_ms:.1f} and {result.decision_p99_ms:.1f} ms",
        "reward, p50 and p99": f"{result.reward_p50_ms:.1f} and {result.reward_p99_ms:.1f} ms",
        "model: decide, learn": f"{result.model_decide_us:.0f}, {result.model_learn_us:.0f} µs",
        "events per commit": f"{result.events_per_commit:.1f}",
        "commit": f"{result.commit_ms:.2f} ms",
        "fdatasync": f"{result.sync_ms:.2f} ms",
        "load average before the run": f"{result.load_average:.1f}",
        "server CPU per pair": f"{result.server_ms_per_pair:.2f} ms",
        "cores used by the generator": f"{result.generator_cores:.2f}",
        "cores used by the server": f"{result.server_cores:.2f}",
        "cores used by the database": f"{result.database_cores:.2f}",
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=Plan.seconds)
    parser.add_argument("--connections", type=int, default=Plan.connections)
    parser.add_argument("--policy", default=Plan.policy)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out")
    chosen = parser.parse_args()
    run(Plan(chosen.seconds, chosen.connections, chosen.policy), Console(), chosen.out)


if __name__ == "__main__":
    main()
