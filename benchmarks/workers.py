"""Crash test of a service with several workers; part of ``make soak``.

Some nodes on this machine serve one PostgreSQL. Each is a parent with workers, which reach those of the other
nodes over TCP; the kernels of each node are compiled for another processor. Under load, workers and whole
nodes are killed (SIGKILL), or stopped (SIGSTOP) until others have taken over, and then continued (SIGCONT),
also while experiments move. After every time, everything that was acknowledged must be present exactly once
and unchanged, and a replay of all events must agree (``glcb audit``). Experiments whose owner was not hit
must answer all the time. Between kills, experiments are moved, workers drained and all workers restarted,
which must not reject a request.
"""

import argparse
import asyncio
import contextlib
import math
import os
import random
import signal
import socket
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.crash_test import KINDS
from benchmarks.service import postgres
from benchmarks.service.audit import audit, replay
from benchmarks.service.client import Answer, Client
from benchmarks.service.server import Server
from benchmarks.service.traffic import EXPERIMENT, Ledger, SentRequest, Traffic, retry_unanswered
from benchmarks.service.wire import Wire
from glcb.service.storage.ownership import partition_of

NODES, WORKERS = 2, 2
"""Nodes, and workers of each."""
PROCESSORS = ("host", "ivybridge")
EXPERIMENTS = 6
UPTIME = (0.5, 1.5)
"""Seconds under load before something is hit."""
RECOVERY_SECONDS = 90.0
KILLS = (
    *("kill worker", "kill worker while moving", "stop worker", "kill worker", "kill node"),
    *("stop worker while moving", "kill worker", "stop node"),
)
MOVES = ("move", "drain", "restart")
"""What must not reject a request."""
MOVE_EVERY, DRAIN_EVERY, RESTART_EVERY = 5, 10, 25
"""Experiments are moved, a worker drained, and all workers restarted, after these numbers of kills."""
WAYS_PER_EXPERIMENT = 10
"""New experiments start after this number of kills and moves, so that the replayed log stays short."""
PATIENCE = 5.0
"""Seconds after which a client gives up on a connection, and connects to another node."""


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
    """Seconds until an experiment answered again, by way."""
    pauses: dict[str, list[float]] = field(default_factory=dict)
    """Seconds of the slowest response while experiments moved, by way."""
    slowest_other: float = 0.0
    """Seconds of the slowest response of an experiment whose owner was not hit."""


class PatientTraffic(Traffic):
    """Traffic that goes to any node, and to another one if a connection breaks or hangs."""

    async def run_on(self, urls: Callable[[], Sequence[str]], choice: random.Random) -> None:
        """Send requests over one connection at a time, until canceled."""
        while True:
            await self.run(choice.choice(urls()), 1, math.inf)
            await asyncio.sleep(0.05)

    async def _ask(self, wire: Wire, request: SentRequest) -> str | None:
        try:
            async with asyncio.timeout(PATIENCE):
                return await super()._ask(wire, request)
        except TimeoutError:  # the request was noted as unanswered
            raise ConnectionError from None


class Node:
    """A parent and its workers."""

    def __init__(self, url: str, number: int, workers: int, *flags: str) -> None:
        self.number = number
        self.ports = range(port := _free_ports(100 * number, workers), port + workers)
        address = ("--set", f"inner_address=127.0.0.1:{port}")
        processor = PROCESSORS[number % len(PROCESSORS)]
        environment = {} if processor == "host" else {"NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": ""}
        count = ("--workers", str(workers))
        self.server = Server(["--database", url], *count, *address, *flags, environment=environment)
        self.is_hit = False

    def owns(self, worker: str) -> bool:
        """Return whether this is the node of a worker."""
        return int(worker.rpartition("-")[2]) in self.ports

    def processes(self) -> list[int]:
        """Return the parent and its workers."""
        return [self.server.pid, *children(self.server.pid)]

    def kill(self) -> None:
        """Kill all processes at once."""
        for process in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.server.kill()


def _free_ports(offset: int, count: int) -> int:
    """Return the first of some successive ports that are free now, different ones for each offset."""
    for first in range(20_000 + os.getpid() % 9000 + offset, 32_000, count):
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            for port in range(first, first + count):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
            return first
    raise OSError("there are no free ports")


def children(process: int) -> list[int]:
    """Return the running child processes of a process (Linux)."""
    with contextlib.suppress(OSError), open(f"/proc/{process}/task/{process}/children") as file:  # noqa: PTH123
        return [int(one) for one in file.read().split()]
    return []


