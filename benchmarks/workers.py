"""Crash test of a service with shards on a Ray cluster; part of ``make soak``.

A cluster of a head and two nodes on this machine serves one experiment per shard from a real PostgreSQL.
Under load, processes of shards and whole nodes are killed (SIGKILL), or stopped (SIGSTOP) until others have
taken over, and then continued (SIGCONT). After every time, everything that was acknowledged must be present
exactly once and unchanged, and a replay of all events must agree (``glcb audit``). Shards that were not hit
must answer all the time. Between kills, nodes are drained and all shards restarted, which must not refuse a
request, and processes are killed while they move. A node joins after every node that was lost, and shards
move to it. At the end the head is killed, and a new cluster must find everything.
"""

import argparse
import asyncio
import contextlib
import math
import os
import random
import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.crash_test import KINDS
from benchmarks.service import postgres
from benchmarks.service.audit import audit, replay
from benchmarks.service.server import Server
from benchmarks.service.traffic import EXPERIMENT, Ledger, Traffic, retry_unanswered
from glcb.service.storage.ownership import shard_of

SHARDS = 4
CONNECTIONS = 2
"""Connections per experiment."""
UPTIME = (0.5, 1.5)
"""Seconds under load before something is killed."""
RECOVERY_SECONDS = 180.0
KILLS = (
    *("kill process", "kill process", "kill while moving", "stop process", "kill process"),
    *("kill node", "kill while moving", "stop node"),
)
DRAIN_EVERY, RESTART_EVERY = 10, 25
"""A node is drained, and all shards are restarted, after these numbers of kills."""
MOVES = ("drain node", "restart")
"""What must not refuse a request."""
MOVING_SECONDS = 6.0
"""A process is killed within this time after its node is drained: before, while or after it moves."""
WAYS_PER_EXPERIMENT = 10
"""New experiments start after this number of kills and moves, so that the replayed log stays short."""
FLAGS = ("--executor", "ray", "--set", "snapshot_seconds=0.2")
HEALTH_CHECKS = {
    "health_check_initial_delay_ms": 1000,
    "health_check_period_ms": 1000,
    "health_check_timeout_ms": 2000,
    "health_check_failure_threshold": 3,
}
"""Ray notices a node that hangs after some seconds. By default, it takes longer."""


@dataclass
class Tally:
    """The counts of a crash test."""

    ways: list[str] = field(default_factory=list)
    decisions: int = 0
    rewards: int = 0
    unanswered: int = 0
    survivors: int = 0
    """Processes that were stopped, replaced, and continued while they still existed."""
    recoveries: dict[str, list[float]] = field(default_factory=dict)
    """Seconds until a shard answered again, by way."""
    pauses: dict[str, list[float]] = field(default_factory=dict)
    """Seconds of the slowest response of a shard that moved, by way."""
    slowest_other: float = 0.0
    """Seconds of the slowest response of a shard that was not hit."""


