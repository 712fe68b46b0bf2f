"""Restarts of ``glcb serve`` with events to replay: ``python -m benchmarks.restarts --events 100000``.

A service with one large and three small experiments is killed. The next service is timed until it is ready
and until each experiment makes a decision. Until the large experiment does, clients ask a small one for
decisions. This is done twice: with a log without snapshots, and with the default settings.
"""

import argparse
import random
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.service.client import Client
from benchmarks.service.server import Server, cpu_seconds

LARGE = "large"
SMALL = ("small-1", "small-2", "small-3")
SMALL_EVENTS = 400
ARMS = ("a", "b", "c")
FEATURES = 6
BATCH = 500
TIMEOUT = 600.0
PAUSE = 0.01
"""Seconds between the decisions of a small experiment while the large one opens."""
NO_SNAPSHOTS = ("--set", "snapshot_seconds=1e9")


def context(rng: random.Random) -> dict[str, float]:
    """Draw a context."""
    return {f"f{number}": rng.random() for number in range(FEATURES)}


def write(server: Server, name: str, events: int) -> None:
    """Create an experiment, and make ``events // 2`` decisions with rewards."""
    client, rng = replace(server.client, timeout=TIMEOUT), random.Random(name)
    path = f"/v1/experiments/{name}"
    assert client.put(path, {"arms": list(ARMS)}).status == 201
    left = events // 2
    while left:
        size = min(BATCH, left)
        decisions = [{"context": context(rng)} for _ in range(size)]
        decided = _results(client, f"{path}/decisions/batch", {"decisions": decisions})
        rewards = [{"id": one["id"], "value": rng.randrange(2)} for one in decided]
        _results(client, f"{path}/rewards", {"rewards": rewards})
        left -= size


def _results(client: Client, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    answer = client.post(path, body)
    assert answer.status == 200, answer
    results: list[dict[str, Any]] = answer.data["results"]
    return results


def first_decision(client: Client, name: str, began: float) -> float:
    """Return the seconds until an experiment makes a decision."""
    answer = client.post(f"/v1/experiments/{name}/decisions", {"context": context(random.Random(0))})
    assert answer.status == 200, answer
    return time.perf_counter() - began


def latencies(client: Client, ended: threading.Event) -> list[float]:
    """Return the milliseconds of decisions of a small experiment, one after another."""
    found = []
    while not ended.wait(PAUSE):
        began = time.perf_counter()
        first_decision(client, SMALL[0], began)
        found.append((time.perf_counter() - began) * 1000)
    return found


def restart(server: Server) -> str:
    """Start a service; return its times."""
    began = time.perf_counter()
    server.start(seconds=TIMEOUT)
    client = replace(server.client, timeout=TIMEOUT)
    assert client.get("/readyz").status == 200
    ready = time.perf_counter()
    ended = threading.Event()
    with ThreadPoolExecutor() as threads:
        large = threads.submit(first_decision, client, LARGE, ready)
        small = [threads.submit(first_decision, client, name, ready) for name in SMALL]
        others = [one.result() for one in small]
        waiting = threads.submit(latencies, client, ended)
        opened = large.result()
        ended.set()
        times = waiting.result()
    median, tail = np.percentile(times, (50, 99)) if times else (np.nan, np.nan)
    return (
        f"ready after {ready - began:.1f} s; first decisions of the small experiments "
        f"{', '.join(f'{one:.2f}' for one in others)} s and of the large one {opened:.2f} s after that; "
        f"{cpu_seconds(server.pid):.1f} s of CPU; {len(times)} decisions of a small experiment meanwhile: "
        f"median {median:.0f} ms, 99% {tail:.0f} ms, slowest {max(times, default=np.nan):.0f} ms"
    )


def measure(folder: Path, events: int, *flags: str) -> None:
    """Write a database, kill the service and start it again."""
    server = Server(["--data", str(folder / "glcb.db")], *flags)
    try:
        server.start()
        began = time.perf_counter()
        for name in SMALL:
            write(server, name, SMALL_EVENTS)
        write(server, LARGE, events)
        print(
            f"{events:,} events written in {time.perf_counter() - began:.0f} s with "
            f"{cpu_seconds(server.pid):.0f} s of CPU ({' '.join(flags) or 'default settings'})",
            flush=True,
        )
        server.kill()
        print(f"    after SIGKILL: {restart(server)}", flush=True)
        server.stop(TIMEOUT)
        print(f"    after SIGTERM: {restart(server)}", flush=True)
    finally:
        server.close()


def main() -> None:
    """Measure restarts without snapshots and with the default settings."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    events: int = parser.parse_args().events
    for flags in (NO_SNAPSHOTS, ()):
        with tempfile.TemporaryDirectory(prefix="glcb-restarts-") as folder:
            measure(Path(folder), events, *flags)


if __name__ == "__main__":
    main()