@dataclass
class Outage:
    """What clients saw of an outage."""

    rejected: int
    """Responses with status 503."""
    unanswered: int
    """Requests whose connection broke, or whose client lost its patience."""
    healed: float
    """Seconds after the end until all experiments answered."""
    slowest: float
    same_processes: bool
    """Whether no worker was replaced."""


class Proxy:
    """A proxy for TCP, which can drop everything without closing a connection."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self._open.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def start(self, target: str) -> None:
        """Pass connections on to an address."""
        threading.Thread(target=self._accept, args=(target,), daemon=True).start()

    def drop(self) -> None:
        """Drop everything from now on."""
        self._open.clear()

    def restore(self) -> None:
        """Pass everything on again, also what was dropped: like TCP, which repeats it."""
        self._open.set()

    def _accept(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._open.wait()
                server = socket.create_connection((host, int(port)))
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=self._copy, args=pair, daemon=True).start()

    def _copy(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                self._open.wait()
                target.sendall(data)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Accept nothing more."""
        self._listener.close()


class WorkersTest:
    """A service whose workers and nodes are killed again and again.

    Clients wait for ``pause`` seconds after a decision and its reward.
    """

    def __init__(
        self, url: str, seed: int, nodes: int = NODES, workers: int = WORKERS, pause: float = 0.005
    ) -> None:
        self.tally = Tally()
        self._rng = random.Random(seed)
        self._pause = pause
        self._store = ("--database", url)
        flags = ("--set", "snapshot_seconds=0.2")
        self.nodes = [Node(url, number, workers, *flags) for number in range(nodes)]
        self._count = nodes * workers
        self._ledgers: dict[str, Ledger] = {}
        self._hit: set[str] = set()
        """Experiments whose owner was hit."""

    def start(self) -> None:
        """Start all nodes."""
        for node in self.nodes:  # one after the other: the first one may have to compile kernels
            node.server.start(seconds=RECOVERY_SECONDS)
        self.await_all()

    def run(self, ways: Sequence[str], minutes: float = math.inf) -> Tally:
        """Kill and move in these ways, for some minutes; raise if anything acknowledged is lost."""
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

    # ---- outages --------------------------------------------------------------------------------

    def lose(self, lose: Callable[[], None], restore: Callable[[], None], seconds: float) -> "Outage":
        """Take something away under load for some seconds; return what clients saw. Nothing may be lost."""
        self._create_experiments(len(self.tally.ways))
        over, times = threading.Event(), list[float]()

        def outage() -> None:
            time.sleep(3.0)
            lose()
            times.append(time.monotonic())
            time.sleep(seconds)
            restore()
            times.append(time.monotonic())
            for name in self._ledgers:
                answered = self._ask("POST", f"/v1/experiments/{name}/explanations", {"context": {}})
                assert answered.status != 503
            times.append(time.monotonic())
            time.sleep(1.0)
            over.set()

        thread = threading.Thread(target=outage)
        thread.start()
        slowest = asyncio.run(self._traffic(over))
        thread.join()
        counts = [ledger.refused.get(503, 0) for ledger in self._ledgers.values()]
        unanswered = sum(len(ledger.unanswered) for ledger in self._ledgers.values()) - sum(counts)
        workers = {one["name"]: one["process"] for one in self.workers()}
        self._check()
        same = workers == {one["name"]: one["process"] for one in self.workers()}
        self._forget_experiments()
        return Outage(sum(counts), unanswered, times[2] - times[1], max(slowest.values()), same)

    def divert(self, proxies: "Sequence[Proxy]") -> None:
        """Let workers reach each other through proxies. Call it before they do."""
        with postgres_connection(self._store[1]) as connection:
            found = connection.exec_driver_sql("SELECT name, address FROM glcb_workers ORDER BY name").all()
            for (name, address), proxy in zip(found, proxies, strict=True):
                proxy.start(address)
                connection.exec_driver_sql(
                    f"UPDATE glcb_workers SET address = '{proxy.address}' WHERE name = '{name}'"
                )
            connection.commit()
        time.sleep(2.0)  # all workers have read it

    def close(self) -> None:
        """End everything."""
        for node in self.nodes:
            with contextlib.suppress(AssertionError):
                node.kill()
            node.server.close()

    # ---- the service ----------------------------------------------------------------------------

    @property
    def client(self) -> Client:
        """A client of a node that is not hit."""
        return Client(self._urls()[0], timeout=PATIENCE)

    def _urls(self) -> list[str]:
        return [node.server.url for node in self.nodes if not node.is_hit]

    def workers(self) -> list[dict[str, Any]]:
        """List the workers, as soon as a worker answers."""
        found: list[dict[str, Any]] = self._ask("GET", "/v1/workers").data["workers"]
        return found

    def _ask(self, method: str, path: str, body: Any = None) -> Answer:
        """Send a request until it is answered with something other than 503."""
        deadline = time.monotonic() + RECOVERY_SECONDS
        while True:
            with contextlib.suppress(OSError):
                answer = self.client.ask(method, path, body)
                if answer.status != 503:
                    return answer
            assert time.monotonic() < deadline, f"{method} {path} is not answered:\n{self._output()}"
            time.sleep(0.05)

    def _output(self) -> str:
        return "\n".join(node.server.output()[-3000:] for node in self.nodes)

    def await_all(self) -> None:
        """Wait until all workers are ready, and own what they should."""

        def is_settled(found: list[dict[str, Any]]) -> bool:
            ready = [one for one in found if one["state"] == "ready" and not one["restarting"]]
            owned = [one["partitions"] for one in ready if not one["draining"]]
            share = math.ceil(256 / max(1, len(owned)))
            return len(ready) == len(found) == self._count and sum(owned) == 256 and max(owned) <= share

        self._await(is_settled, "not all workers are ready")

    def _await(self, condition: Callable[[list[dict[str, Any]]], bool], problem: str) -> None:
        deadline = time.monotonic() + RECOVERY_SECONDS
        while not condition(self.workers()):
            assert time.monotonic() < deadline, f"{problem}: {self.workers()}\n{self._output()}"
            time.sleep(0.1)

    def _owners(self) -> dict[str, str]:
        """Return the worker of each experiment."""
        with postgres_connection(self._store[1]) as connection:
            rows = connection.exec_driver_sql(
                "SELECT number, w.name FROM glcb_partitions JOIN glcb_workers AS w ON worker = incarnation"
            )
            names = dict(map(tuple, rows))
        return {name: names.get(partition_of(name), "") for name in self._ledgers}

    # ---- experiments ----------------------------------------------------------------------------

    def _create_experiments(self, number: int) -> None:
        self._forget_experiments()
        for place in range(EXPERIMENTS):
            name = f"e{number}-{place}"
            settings = {**EXPERIMENT, **KINDS[(number + place) % len(KINDS)]}
            made = self._ask("PUT", f"/v1/experiments/{name}", settings)
            assert made.status in (200, 201), made
            self._ledgers[name] = Ledger()

    def _forget_experiments(self) -> None:
        for name, ledger in self._ledgers.items():
            self.tally.decisions += len(ledger.decisions)
            self.tally.rewards += len(ledger.rewards)
            self.tally.unanswered += len(ledger.unanswered)
            assert self._ask("DELETE", f"/v1/experiments/{name}").status == 204
        self._ledgers = {}

    def _check(self) -> None:
        self.await_all()
        for name, ledger in self._ledgers.items():
            retry_unanswered(self.client, ledger)
            audit(ledger, self.client.events(name))
            counts = self.client.get(f"/v1/experiments/{name}").data["counts"]
            assert 2 * counts["decisions"] == sum(counts.values()), counts
        replay(self._store, identically=len(self.nodes) == 1)

    # ---- kills and moves ------------------------------------------------------------------------

    def _strike(self, way: str) -> None:
        """Hit or move something under load, and wait until all experiments answer again."""
        over = threading.Event()
        seconds: list[float] = []
        failure: list[BaseException] = []

        def strike() -> None:
            try:
                time.sleep(self._rng.uniform(*UPTIME))
                seconds.extend(self._strike_now(way))
                time.sleep(0.5)
            except BaseException as error:
                failure.append(error)
            finally:
                over.set()

        self._hit = set()
        before = {name: ledger.refused.get(503, 0) for name, ledger in self._ledgers.items()}
        thread = threading.Thread(target=strike)
        thread.start()
        slowest = asyncio.run(self._traffic(over))
        thread.join()
        if failure:
            raise failure[0]
        self.tally.ways.append(way)
        if seconds:
            self.tally.recoveries.setdefault(way, []).extend(seconds)
        for name, ledger in self._ledgers.items():
            if name in self._hit:
                continue
            refused = ledger.refused.get(503, 0) - before[name]
            assert refused == 0, f"{way}: {refused} requests to {name}, which was not hit, were rejected"
            if way in MOVES:
                self.tally.pauses.setdefault(way, []).append(slowest[name])
            else:
                self.tally.slowest_other = max(self.tally.slowest_other, slowest[name])

    async def _traffic(self, over: threading.Event) -> dict[str, float]:
        """Send requests to all experiments until ``over``; return the slowest response of each."""
        clients = {
            name: PatientTraffic(name, ledger, self._rng.getrandbits(32), pause=self._pause)
            for name, ledger in self._ledgers.items()
        }
        running = [
            asyncio.create_task(client.run_on(self._urls, random.Random(self._rng.getrandbits(32))))
            for client in clients.values()
            for _ in range(2)
        ]
        while not over.is_set() and not any(task.done() for task in running):
            await asyncio.sleep(0.02)
        for task in running:
            task.cancel()
        for end in await asyncio.gather(*running, return_exceptions=True):
            if isinstance(end, Exception):
                raise end
        return {name: client.slowest for name, client in clients.items()}

    def _strike_now(self, way: str) -> Iterator[float]:
        if way == "move":
            self._move_experiments()
        elif way == "drain":
            self._drain()
        elif way == "restart":
            self._restart()
        elif way.endswith("node"):
            yield from self._strike_node(way)
        else:
            victim = self._rng.choice(self.workers())
            self._note_hits({victim["name"]}.__contains__)  # requests may be on their way to it
            if way.endswith("moving"):
                self._move_experiments(wait=False)
                time.sleep(self._rng.uniform(0, 1.5))
            yield from self._strike_worker(way, victim)
            if way.endswith("moving"):
                self._end_moves()

    def _move_experiments(self, wait: bool = True) -> None:
        """Move all experiments to any workers."""
        names = [one["name"] for one in self.workers() if one["state"] == "ready"]
        wanted = {name: self._rng.choice(names) for name in self._ledgers}
        for name, worker in wanted.items():
            answer = self._ask("POST", "/v1/workers/move", {"experiment": name, "worker": worker})
            assert answer.status == 202, answer
        if wait:
            last = {partition_of(name): worker for name, worker in wanted.items()}
            self._await_owners({name: last[partition_of(name)] for name in wanted})
            self._end_moves()

    def _await_owners(self, wanted: dict[str, str]) -> None:
        deadline = time.monotonic() + RECOVERY_SECONDS
        while self._owners() != wanted:
            assert time.monotonic() < deadline, f"{self._owners()} instead of {wanted}\n{self._output()}"
            time.sleep(0.05)

    def _end_moves(self) -> None:
        for name in self._ledgers:
            answer = self._ask("POST", "/v1/workers/move", {"experiment": name, "worker": None})
            assert answer.status == 202, answer

    def _drain(self) -> None:
        victim = self._rng.choice(self.workers())["name"]
        assert self._ask("PATCH", f"/v1/workers/{victim}", {"draining": True}).status == 200
        self._await(
            lambda now: all(one["partitions"] == 0 for one in now if one["name"] == victim),
            f"{victim} was not drained",
        )
        assert self._ask("PATCH", f"/v1/workers/{victim}", {"draining": False}).status == 200
        self.await_all()

    def _restart(self) -> None:
        before = {one["name"]: one["process"] for one in self.workers()}
        assert self._ask("POST", "/v1/workers/restart").status == 202
        self._await(
            lambda now: (
                len(now) == len(before)
                and all(one["state"] == "ready" and one["process"] != before[one["name"]] for one in now)
            ),
            "not all workers were restarted",
        )
        self.await_all()

    def _strike_worker(self, way: str, victim: dict[str, Any]) -> Iterator[float]:
        """Kill or stop a worker."""
        stops = way.startswith("stop")
        self._note_hits(is_victim := {victim["name"]}.__contains__)
        os.kill(victim["process"], signal.SIGSTOP if stops else signal.SIGKILL)
        yield from self._await_answers(time.perf_counter(), is_victim)
        if stops:
            self._continue([victim["process"]])

    def _strike_node(self, way: str) -> Iterator[float]:
        """Kill or stop a node, and start it again."""
        node = self._rng.choice(self.nodes)
        self._note_hits(node.owns)
        node.is_hit = True
        stopped = node.processes()
        if way == "kill node":
            node.kill()
        else:
            for process in stopped:
                os.kill(process, signal.SIGSTOP)
        yield from self._await_answers(time.perf_counter(), node.owns)
        if way == "stop node":
            self._continue(stopped)
            time.sleep(1.0)  # its workers notice that they have been replaced, and are started again
        else:
            node.server.start(seconds=RECOVERY_SECONDS)
        node.is_hit = False

    def _note_hits(self, is_victim: Callable[[str], bool]) -> None:
        """Note which experiments a victim owns, and those that nobody owns."""
        self._hit |= {name for name, owner in self._owners().items() if not owner or is_victim(owner)}

    def _await_answers(self, began: float, is_victim: Callable[[str], bool]) -> Iterator[float]:
        """Yield the seconds after which each experiment that was hit answers again."""
        self._note_hits(is_victim)
        waiting = set(self._hit)
        deadline = time.monotonic() + RECOVERY_SECONDS
        while waiting:
            before = set(self._hit)
            self._note_hits(is_victim)  # another worker may just have given it one
            waiting |= self._hit - before
            for name in sorted(waiting):
                with contextlib.suppress(OSError):
                    client = Client(self._rng.choice(self._urls()), timeout=1.0)
                    answer = client._ask(
                        "POST", f"/v1/experiments/{name}/explanations", {"context": {}}, None, None
                    )
                    if answer.status != 503:
                        waiting.discard(name)
                        yield time.perf_counter() - began
            assert time.monotonic() < deadline, f"{waiting} do not answer again:\n{self._output()}"
            time.sleep(0.02)

    def _continue(self, processes: list[int]) -> None:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)
                self.tally.survivors += 1