class RayCluster:
    """A head without shards of its own, if Ray places them so, and two nodes."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": 80_000_000}
        self._cluster = Cluster(
            initialize_head=True, head_node_args={**head, "_system_config": HEALTH_CHECKS}
        )
        self.nodes: list[Any] = []
        self.add_node()
        self.add_node()

    @property
    def address(self) -> str:
        """The address of the head."""
        return str(self._cluster.address)

    def add_node(self) -> None:
        """Start a node."""
        self.nodes.append(self._cluster.add_node(num_cpus=1, object_store_memory=80_000_000))

    def kill_node(self, node: Any) -> None:
        """Kill all processes of a node."""
        self.nodes.remove(node)
        with contextlib.suppress(Exception):
            self._cluster.remove_node(node, allow_graceful=False)

    def processes_of(self, node: Any) -> list[int]:
        """Return the main process of a node, and its workers."""
        infos = node.all_processes["raylet"]
        main = int(infos[0].process.pid)
        return [main, *_children(main)]

    def kill_head(self) -> None:
        """Kill the head."""
        with contextlib.suppress(Exception):
            self._cluster.remove_node(self._cluster.head_node, allow_graceful=False)

    def close(self) -> None:
        """End the cluster."""
        with contextlib.suppress(Exception):
            self._cluster.shutdown()


class ShardTest:
    """A front end on a Ray cluster, whose shards are killed again and again.

    Clients wait for ``pause`` seconds after a decision and its reward.
    """

    def __init__(self, url: str, seed: int, shards: int = SHARDS, pause: float = 0.0) -> None:
        self.tally = Tally()
        self._rng = random.Random(seed)
        self._url = url
        self._shards = shards
        self._pause = pause
        self._cluster = RayCluster()
        self.server = self._front_end()
        self._ledgers: dict[str, Ledger] = {}

    def _front_end(self) -> Server:
        flags = (*FLAGS, "--address", self._cluster.address, "--workers", str(self._shards))
        return Server(["--database", self._url], *flags)

    def run(self, ways: list[str], minutes: float = math.inf) -> Tally:
        """Kill in these ways, for some minutes; raise if anything acknowledged is lost."""
        self.server.start(seconds=RECOVERY_SECONDS)
        began = time.monotonic()
        for number, way in enumerate(ways):
            if time.monotonic() > began + 60 * minutes:
                break
            if number % WAYS_PER_EXPERIMENT == 0:
                self._create_experiments(number)
            self._strike(way)
            self._check()
            spent = time.monotonic() - began
            print(f"{spent:.0f} s: {number + 1} of {len(ways)}: {way}", file=sys.stderr, flush=True)
        self._forget_experiments()
        return self.tally

    def lose_head(self) -> float:
        """Kill the head, start a new cluster; return the seconds until it has everything again."""
        self._create_experiments(len(self.tally.ways))
        asyncio.run(self._traffic(threading.Event(), 2.0))
        self._cluster.kill_head()
        asyncio.run(self._traffic(threading.Event(), 2.0))  # shards and front ends may still answer
        started = time.perf_counter()
        self.server.close()
        self._cluster.close()
        self._cluster = RayCluster()
        self.server = self._front_end().start(seconds=RECOVERY_SECONDS)
        seconds = time.perf_counter() - started
        self._check()
        self._forget_experiments()
        return seconds

    def close(self) -> None:
        """End everything."""
        self.server.close()
        self._cluster.close()

    # ---- experiments ----------------------------------------------------------------------------

    def _create_experiments(self, number: int) -> None:
        """Create one experiment in each shard."""
        self._forget_experiments()
        for shard in range(self._shards):
            name = self._name(number, shard)
            settings = {**EXPERIMENT, **KINDS[(number + shard) % len(KINDS)]}
            made = self.server.client.put(f"/v1/experiments/{name}", settings)
            assert made.status == 201, made
            self._ledgers[name] = Ledger()

    def _name(self, number: int, shard: int) -> str:
        """Return a name of an experiment that belongs to a shard."""
        names = (f"e{number}-{shard}-{attempt}" for attempt in range(1000))
        return next(name for name in names if shard_of(name, self._shards) == shard)

    def _forget_experiments(self) -> None:
        for name, ledger in self._ledgers.items():
            self.tally.decisions += len(ledger.decisions)
            self.tally.rewards += len(ledger.rewards)
            self.tally.unanswered += len(ledger.unanswered)
            assert self.server.client.ask("DELETE", f"/v1/experiments/{name}").status == 204
        self._ledgers = {}

    def _check(self) -> None:
        for name, ledger in self._ledgers.items():
            retry_unanswered(self.server.client, ledger)
            audit(ledger, self.server.client.events(name))
            counts = self.server.client.get(f"/v1/experiments/{name}").data["counts"]
            assert 2 * counts["decisions"] == sum(counts.values()), counts
        replay(self.server.store)

    # ---- kills ----------------------------------------------------------------------------------

    def _strike(self, way: str) -> None:
        """Kill or stop something under load, and wait until its shards answer again."""
        over = threading.Event()
        seconds: list[float] = []
        failure: list[BaseException] = []

        def strike() -> None:
            try:
                time.sleep(self._rng.uniform(*UPTIME))
                seconds.extend(self._strike_now(way))
                time.sleep(0.3)
            except BaseException as error:
                failure.append(error)
            finally:
                over.set()

        before = {name: dict(ledger.refused) for name, ledger in self._ledgers.items()}
        thread = threading.Thread(target=strike)
        thread.start()
        slowest = asyncio.run(self._traffic(over, 2 * RECOVERY_SECONDS))
        thread.join()
        if failure:
            raise failure[0]
        if way.endswith("node"):
            self._cluster.add_node()  # Ray does this in the main thread only
        self.tally.ways.append(way)
        if seconds:
            self.tally.recoveries.setdefault(way, []).extend(seconds)
        for name, ledger in self._ledgers.items():
            shard = shard_of(name, self._shards)
            if shard in self._hit:
                continue
            refused = ledger.refused.get(503, 0) - before[name].get(503, 0)
            assert refused == 0, (
                f"{way}: {refused} requests to shard {shard}, which was not hit, were refused"
            )
            if shard in self._moved:
                self.tally.pauses.setdefault(way, []).append(slowest[name])
            else:
                self.tally.slowest_other = max(self.tally.slowest_other, slowest[name])

    async def _traffic(self, over: threading.Event, seconds: float) -> dict[str, float]:
        """Send requests to all experiments until ``over``; return the slowest response of each."""
        clients = {
            name: Traffic(name, ledger, self._rng.getrandbits(32), pause=self._pause)
            for name, ledger in self._ledgers.items()
        }
        running = [
            asyncio.create_task(client.run(self.server.url, CONNECTIONS, seconds))
            for client in clients.values()
        ]
        while not over.is_set() and not all(task.done() for task in running):
            await asyncio.sleep(0.05)
        for task in running:
            task.cancel()
        for end in await asyncio.gather(*running, return_exceptions=True):
            if isinstance(end, Exception):
                raise end
        return {name: client.slowest for name, client in clients.items()}

    def _strike_now(self, way: str) -> Iterator[float]:
        self._await_all()
        self._hit: set[int] = set()
        shards = self._list_shards()
        self._moved = set(shards) if way == "restart" else set()
        if way == "restart":
            self._restart(shards)
        elif way in ("drain node", "kill while moving"):
            yield from self._drain(shards, kill=way == "kill while moving")
        elif way.endswith("process"):
            yield from self._strike_process(self._rng.choice(list(shards.values())), way)
        else:
            yield from self._strike_node(shards, way)
        after = self._list_shards()
        self._moved |= {
            number for number, one in after.items() if one["generation"] > shards[number]["generation"]
        }

    def _restart(self, shards: dict[int, dict[str, Any]]) -> None:
        answer = self.server.client.post("/v1/shards/restart", {})
        assert answer.status == 202, answer
        self._await(
            lambda now: all(now[one]["generation"] > shards[one]["generation"] for one in shards),
            "not all shards were restarted",
        )
        self._await_all()

    def _drain(self, shards: dict[int, dict[str, Any]], kill: bool) -> Iterator[float]:
        """Drain a node; kill one of its processes meanwhile, or the node when it is empty."""
        node = self._rng.choice([one["node"] for one in shards.values()])
        path = f"/v1/nodes/{node}"
        self._moved = {number for number, one in shards.items() if one["node"] == node}
        assert self.server.client.ask("PATCH", path, {"draining": True}).status == 200
        if kill:
            victim = self._rng.choice(sorted(self._moved))
            time.sleep(self._rng.uniform(0, MOVING_SECONDS))
            yield from self._strike_process(self._list_shards()[victim], "kill process")
        self._await(
            lambda now: all(one["state"] == "ready" and one["node"] != node for one in now.values()),
            f"{node} was not drained",
        )
        self._await_all()
        if kill:
            assert self.server.client.ask("PATCH", path, {"draining": False}).status == 200
        else:
            self._cluster.kill_node(next(one for one in self._cluster.nodes if one.node_id == node))

    def _strike_process(self, victim: dict[str, Any], way: str) -> Iterator[float]:
        """Kill or stop the process of a shard."""
        number, process = victim["number"], victim["process"]
        self._hit.add(number)
        with contextlib.suppress(ProcessLookupError, TypeError):  # it has just moved
            os.kill(process, signal.SIGSTOP if way == "stop process" else signal.SIGKILL)
        began = time.perf_counter()
        self._wait_for(number, process)
        yield time.perf_counter() - began
        if way == "stop process":
            self._continue([process])

    def _strike_node(self, shards: dict[int, dict[str, Any]], way: str) -> Iterator[float]:
        """Kill or stop a node."""
        node = self._rng.choice(self._cluster.nodes)
        stopped = self._cluster.processes_of(node)
        if way == "kill node":
            self._cluster.kill_node(node)
        else:
            for process in stopped:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGSTOP)
        began = time.perf_counter()
        for known in (shards, self._list_shards()):  # a shard may just have moved to the node
            self._hit |= {number for number, one in known.items() if one["node"] == node.node_id}
        for number in self._hit:
            self._wait_for(number, shards[number]["process"])
            yield time.perf_counter() - began
        if way == "stop node":
            self._continue(stopped)
            self._cluster.kill_node(node)

    def _continue(self, processes: list[int]) -> None:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)
                self.tally.survivors += 1

    def _list_shards(self) -> dict[int, dict[str, Any]]:
        return {one["number"]: one for one in self.server.client.get("/v1/shards").data["shards"]}

    def _wait_for(self, number: int, process: int) -> None:
        """Wait until another process answers for a shard."""
        self._await(
            lambda now: now[number]["state"] == "ready" and now[number]["process"] != process,
            f"shard {number} did not answer again",
        )

    def _await_all(self) -> None:
        """Wait until all shards answer."""
        self._await(lambda now: all(one["state"] == "ready" for one in now.values()), "not all shards answer")

    def _await(self, condition: Callable[[dict[int, dict[str, Any]]], bool], problem: str) -> None:
        deadline = time.monotonic() + RECOVERY_SECONDS
        while not condition(self._list_shards()):
            assert time.monotonic() < deadline, f"{problem}:\n{self.server.output()[-3000:]}"
            time.sleep(0.05)


def _children(process: int) -> list[int]:
    """Return the running child processes of a process (Linux)."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (folder / "stat").read_text().rpartition(")")[2].split()[1] == str(process):
                found.append(int(folder.name))
    return found


