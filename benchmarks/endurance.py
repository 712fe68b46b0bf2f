"""Memory of ``glcb serve`` over a million decisions, and the time of a restart; part of ``make soak``.

Decisions and rewards are sent in batches of a thousand. Everything is on disk before it is acknowledged.
"""

import argparse
import json
import random
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.service.client import Client
from benchmarks.service.server import Server, resident_bytes

PATH = "/v1/experiments/endurance"
ARMS = ("a", "b", "c")
FEATURES = 20
BATCH = 1000
NEVER = 10**9
BATCH_TIMEOUT = 600.0
"""Timeout of a start in seconds; generous, because the machine may be busy."""
RESTART_TIMEOUT = 7200.0
"""Timeout of a replay in seconds; replaying all events takes about as long as making the decisions."""
MAX_GROWTH = 0.1
"""Maximum growth of memory from the first fifth of the decisions to the last."""


@dataclass
class MemoryCurve:
    """Memory as a function of decisions."""

    decisions: list[int]
    bytes_held: list[int]

    @property
    def growth(self) -> float:
        """Return the relative growth from the first fifth to the end."""
        return self.bytes_held[-1] / self.bytes_held[len(self.bytes_held) // 5] - 1


def create(client: Client, policy: str) -> None:
    """Create the experiment."""
    made = client.put(PATH, {"arms": list(ARMS), "policy": policy, "seed": 10_000})
    assert made.status == 201, made


def batch(client: Client, rng: random.Random, size: int = BATCH) -> None:
    """Make ``size`` decisions, then reward all of them."""
    contexts = [{f"f{i:02}": rng.random() for i in range(FEATURES)} for _ in range(size)]
    decided = _results(
        client, "/decisions/batch", {"decisions": [{"context": context} for context in contexts]}
    )
    rewards = [
        {"id": one["id"], "value": int(rng.random() < context[f"f{ARMS.index(one['arm']):02}"])}
        for one, context in zip(decided, contexts, strict=True)
    ]
    _results(client, "/rewards", {"rewards": rewards})


def _results(client: Client, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    answer = client.post(PATH + path, body)
    assert answer.status == 200, answer
    results: list[dict[str, Any]] = answer.data["results"]
    failed = [one for one in results if "error" in one]
    assert not failed, failed[:3]
    return results


def drive(server: Server, decisions: int, marks: int = 100) -> MemoryCurve:
    """Send ``decisions`` decisions to a running server; record its memory at ``marks`` points."""
    curve, rng, done = MemoryCurve([], []), random.Random(10_000), 0
    client = replace(server.client, timeout=BATCH_TIMEOUT)
    for mark in range(1, marks + 1):
        while done < decisions * mark // marks:
            size = min(BATCH, decisions * mark // marks - done)
            batch(client, rng, size)
            done += size
        curve.decisions.append(done)
        curve.bytes_held.append(resident_bytes(server.pid))
    return curve


def restart_seconds(server: Server) -> float:
    """Start the server; return the seconds until its first decision."""
    start = time.perf_counter()
    server.start(seconds=RESTART_TIMEOUT)
    batch(server.client, random.Random(1), 1)
    return time.perf_counter() - start


def memory(folder: Path, decisions: int, policy: str) -> dict[str, Any]:
    """Measure the memory of a new server."""
    server = Server(["--data", str(folder / "memory.db")])
    try:
        server.start()
        create(server.client, policy)
        start = time.perf_counter()
        curve = drive(server, decisions)
        seconds = time.perf_counter() - start
    finally:
        server.close()
    print(
        f"{decisions:,} decisions and rewards in {seconds:,.0f} s: memory "
        f"{curve.bytes_held[len(curve.bytes_held) // 5] / 2**20:,.0f} MB after the first fifth, "
        f"{curve.bytes_held[-1] / 2**20:,.0f} MB at the end ({curve.growth:+.1%}), "
        f"{max(curve.bytes_held) / 2**20:,.0f} MB peak",
        flush=True,
    )
    return {
        "decisions": curve.decisions,
        "bytes": curve.bytes_held,
        "seconds": seconds,
        "growth": curve.growth,
    }


def restarts(folder: Path, events: int, policy: str) -> dict[str, Any]:
    """Measure the time of a restart after ``events`` events, with a final snapshot and without any."""
    store = ["--data", str(folder / "restarts.db")]
    bare = Server(store, "--set", f"snapshot_seconds={NEVER}")
    try:
        bare.start()
        create(bare.client, policy)
        drive(bare, events // 2, marks=1)
        bare.kill()
        without = restart_seconds(bare)
        bare.stop()
        with_snapshot = restart_seconds(bare)
        bare.kill()
    finally:
        bare.close()
    stored = sum(path.stat().st_size for path in folder.glob("restarts.db*"))
    print(
        f"restart to first decision, {events:,} events ({stored / 2**20:,.0f} MB on disk): "
        f"{with_snapshot:.1f} s from a final snapshot, {without:,.1f} s without snapshots",
        flush=True,
    )
    return {
        "events": events,
        "bytes": stored,
        "with_snapshot_s": with_snapshot,
        "without_snapshot_s": without,
    }


def main() -> None:
    """Measure, print and write endurance.json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=1_000_000)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--policy", default="glcb")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="glcb-endurance-") as folder:
        results = {
            "restarts": restarts(Path(folder), chosen.events, chosen.policy),
            "memory": memory(Path(folder), chosen.decisions, chosen.policy),
        }
    chosen.out.mkdir(parents=True, exist_ok=True)
    (chosen.out / "endurance.json").write_text(json.dumps(results, indent=1) + "\n")
    assert results["memory"]["growth"] <= MAX_GROWTH, "memory grew by more than 10%"


if __name__ == "__main__":
    main()