@contextlib.contextmanager
def postgres_connection(url: str) -> Iterator[Any]:
    """Yield a connection of its own to the database."""
    from sqlalchemy import create_engine

    from glcb.service.storage.connection import parse_url

    engine = create_engine(parse_url(url))
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


def schedule(kills: int) -> list[str]:
    """Return the kills in order, with moves between them."""
    ways = []
    for number in range(1, kills + 1):
        ways.append(KILLS[(number - 1) % len(KILLS)])
        for way, every in zip(MOVES, (MOVE_EVERY, DRAIN_EVERY, RESTART_EVERY), strict=True):
            ways += [way] if number % every == every // 2 else []
    return ways


def summary(tally: Tally) -> str:
    """Return the result in words."""
    kills = [way for way in tally.ways if way not in MOVES]
    lines = [
        f"{len(kills)} kills and stops, {len(tally.ways) - len(kills)} moves, drains and restarts; "
        f"{tally.decisions:,} decisions and {tally.rewards:,} rewards acknowledged, all present once; "
        f"{tally.unanswered:,} requests unanswered; all replays agree; {tally.survivors} stopped processes "
        "still existed when they were continued; no request to an experiment whose owner was not hit was "
        f"rejected, the slowest response took {tally.slowest_other:.2f} s",
        *_lines(tally, tally.recoveries, "answered again after"),
        *_lines(tally, tally.pauses, "slowest response"),
    ]
    return "\n".join(lines)