def schedule(kills: int) -> list[str]:
    """Return the kills in order, with moves between them."""
    ways = []
    for number in range(1, kills + 1):
        ways.append(KILLS[(number - 1) % len(KILLS)])
        ways += ["drain node"] if number % DRAIN_EVERY == DRAIN_EVERY // 2 else []
        ways += ["restart"] if number % RESTART_EVERY == RESTART_EVERY // 2 else []
    return ways


def summary(tally: Tally) -> str:
    """Return the result in words."""
    kills = [way for way in tally.ways if way not in MOVES]
    lines = [
        f"{len(kills)} kills and stops; nodes drained or all shards restarted {len(tally.ways) - len(kills)} "
        f"times; {tally.decisions:,} decisions and {tally.rewards:,} rewards acknowledged, all present "
        f"exactly once; {tally.unanswered:,} requests unanswered; all replays agree; {tally.survivors} "
        "stopped processes still existed when they were continued; no request to a shard that was not hit "
        f"was refused, the slowest response took {tally.slowest_other:.2f} s",
        *_lines(tally, tally.recoveries, "answered again after"),
        *_lines(tally, tally.pauses, "moved, slowest response"),
    ]
    return "\n".join(lines)


def _lines(tally: Tally, by_way: dict[str, list[float]], what: str) -> list[str]:
    return [
        f"{way}: {tally.ways.count(way)} times, {len(seconds)} shards {what} p50 "
        f"{statistics.median(seconds):.1f} s, worst {max(seconds):.1f} s"
        for way, seconds in sorted(by_way.items())
    ]


def main() -> None:
    """Run the crash test and print a summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=math.inf, help="end earlier, after these minutes")
    parser.add_argument("--seed", type=int, default=10_000)
    parser.add_argument("--head", action=argparse.BooleanOptionalAction, default=True)
    chosen = parser.parse_args()
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_prestart_worker_first_driver="0")
    with postgres.cluster("max_connections = 500") as database:
        test = ShardTest(database.url, chosen.seed)
        try:
            try:
                test.run(schedule(chosen.kills), chosen.minutes)
            finally:
                print(summary(test.tally), flush=True)
            if chosen.head:
                print(f"the head was lost: everything was there again after {test.lose_head():.0f} s")
        finally:
            test.close()


if __name__ == "__main__":
    main()
