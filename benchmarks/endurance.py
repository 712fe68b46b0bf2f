"""``glcb serve`` in the long run: its memory over a million decisions, and how long a restart takes.

Part of ``make soak``. Decisions and rewards come by the thousand; all is on disk before it is answered.
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
SLOWEST_BATCH = 600.0
"""Seconds: where others use the machine too, a thousand decisions may have to wait."""
LONGEST_RESTART = 7200.0
"""Seconds: a replay of everything takes about as long as the decisions took."""
LARGEST_GROWTH = 0.1
"""Of memory, from the first fifth of the decisions to the last."""


@dataclass
class Course:
    """Memory on the way."""

    decisions: list[int]
    bytes_held: list[int]

    @property
    def growth(self) -> float:
        """Return by how much more is held in the end than after the first fifth."""
        return self.bytes_held[-1] / self.bytes_held[len(self.bytes_held) // 5] - 1


def create(client: Client, policy: str) -> None:
    """Make the experiment."""
    made = client.put(PATH, {"arms": list(ARMS), "policy": policy, "seed": 10_000})
    assert made.status == 201, made


def batch(client: Client, rng: random.Random, size: int = BATCH) -> None:
    """Decide so many times, then reward all of it."""
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


def live(server: Server, decisions: int, marks: int = 100) -> Course:
    """Lead a running server through so many decisions, and write down its memory now and then."""
    course, rng, done = Course([], []), random.Random(10_000), 0
    client = replace(server.client, seconds=SLOWEST_BATCH)
    for mark in range(1, marks + 1):
        while done < decisions * mark // marks:
            size = min(BATCH, decisions * mark // marks - done)
            batch(client, rng, size)
            done += size
        course.decisions.append(done)
        course.bytes_held.append(resident_bytes(server.pid))
    return course


def restart_seconds(server: Server) -> float:
    """Start the server; return the time until its first decision is answered."""
    start = time.perf_counter()
    server.start(seconds=LONGEST_RESTART)
    batch(server.client, random.Random(1), 1)
    return time.perf_counter() - start


def memory(folder: Path, decisions: int, policy: str) -> dict[str, Any]:
    """Return the course of memory on a fresh server."""
    server = Server(["--data", str(folder / "memory.db")])
    try:
        server.start()
        create(server.client, policy)
        start = time.perf_counter()
        course = live(server, decisions)
        seconds = time.perf_counter() - start
    finally:
        server.forget()
    print(
        f"{decisions:,} decisions and as many rewards in {seconds:,.0f} s: memory "
        f"{course.bytes_held[len(course.bytes_held) // 5] / 2**20:,.0f} MB after a fifth, "
        f"{course.bytes_held[-1] / 2**20:,.0f} MB in the end ({course.growth:+.1%}), "
        f"{max(course.bytes_held) / 2**20:,.0f} MB at most",
        flush=True,
    )
    return {
        "decisions": course.decisions,
        "bytes": course.bytes_held,
        "seconds": seconds,
        "growth": course.growth,
    }


def restarts(folder: Path, events: int, policy: str) -> dict[str, Any]:
    """Return the time to restart with so many events, with a snapshot of the end and with none at all."""
    store = ["--data", str(folder / "restarts.db")]
    bare = Server(store, "--set", f"snapshot_events={NEVER}")
    try:
        bare.start()
        create(bare.client, policy)
        live(bare, events // 2, marks=1)
        bare.kill()
        without = restart_seconds(bare)
        bare.stop()
        with_snapshot = restart_seconds(bare)
        bare.kill()
    finally:
        bare.forget()
    held = sum(path.stat().st_size for path in folder.glob("restarts.db*"))
    print(
        f"restart with {events:,} events ({held / 2**20:,.0f} MB on disk), until the first decision is "
        f"answered: {with_snapshot:.1f} s from a snapshot of the end, {without:,.1f} s without any",
        flush=True,
    )
    return {"events": events, "bytes": held, "with_snapshot_s": with_snapshot, "without_s": without}


def main() -> None:
    """Measure, print, and keep what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=1_000_000)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--policy", default="glcb")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="glcb-endurance-") as folder:
        found = {
            "restarts": restarts(Path(folder), chosen.events, chosen.policy),
            "memory": memory(Path(folder), chosen.decisions, chosen.policy),
        }
    chosen.out.mkdir(parents=True, exist_ok=True)
    (chosen.out / "endurance.json").write_text(json.dumps(found, indent=1) + "\n")
    assert found["memory"]["growth"] <= LARGEST_GROWTH, "memory grows"


if __name__ == "__main__":
    main()
