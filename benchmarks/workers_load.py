"""Throughput of ``glcb serve`` with several workers, and what it costs to forward a request.

One process, two and four workers are measured in alternation, on one PostgreSQL, with the same load: eight
experiments, and connections that request a decision and send its reward, one after the other. Connections go
to any worker, or directly to the owner of their experiment, as ``Client(…, direct=True)`` does. Clients,
workers and database share this machine; the CPU time of each shows where the ceiling is.
"""

import argparse
import asyncio
import json
import os
import resource
import statistics
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from benchmarks.load import ARMS, FEATURES
from benchmarks.service import postgres
from benchmarks.service.server import Server, cpu_seconds, serving
from benchmarks.service.wire import Wire, connect, post
from glcb.service.storage.ownership import partition_of

EXPERIMENTS = 8
CONNECTIONS = 32
WARM_UP = 3.0
WORKERS = (1, 2, 4)
CONTEXT = json.dumps({"context": {f"f{i:02}": i / FEATURES for i in range(FEATURES)}}).encode()
ADVERTISE = ("--set", "advertise=http://127.0.0.1")


class Result(NamedTuple):
    """The result of one run. CPU times are in ms per pair of a decision and its reward."""

    workers: int
    direct: bool
    """Whether connections went to the owners of their experiments."""
    pairs_per_s: float
    service: float
    """CPU time of all processes of glcb."""
    generator: float
    database: float
    generator_share: float
    """Share of all cores that the load generator used, in %."""
    load_average: float


class Alone(NamedTuple):
    """Milliseconds of a decision on one connection, while nothing else happens."""

    p50: float
    p99: float


async def _send_pair(wire: Wire, path: str) -> float:
    """Request a decision and send its reward; return the seconds of the decision."""
    start = time.perf_counter()
    status, body = await wire.ask(post(f"{path}/decisions", CONTEXT))
    taken = time.perf_counter() - start
    assert status == 200, body
    reward = post(f"{path}/decisions/{json.loads(body)['id']}/reward", b'{"value":1}')
    status, body = await wire.ask(reward)
    assert status == 200, body
    return taken


async def _send_pairs(wire: Wire, path: str, decisions: list[float]) -> None:
    while True:
        decisions.append(await _send_pair(wire, path))


async def _load(targets: Sequence[tuple[str, str]], seconds: float) -> list[float]:
    """Send pairs over one connection for each URL and path; return the time of each decision."""
    decisions: list[float] = []
    wires = await asyncio.gather(*(connect(url) for url, _ in targets))
    tasks = [
        asyncio.create_task(_send_pairs(wire, path, decisions))
        for wire, (_, path) in zip(wires, targets, strict=True)
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


def _cpu(server: Server, database: int) -> dict[str, float]:
    own = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "service": cpu_seconds(server.pid),
        "generator": own.ru_utime + own.ru_stime,
        "database": cpu_seconds(database),
    }


