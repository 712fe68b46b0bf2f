"""Run an engine on the database of a folder, for tests that need no HTTP."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from glcb._api.requests import DecisionRequest, RewardItem
from glcb._api.responses import Decision
from glcb._errors import StorageError
from glcb.service.config import ServiceSettings
from glcb.service.core.experiment import Experiment
from glcb.service.engine.audit import audit_database
from glcb.service.engine.engine import Engine
from glcb.service.storage.chain import EventRow
from glcb.service.storage.connection import sqlite_url
from glcb.service.storage.database import Database
from glcb.service.storage.journal import Journal
from tests.support.builders import open_test_database


class FailingDatabase(Database):
    """A database that rejects events while ``fails`` is set."""

    def __init__(self, folder: Path) -> None:
        super().__init__(sqlite_url(folder / "glcb.db"))
        self.fails = False

    def append(self, rows: Sequence[EventRow]) -> None:
        if self.fails:
            raise StorageError("the disk is full")
        super().append(rows)

    def probe(self) -> None:
        if self.fails:
            raise StorageError("the disk is full")
        super().probe()


class SettledClock:
    """A clock that returns what a function returns."""

    is_settled = True

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now

    def __call__(self) -> float:
        return self._now()


@contextlib.asynccontextmanager
async def running_engine(database: Database, stop: bool = True, **changes: Any) -> AsyncIterator[Engine]:
    """Run an engine; ``stop=False`` simulates a kill."""
    clock = changes.pop("clock", time.time)
    if not hasattr(clock, "is_settled"):
        clock = SettledClock(clock)
    engine = Engine(database, ServiceSettings(**changes), clock)
    await engine.start()
    await engine.opened()
    yield engine
    if stop:
        await engine.stop()
    else:
        await engine.journal.stop()


@contextlib.asynccontextmanager
async def run_engine(folder: Path, **changes: Any) -> AsyncIterator[tuple[Engine, FailingDatabase]]:
    """Run an engine on the database of a folder, which other engines may have written."""
    database = FailingDatabase(folder)
    async with running_engine(database, **changes) as engine:
        yield engine, database


@contextlib.asynccontextmanager
async def own_engine(folder: Path) -> AsyncIterator[tuple[Engine, Database]]:
    """Run an engine that owns the database of a folder, until it is killed."""
    with contextlib.closing(open_test_database(folder)) as database, database.exclusive(0):
        async with running_engine(database, stop=False) as engine:
            yield engine, database


def with_engine(
    folder: Path,
    scenario: Callable[[Engine, FailingDatabase], Awaitable[None]],
    stop: bool = True,
    **changes: Any,
) -> None:
    """Run a scenario with an engine on the database of a folder; ``stop=False`` simulates a kill."""

    async def run() -> None:
        database = FailingDatabase(folder)
        async with running_engine(database, stop, **changes) as engine:
            await scenario(engine, database)

    asyncio.run(run())


def run_service(folder: Path, scenario: Callable[[Engine, Database], object]) -> None:
    """Run a scenario with an engine that owns the database of a folder."""

    async def run() -> None:
        async with running_engine(database, stop=False) as engine:
            await scenario(engine, database)  # type: ignore[misc]

    with contextlib.closing(open_test_database(folder)) as database, database.exclusive(0):
        asyncio.run(run())


async def decide(engine: Engine, context: Any, name: str = "home", **more: Any) -> Decision:
    answer = await engine.apply(name, "decide", DecisionRequest(context=context, **more))
    return msgspec.json.decode(answer, type=Decision)


async def reward(engine: Engine, decision: str, value: float, name: str = "home", **more: Any) -> None:
    await engine.apply(name, "reward", RewardItem(id=decision, value=value, **more))


async def decide_and_reward(engine: Engine, count: int, name: str = "home") -> None:
    for number in range(count):
        decision = await decide(engine, {"age": number % 7, "country": "AB"[number % 2]}, name)
        await reward(engine, decision.id, float(number % 3 == 0), name)


async def recovered(journal: Journal) -> None:
    """Wait until a journal accepts events again."""
    async with asyncio.timeout(20):
        while journal.failure is not None:
            await asyncio.sleep(0.01)


async def wait_for_snapshots(engine: Engine) -> None:
    """Wait until no snapshot is being written."""
    while any(loaded.is_saving for loaded in engine.loaded.values()):
        await asyncio.sleep(0.001)


def digest(experiment: Experiment) -> str:
    return experiment.snapshot().digest()


def verified(database: Database) -> list[str]:
    """Assert that a replay agrees with the database; return the report."""
    findings = list(audit_database(database))
    assert all(finding.ok and finding.is_identical for finding in findings), findings
    return [finding.line for finding in findings]
