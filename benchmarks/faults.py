"""Fault injection: each call to the database driver fails, hangs, or fails after it took effect.

Part of ``make soak``. A short run of all operations of the service is repeated, once for each call and each
kind of fault. Nothing acknowledged may be lost, requests must get an answer in time, and once the fault is
over, the same requests must succeed without a restart.
"""

import argparse
import asyncio
import sqlite3
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import msgspec
import psycopg
from sqlalchemy import event

from benchmarks.service import postgres
from glcb._api.requests import DecisionRequest, ExperimentChanges, ExperimentSettings, RewardItem
from glcb._api.responses import Decision
from glcb._errors import StorageError
from glcb.bandit import Bandit
from glcb.service.access.api_keys import Keyring
from glcb.service.config import ServiceSettings
from glcb.service.engine import snapshots
from glcb.service.engine.audit import audit_database
from glcb.service.engine.engine import Engine
from glcb.service.errors import ApiError
from glcb.service.http import export
from glcb.service.storage import tables
from glcb.service.storage.connection import sqlite_url
from glcb.service.storage.database import Database

T = TypeVar("T")
Kind = Literal["fail", "hang", "fail after"]
KINDS: tuple[Kind, ...] = get_args(Kind)

DEADLINE = 0.5
"""Seconds after which a call to the database counts as failed."""
PATIENCE = 20.0
"""Seconds within which every request must be answered, and a repeated request must succeed."""
HANG_SECONDS = 2.0
"""Length of a hang that no request detects."""
SETTINGS = ServiceSettings(snapshot_seconds=1e-9, keep_snapshots=1, storage_seconds=DEADLINE)
EXPERIMENT = ExperimentSettings(arms=["a", "b"], policy="linucb", reward_timeout=3600.0, default_reward=0.0)


class Faults:
    """Counts the calls to the driver of a database, and makes one of them fail."""

    def __init__(self) -> None:
        self.calls = 0
        self.released = threading.Event()
        self._target: tuple[int, Kind] | None = None
        self._lock = threading.Lock()

    def aim(self, call: int, kind: Kind) -> None:
        """Make call number ``call``, counted from now on, fail."""
        self.calls, self._target = 0, (call, kind)
        self.released.clear()

    def call(self, error: type[Exception], function: Callable[..., T], *arguments: Any) -> T:
        """Call a function of the driver, or fail with its own kind of error."""
        with self._lock:
            self.calls += 1
            target, number = self._target, self.calls
        if target is None or number != target[0]:
            return function(*arguments)
        if target[1] == "hang":
            self.released.wait(HANG_SECONDS)
            return function(*arguments)
        if target[1] == "fail after":
            function(*arguments)
        raise error("injected fault")


def inject(database: Database) -> Faults:
    """Count all calls that this database makes to its driver."""
    faults = Faults()
    connect = _sqlite_connect(faults) if database.is_sqlite else _postgres_connect(faults)
    event.listen(
        database.engine,
        "do_connect",
        lambda _dialect, _record, arguments, options: connect(*arguments, **options),
    )
    database.engine.dispose()
    return faults


def _sqlite_connect(faults: Faults) -> Callable[..., Any]:
    class Cursor(sqlite3.Cursor):
        def execute(self, *arguments: Any) -> Any:
            return faults.call(sqlite3.OperationalError, super().execute, *arguments)

        def executemany(self, *arguments: Any) -> Any:
            return faults.call(sqlite3.OperationalError, super().executemany, *arguments)

    class Connection(sqlite3.Connection):
        def cursor(self, *_: Any) -> Any:
            return super().cursor(Cursor)

        def commit(self) -> None:
            faults.call(sqlite3.OperationalError, super().commit)

    return lambda *arguments, **options: faults.call(
        sqlite3.OperationalError, lambda: sqlite3.connect(*arguments, factory=Connection, **options)
    )


def _postgres_connect(faults: Faults) -> Callable[..., Any]:
    class Cursor(psycopg.Cursor[Any]):
        def execute(self, *arguments: Any, **options: Any) -> Any:
            run = super().execute
            return faults.call(psycopg.OperationalError, lambda: run(*arguments, **options))

        def executemany(self, *arguments: Any, **options: Any) -> Any:
            run = super().executemany
            return faults.call(psycopg.OperationalError, lambda: run(*arguments, **options))

    class Connection(psycopg.Connection[Any]):
        def commit(self) -> None:
            faults.call(psycopg.OperationalError, super().commit)

    return lambda *arguments, **options: faults.call(
        psycopg.OperationalError,
        lambda: Connection.connect(*arguments, cursor_factory=Cursor, **options),
    )