class Running:
    """A running service with its experiments."""

    def __init__(self, server: Server, workers: int, database: int) -> None:
        self._server = server
        self._workers = workers
        self._database = database
        self.names = [f"load-{workers}-{number}" for number in range(EXPERIMENTS)]
        for name in self.names:
            settings = {"arms": list(ARMS), "seed": 10_000}
            created: Any = server.client.put(f"/v1/experiments/{name}", settings)
            assert created.status in (200, 201), created

    def _owners(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return the URL of the owner of each experiment, and that of another worker."""
        listed = self._server.client.get("/v1/workers").data
        urls = {one["name"]: one["url"] for one in listed["workers"]}
        own, other = {}, {}
        for name in self.names:
            owner = listed["owners"][str(partition_of(name))]
            own[name] = urls[owner]
            other[name] = next(url for worker, url in urls.items() if worker != owner)
        return own, other

    def measure(self, seconds: float, connections: int, direct: bool) -> Result:
        """Send pairs over all connections."""
        owners = self._owners()[0] if direct else dict.fromkeys(self.names, self._server.url)
        used = [self.names[number % EXPERIMENTS] for number in range(connections)]
        targets = [(owners[name], f"/v1/experiments/{name}") for name in used]
        asyncio.run(_load(targets, WARM_UP))
        average, start = os.getloadavg()[0], time.perf_counter()
        before = _cpu(self._server, self._database)
        pairs = len(asyncio.run(_load(targets, seconds)))
        taken, after = time.perf_counter() - start, _cpu(self._server, self._database)
        cost = {name: 1e3 * (after[name] - before[name]) / pairs for name in after}
        share = 100 * (after["generator"] - before["generator"]) / taken / (os.cpu_count() or 1)
        return Result(
            self._workers, direct, pairs / taken, **cost, generator_share=share, load_average=average
        )

    def alone(self, seconds: float) -> list[Alone]:
        """Send pairs for an experiment to its owner and, in alternation, to another worker, if any."""
        name, urls = self.names[0], [self._server.url]
        if self._workers > 1:
            urls = [urls_of[name] for urls_of in self._owners()]
        times = asyncio.run(_alternate(urls, f"/v1/experiments/{name}", seconds))
        cuts = [statistics.quantiles(one[len(one) // 5 :], n=100) for one in times]  # without a warm-up
        return [Alone(1e3 * one[49], 1e3 * one[98]) for one in cuts]


async def _alternate(urls: Sequence[str], path: str, seconds: float) -> list[list[float]]:
    """Send one pair at a time to each URL in turn; return the times of their decisions."""
    wires = await asyncio.gather(*map(connect, urls))
    times: list[list[float]] = [[] for _ in urls]
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for wire, own in zip(wires, times, strict=True):
            own.append(await _send_pair(wire, path))
    for wire in wires:
        wire.close()
    return times


def _line(label: str, values: NamedTuple) -> str:
    fields = (f"{name} {value:,.2f}" for name, value in values._asdict().items())
    return f"{label}: {'; '.join(fields)}"


def main() -> None:
    """Measure all configurations in alternation, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, nargs="+", default=WORKERS)
    parser.add_argument("--connections", type=int, default=CONNECTIONS)
    chosen = parser.parse_args()
    results: dict[tuple[int, bool], list[Result]] = {}
    alone: dict[str, list[Alone]] = {}
    with postgres.cluster("max_connections = 300") as database:
        for _ in range(chosen.rounds):
            for workers in chosen.workers:
                flags = ("--workers", str(workers), *(ADVERTISE if workers > 1 else ()))
                with serving(["--database", database.url], *flags) as server:
                    running = Running(server, workers, database.pid)
                    for place, one in enumerate(running.alone(chosen.seconds)):
                        label = f"{workers} workers, {('not forwarded', 'forwarded')[place]}"
                        alone.setdefault(label, []).append(one)
                        print(_line(label, one), flush=True)
                    for direct in (False, True) if workers > 1 else (False,):
                        result = running.measure(chosen.seconds, chosen.connections, direct)
                        results.setdefault((workers, direct), []).append(result)
                        print(_line("load", result), flush=True)
                    server.stop()
    first = results.get((1, False))
    for (workers, direct), found in sorted(results.items()):
        rate = statistics.median(one.pairs_per_s for one in found)
        cost = statistics.median(one.service for one in found)
        label = f"{workers} workers, direct" if direct else f"{workers} workers"
        line = f"{label}: {rate:,.0f} pairs/s, {cost:.3f} ms of CPU per pair"
        if first is not None and found is not first:
            base = statistics.median(one.service for one in first)
            speed = statistics.median(one.pairs_per_s for one in first)
            line += (
                f", {cost / base:.2f} times the CPU time of one process, {rate / speed:.2f} times its rate"
            )
        print(line)
    for label, times in sorted(alone.items()):
        p50, p99 = (statistics.median(one[place] for one in times) for place in (0, 1))
        print(f"{label}: p50 {p50:.2f} ms, p99 {p99:.2f} ms")


if __name__ == "__main__":
    main()
