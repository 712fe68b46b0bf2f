"""Crash test: kill ``glcb serve`` at random moments under load; part of ``make soak``.

After every kill, the service is restarted on the same data. Everything that it acknowledged must be present
exactly once and unchanged; requests without an answer are retried; and a replay of the whole event log must
produce the same state, bit for bit (``glcb audit``). With several processors, restarts alternate between
them, and the learned state need only be the same up to rounding.
"""

import argparse
import asyncio
import itertools
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks.recovery import Machine
from benchmarks.service import postgres
from benchmarks.service.audit import audit, audit_changes, replay, stored_reasons
from benchmarks.service.server import Server
from benchmarks.service.traffic import EXPERIMENT, Ledger, Traffic, retry_unanswered

CONNECTIONS = 8
MAX_UPTIME = 1.5
"""Maximum number of seconds under load before the kill."""
KILLED_AT_START = 0.2
"""Probability that a restart is killed too, while the state is being restored."""
KINDS: tuple[dict[str, Any], ...] = (
    {},
    {"policy": "linucb", "reward_timeout": 1.0, "default_reward": 0.0},
    {
        "policy": "lints",
        "rewards": [0, 2],
        "reward_timeout": 0.5,
        "reward_aggregation": "sum",
        "max_pending": 100,
    },
)
"""Experiments of several kinds, in turn: default, with a reward timeout, with summed rewards."""
KILLS_PER_EXPERIMENT = 10
"""A new experiment starts after this number of kills, so that the replayed log stays short."""
SNAPSHOTS = ("--set", "snapshot_seconds=0.2")
"""Frequent snapshots, so that some kills interrupt the writing of one."""


@dataclass
class Tally:
    """The counts of a crash test."""

    kills: int = 0
    kills_at_start: int = 0
    decisions: int = 0
    rewards: int = 0
    changes: int = 0
    unanswered: int = 0
    restarts: list[float] = field(default_factory=list)


class CrashTest:
    """One server on one database, killed again and again."""

    def __init__(self, store: Sequence[str], seed: int, processors: Sequence[str] = ("host",)) -> None:
        self.server = Server(store, *SNAPSHOTS)
        self.tally = Tally()
        self._rng = random.Random(seed)
        self._machines = itertools.cycle(Machine(sys.executable, name) for name in processors)
        self._identically = len(processors) == 1

    def run(self, kills: int) -> Tally:
        """Kill the server ``kills`` times; raise if anything acknowledged is lost."""
        self._start()
        while self.tally.kills < kills:
            self._one_experiment(min(KILLS_PER_EXPERIMENT, kills - self.tally.kills))
            print(f"{self.tally.kills} of {kills} kills", file=sys.stderr, flush=True)
        self.server.stop()
        return self.tally

    def close(self) -> None:
        """Kill the server and remove its log file."""
        self.server.close()

    def _one_experiment(self, kills: int) -> None:
        name = f"after-{self.tally.kills}-kills"
        kind = KINDS[self.tally.kills // KILLS_PER_EXPERIMENT % len(KINDS)]
        path = f"/v1/experiments/{name}"
        made = self.server.client.put(path, {**EXPERIMENT, **kind})
        assert made.status == 201, made
        ledger, goal = Ledger(), self.tally.kills + kills
        while self.tally.kills < goal:
            self._kill_under_load(name, ledger)
            self._restart(goal)
            self._check(name, ledger)
        self.tally.decisions += len(ledger.decisions)
        self.tally.rewards += len(ledger.rewards)
        self.tally.changes += len(ledger.changes)
        assert self.server.client.ask("DELETE", path).status == 204

    def _kill_under_load(self, name: str, ledger: Ledger) -> None:
        uptime, unanswered = self._rng.uniform(0.0, MAX_UPTIME), len(ledger.unanswered)
        killer = threading.Timer(uptime, self.server.kill)
        killer.start()
        traffic = Traffic(name, ledger, self._rng.getrandbits(32), with_changes=True)
        asyncio.run(traffic.run(self.server.url, CONNECTIONS, MAX_UPTIME + 10))
        killer.join()
        self.tally.kills += 1
        self.tally.unanswered += len(ledger.unanswered) - unanswered

    def _restart(self, goal: int) -> None:
        while self.tally.kills < goal and self._rng.random() < KILLED_AT_START:
            self._start(wait=False)
            time.sleep(self._rng.uniform(0.0, MAX_UPTIME))
            self.server.kill()
            self.tally.kills += 1
            self.tally.kills_at_start += 1
        start = time.perf_counter()
        self._start()
        self.tally.restarts.append(time.perf_counter() - start)

    def _start(self, wait: bool = True) -> None:
        """Start the server on the next processor."""
        self.server.environment = next(self._machines).environment()
        self.server.start(wait=wait)

    def _check(self, name: str, ledger: Ledger) -> None:
        retry_unanswered(self.server.client, ledger)
        events = self.server.client.events(name)
        audit(ledger, events)
        view = self.server.client.get(f"/v1/experiments/{name}").data
        changes = self.server.client.changes(name)
        lost = ledger.changes.keys() - stored_reasons(self.server.store, name)
        assert not lost, f"acknowledged changes are not among the events: {sorted(lost)[:5]}"
        audit_changes(ledger, changes, view["settings"]["holdout"])
        if view["settings"]["reward_timeout"] is None:  # otherwise timeouts are events too
            numbers = {event["sequence"] for event in (*events, *changes)}
            decisions = {event["sequence"] for event in events if event["event"] == "decision"}
            # Only the takeover before the first decision of a process is not exported.
            missing = set(range(1, view["sequence"] + 1)) - numbers - {1}
            assert {number + 1 for number in missing} <= decisions, "gap in the event log"
            assert len(missing) <= self.tally.kills, "gap in the event log"
        counts = view["counts"]
        assert 2 * counts["decisions"] == sum(counts.values()), counts
        replay(self.server.store, identically=self._identically)


@contextmanager
def stores(names: Sequence[str]) -> Iterator[dict[str, list[str]]]:
    """Prepare a database of each kind; yield the flags that select it, by name."""
    with tempfile.TemporaryDirectory(prefix="glcb-crash-test-") as folder:
        flags = {"sqlite": ["--data", f"{folder}/glcb.db"]}
        if "postgres" not in names:
            yield flags
            return
        with postgres.cluster() as cluster:
            yield {**flags, "postgres": ["--database", cluster.url]}


def main() -> None:
    """Run the crash test on each database and print a summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--stores", nargs="+", choices=("sqlite", "postgres"), default=["sqlite", "postgres"])
    parser.add_argument("--seed", type=int, default=10_000)
    parser.add_argument("--processors", nargs="+", default=["host"], help="names in LLVM, used in turn")
    chosen = parser.parse_args()
    names = [name for name in chosen.stores if name != "postgres" or postgres.binaries()]
    if len(names) < len(chosen.stores):
        print("PostgreSQL is not installed: skipped")
    with stores(names) as flags:
        for name in names:
            test, start = CrashTest(flags[name], chosen.seed, chosen.processors), time.perf_counter()
            try:
                tally = test.run(chosen.kills)
            finally:
                test.close()
            print(
                f"{name}: {tally.kills} kills ({tally.kills_at_start} of them during startup) in "
                f"{time.perf_counter() - start:,.0f} s; {tally.decisions:,} decisions, {tally.rewards:,} "
                f"rewards and {tally.changes:,} changes of settings acknowledged, all present exactly once; "
                f"{tally.unanswered:,} requests unanswered; "
                f"all replays agree; slowest restart {max(tally.restarts):.1f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
