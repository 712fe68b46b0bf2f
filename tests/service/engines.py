"""Engines on the database of a folder, for tests that need no HTTP."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from glcb._api.requests import DecisionRequest, RewardOf
from glcb._api.responses import Decision
from glcb._errors import StorageError
from glcb.service.audit import verify
from glcb.service.config import ServiceSettings
from glcb.service.core import models
from glcb.service.core.engine import Engine
from glcb.service.core.experiment import Experiment
from glcb.service.storage.database import Row, sqlite_url
from glcb.service.storage.storage import Storage


class Fragile(Storage):
    """A database that fails when told."""

    def __init__(self, folder: Path) -> None:
        super().__init__(sqlite_url(folder / "glcb.db"))
        self.fails = False

    def append(self, rows: Sequence[Row]) -> None:
        if self.fails:
            raise StorageError("the disk is full")
        super().append(rows)

    def probe(self) -> None:
        if self.fails:
            raise StorageError("the disk is full")
        super().probe()


def with_engine(
    folder: Path, play: Callable[[Engine, Fragile], Awaitable[None]], stop: bool = True, **changes: Any
) -> None:
    """Run something beside an engine on the database of a folder; without a stop, as if it were killed."""

    async def run() -> None:
        storage = Fragile(folder)
        clock = changes.pop("clock", time.time)
        engine = Engine(storage, ServiceSettings(**changes), clock)
        await engine.start()
        await play(engine, storage)
        if stop:
            await engine.stop()
        else:
            await engine.journal.stop()

    asyncio.run(run())


async def decide(engine: Engine, context: Any, name: str = "home", **more: Any) -> Decision:
    answer = await engine.happens(name, "decide", DecisionRequest(context=context, **more))
    return msgspec.json.decode(answer, type=Decision)


async def reward(engine: Engine, decision: str, value: float, name: str = "home", **more: Any) -> None:
    await engine.happens(name, "reward", RewardOf(id=decision, value=value, **more))


async def some_pairs(engine: Engine, count: int, name: str = "home") -> None:
    for number in range(count):
        decision = await decide(engine, {"age": number % 7, "country": "AB"[number % 2]}, name)
        await reward(engine, decision.id, float(number % 3 == 0), name)


async def idle(engine: Engine) -> None:
    """Wait until no snapshot is being taken."""
    while any(live.saving for live in engine.loaded.values()):
        await asyncio.sleep(0.001)


def digest(experiment: Experiment) -> str:
    return models.digest(experiment.freeze())


def agreed(storage: Storage) -> list[str]:
    findings = list(verify(storage))
    assert all(finding.ok for finding in findings), findings
    return [finding.line for finding in findings]