class Run:
    """All operations of the service once, each repeated until it succeeds."""

    def __init__(self, database: Database, faults: Faults) -> None:
        self._database = database
        self._faults = faults
        self._keyring = Keyring(database)
        self._engine: Engine | None = None
        self.errors = 0
        """Number of requests that failed."""
        self.decisions: dict[str, Decision] = {}
        """Acknowledged decisions by idempotency key."""
        self.rewards: set[str] = set()
        """Acknowledged rewards, by decision."""

    @property
    def engine(self) -> Engine:
        """The engine, once it has started."""
        assert self._engine is not None
        return self._engine

    async def run(self) -> None:
        """Use the service, then stop it."""
        await self._repeat(self._start)
        await self._repeat(lambda: self.engine.create("home", EXPERIMENT))
        for number in range(6):
            await self._decide(f"visit {number}")
            await self._reward(f"visit {number}")
        await self._decide("visit 0")  # the answer is read from the database
        await self._repeat(lambda: self.engine.change("home", ExperimentChanges(exploration=0.2)))
        await self._repeat(self._keyring.reload)
        await self._repeat(self._reload)
        await self._decide("after the reload")
        await self._repeat(self._export)
        await self._repeat(self._prune)
        await self._repeat(lambda: self.engine.create("other", EXPERIMENT))
        await self._repeat(self._delete_other)
        await self._repeat(self.engine.tick)
        await self._reward("after the reload")
        await asyncio.wait_for(self.engine.stop(), PATIENCE)

    async def _start(self) -> None:
        engine = Engine(self._database, SETTINGS)
        try:
            await engine.start()
        except StorageError:
            await engine.journal.stop()
            raise
        self._engine = engine

    async def _decide(self, key: str) -> None:
        request = DecisionRequest(context={"age": len(key)}, idempotency_key=key)
        answer = await self._repeat(lambda: self.engine.apply("home", "decide", request))
        decision = msgspec.json.decode(answer, type=Decision)
        assert self.decisions.setdefault(key, decision) == decision, "one key, two decisions"

    async def _reward(self, key: str) -> None:
        item = RewardItem(id=self.decisions[key].id, value=1.0, idempotency_key=key)
        await self._repeat(lambda: self.engine.apply("home", "reward", item))
        self.rewards.add(item.id)

    async def _reload(self) -> None:
        if "home" in self.engine.loaded:
            await self.engine.cache.unload(self.engine.loaded["home"])
        await self.engine.read("home", lambda experiment: experiment.state.sequence)

    async def _export(self) -> None:
        number = self.engine.experiment_id("home")
        async for _chunk in export.stream(self._database, number, "jsonl", 0):
            pass

    async def _delete_other(self) -> None:
        try:
            await self.engine.delete("other")
        except ApiError as error:
            if error.code != "unknown_experiment":  # an earlier attempt has deleted it
                raise

    async def _repeat(self, request: Callable[[], Awaitable[T]]) -> T:
        """Send a request until it succeeds. The first failure ends a hang."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return await asyncio.wait_for(request(), PATIENCE)
            except (StorageError, ApiError) as error:
                if isinstance(error, ApiError) and error.code != "experiment_opening":
                    raise
                self.errors += 1
                self._faults.released.set()
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.02)

    async def _prune(self) -> None:
        number = self.engine.experiment_id("home")
        kept = self._database.event(number, 4)
        if kept is not None:
            await self._database.threads.run(self._database.prune, number, 1, kept.at, kept.at)

    def check(self, database: Database) -> None:
        """Raise unless everything acknowledged is in the database once, and a replay agrees."""
        (row,) = database.experiments()
        findings = list(audit_database(database))
        assert all(finding.ok for finding in findings), findings
        experiment, _ = snapshots.restore(database, row.id, snapshots.Replay())
        counts = experiment.bandit.counts
        assert (counts["decisions"], counts["rewarded"]) == (len(self.decisions), len(self.rewards)), counts
        stored = [one for one in database.events(row.id, 0) if one.kind == "decide"]
        decisions = [msgspec.json.decode(one.outcome, type=Decision) for one in stored]
        acknowledged = list(self.decisions.values())
        assert decisions == acknowledged[-len(decisions) :], (decisions, acknowledged)


def run(url: Any, call: int, kind: Kind) -> tuple[int, int]:
    """Run all operations with one fault; return the number of calls and of failed requests.

    Raises AssertionError if anything acknowledged is lost.
    """
    Database(url).close()  # creates the tables, which may take longer than the deadline
    with closing(Database(url, DEADLINE)) as database:
        faults = inject(database)
        with database.exclusive(5):
            once = Run(database, faults)
            faults.aim(call, kind)
            asyncio.run(once.run())
            calls = faults.calls
            faults.released.set()
    with closing(Database(url, 10.0)) as database:
        once.check(database)
        tables.metadata.drop_all(database.engine)
        if database.marks is not None:
            database.marks.path.unlink()
    return calls, once.errors


class Runs(NamedTuple):
    """The faults of one kind."""

    faults: int
    """Number of runs, each with one fault."""
    refused: int
    """Number of rejected requests."""


def run_all(url: Any, kind: Kind, step: int = 1) -> Runs:
    """Inject a fault into every ``step``-th call, one at a time."""
    call, runs = 1, Runs(0, 0)
    while True:
        calls, refused = run(url, call, kind)
        runs = Runs(runs.faults + 1, runs.refused + refused)
        call += step
        if call > calls:
            return runs


@contextmanager
def stores() -> Iterator[dict[str, Any]]:
    """Yield the URL of an empty database of each installed kind, by name."""
    with tempfile.TemporaryDirectory(prefix="glcb-faults-") as folder:
        urls: dict[str, Any] = {"SQLite": sqlite_url(Path(folder) / "glcb.db")}
        if postgres.binaries() is None:
            yield urls
            return
        with postgres.cluster() as cluster:
            yield {**urls, "PostgreSQL": cluster.url}


def main() -> None:
    """Inject every kind of fault into every call, on each database, and print a summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--step", type=int, default=1, help="inject into every STEP-th call")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--stores", nargs="+", choices=("SQLite", "PostgreSQL"), default=[])
    chosen = parser.parse_args()
    Bandit(["a", "b"], policy="linucb").decide({"age": 1})  # compile the kernels first
    with stores() as urls:
        for name, url in urls.items():
            if chosen.stores and name not in chosen.stores:
                continue
            for kind in chosen.kinds:
                started = time.perf_counter()
                runs = run_all(url, kind, chosen.step)
                print(
                    f"{name}, {kind}: {runs.faults} faults in {time.perf_counter() - started:,.0f} s, "
                    f"{runs.refused} requests rejected; nothing acknowledged was lost, and everything "
                    "succeeded when repeated",
                    flush=True,
                )


if __name__ == "__main__":
    main()
