"""The service with more clients than it can serve, and with batches: ``python -m benchmarks.overload``.

Clients are connections in a separate process on the same machine. Each repeatedly sends a decision and its
reward. After status 503, it waits for the time in the response and tries again. A batch is 100 decisions and
then their 100 rewards, one request each.
"""

import argparse
import asyncio
import json
import os
import random
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from benchmarks.load import ARMS, PATH, REQUESTS, WARM_UP, Requests, percentile, run_for
from benchmarks.service.server import Server, cpu_seconds, resident_bytes, serving
from benchmarks.service.wire import Wire, connect, post

BATCH = 100
RETRY_SECONDS = 1.0
"""The value of ``Retry-After``. Clients add a random part, so that they do not all return at once."""


@dataclass
class Outcomes:
    """The outcomes of all client requests."""

    seconds: list[float] = field(default_factory=list)
    """Response times of accepted requests."""
    pairs: int = 0
    refused: int = 0

    def clear(self) -> None:
        """Restart the measurement."""
        self.seconds.clear()
        self.pairs = self.refused = 0


Client = Callable[[Wire, Requests, int, Outcomes], Awaitable[None]]


async def _ask(wire: Wire, request: bytes, outcomes: Outcomes) -> dict[str, object]:
    while True:
        start = time.perf_counter()
        status, body = await wire.ask(request)
        if status == 200:
            outcomes.seconds.append(time.perf_counter() - start)
            answer: dict[str, object] = json.loads(body)
            return answer
        assert status == 503, body
        outcomes.refused += 1
        await asyncio.sleep(RETRY_SECONDS * (1 + random.random()))


async def single(wire: Wire, requests: Requests, index: int, outcomes: Outcomes) -> None:
    """Send pairs of a decision and its reward."""
    while True:
        index = (index + 1) % REQUESTS
        decision = await _ask(wire, requests.decisions[index], outcomes)
        value = int(requests.rewards[index][str(decision["arm"]).encode()])
        path = f"{PATH}/decisions/{decision['id']}/reward"
        await _ask(wire, post(path, json.dumps({"value": value}).encode()), outcomes)
        outcomes.pairs += 1


async def batches(wire: Wire, requests: Requests, index: int, outcomes: Outcomes) -> None:
    """Send batches of decisions, and batches of their rewards."""
    bodies = [request.split(b"\r\n\r\n", 1)[1] for request in requests.decisions]
    while True:
        chosen = [(index + i) % REQUESTS for i in range(BATCH)]
        index += BATCH
        body = b'{"decisions":[%b]}' % b",".join(bodies[i] for i in chosen)
        answer = await _ask(wire, post(f"{PATH}/decisions/batch", body), outcomes)
        results = answer["results"]
        assert isinstance(results, list)
        rewards = [
            {"id": each["id"], "value": int(requests.rewards[i][each["arm"].encode()])}
            for i, each in zip(chosen, results, strict=True)
        ]
        body = json.dumps({"rewards": rewards}).encode()
        await _ask(wire, post(f"{PATH}/rewards", body), outcomes)
        outcomes.pairs += BATCH


async def _generate(server: Server, client: Client, connections: int, seconds: float) -> dict[str, float]:
    requests, outcomes = Requests(10_000), Outcomes()
    wires = [await connect(server.url) for _ in range(connections)]
    tasks = [
        asyncio.ensure_future(client(wire, requests, i * REQUESTS // connections, outcomes))
        for i, wire in enumerate(wires)
    ]
    await run_for(tasks, WARM_UP)
    outcomes.clear()
    used, start, most = cpu_seconds(server.pid), time.perf_counter(), 0
    while (elapsed := time.perf_counter() - start) < seconds:
        await run_for(tasks, min(0.5, seconds - elapsed))
        most = max(most, resident_bytes(server.pid))
    used = cpu_seconds(server.pid) - used
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for wire in wires:
        wire.close()
    return {
        "pairs per second": outcomes.pairs / elapsed,
        "accepted requests per second": len(outcomes.seconds) / elapsed,
        "rejected per second (503)": outcomes.refused / elapsed,
        "accepted, p50 in ms": 1e3 * percentile(outcomes.seconds, 50),
        "accepted, p99 in ms": 1e3 * percentile(outcomes.seconds, 99),
        "memory in MB": most / 1e6,
        "server CPU per pair in ms": 1e3 * used / max(outcomes.pairs, 1),
    }


def measure(client: Client, connections: int, seconds: float, *flags: str) -> dict[str, float]:
    """Return the figures of one run on a new SQLite database."""
    with (
        tempfile.TemporaryDirectory(prefix="glcb-overload-") as folder,
        serving(["--data", f"{folder}/glcb.db"], *flags) as server,
    ):
        created = server.client.put(PATH, {"arms": list(ARMS), "policy": "glcb", "seed": 10_000})
        assert created.status == 201, created
        return asyncio.run(_generate(server, client, connections, seconds))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 16, 200, 2000])
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a service setting")
    chosen = parser.parse_args()
    flags = [part for setting in chosen.set for part in ("--set", setting)]
    runs = [("single", single, n) for n in chosen.connections] + [("batches of 100", batches, 1)]
    for name, client, connections in runs:
        load = os.getloadavg()[0]
        figures = measure(client, connections, chosen.seconds, *flags)
        print(f"{name}, {connections} connections (load average {load:.1f})")
        for what, figure in figures.items():
            print(f"    {what:<32} {figure:10,.2f}", flush=True)


if __name__ == "__main__":
    main()