def _lines(tally: Tally, by_way: dict[str, list[float]], what: str) -> list[str]:
    return [
        f"{way}: {tally.ways.count(way)} times, {len(seconds)} experiments {what} p50 "
        f"{statistics.median(seconds):.2f} s, worst {max(seconds):.2f} s"
        for way, seconds in sorted(by_way.items())
    ]


def main() -> None:
    """Run the crash test and print a summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=math.inf, help="end earlier, after these minutes")
    parser.add_argument("--seed", type=int, default=10_000)
    parser.add_argument("--outage", type=float, default=30.0, help="seconds without PostgreSQL or network")
    chosen = parser.parse_args()
    with postgres.cluster("max_connections = 500") as database:
        test = WorkersTest(database.url, chosen.seed)
        try:
            test.start()
            try:
                test.run(schedule(chosen.kills), chosen.minutes)
            finally:
                print(summary(test.tally), flush=True)
            lost = test.lose(lambda: database.stop("immediate"), database.start, chosen.outage)
            print(f"{chosen.outage:g} s without PostgreSQL: {lost}", flush=True)
        finally:
            test.close()
    if chosen.outage:
        print(f"{chosen.outage:g} s without network between workers: {lose_network(chosen)}", flush=True)


def lose_network(chosen: argparse.Namespace) -> Outage:
    """Let nothing pass between two workers, which clients and PostgreSQL still reach."""
    with postgres.cluster("max_connections = 500") as database:
        test = WorkersTest(database.url, chosen.seed, nodes=2, workers=1)
        proxies = [Proxy(), Proxy()]
        try:
            for node in test.nodes:
                node.server.start(seconds=RECOVERY_SECONDS)
            test.divert(proxies)
            test.await_all()

            def each(action: Callable[[Proxy], None]) -> None:
                for proxy in proxies:
                    action(proxy)

            return test.lose(lambda: each(Proxy.drop), lambda: each(Proxy.restore), chosen.outage)
        finally:
            test.close()
            for proxy in proxies:
                proxy.close()


if __name__ == "__main__":
    main()
