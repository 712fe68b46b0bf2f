"""Experiments open in the background after a restart, and the others answer meanwhile."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from glcb._api.responses import ExperimentInfo
from glcb.service.config import ServiceSettings
from glcb.service.core.experiment import Experiment
from glcb.service.engine import cache
from glcb.service.engine.engine import Engine
from glcb.service.events import Event
from glcb.service.storage.database import Database
from glcb.service.views.responses import experiment_info
from tests.support.asgi import running_service
from tests.support.builders import rejected, settings
from tests.support.engine_harness import (
    FailingDatabase,
    decide,
    decide_and_reward,
    verified,
    wait_for_snapshots,
    with_engine,
)

PATIENCE = 10.0
"""Seconds within which everything must happen that is awaited."""
REPLAY = Experiment.recover


class Gates:
    """Replays that wait until they may go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *held: str) -> None:
        self.order: list[str] = []
        """Experiments in the order in which they began to replay."""
        self.began: dict[str, threading.Event] = {name: threading.Event() for name in held}
        self._open = {name: threading.Event() for name in held}
        monkeypatch.setattr(Experiment, "recover", lambda *arguments: self._replay(*arguments))

    def _replay(self, experiment: Experiment, event: Event) -> None:
        name = experiment.name
        if name not in self.order:
            self.order.append(name)
        if name in self._open and event.sequence == 4:
            self.began[name].set()
            assert self._open[name].wait(PATIENCE)
        REPLAY(experiment, event)

    async def reached(self, name: str) -> None:
        """Wait until an experiment replays its fourth event."""
        assert await asyncio.to_thread(self.began[name].wait, PATIENCE)

    def open(self, *names: str) -> None:
        """Let replays go on."""
        for name in names:
            self._open[name].set()


@pytest.fixture
def gates(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Gates]]:
    """Return a function that holds the replays of experiments until the end of the test."""
    made: list[Gates] = []

    def hold(*names: str) -> Gates:
        made.append(Gates(monkeypatch, *names))
        return made[-1]

    yield hold
    for one in made:
        one.open(*one.began)


def killed(folder: Path, **decisions: int) -> None:
    """Leave experiments as a killed service does, without snapshots."""

    async def scenario(engine: Engine, _: Database) -> None:
        for name, count in decisions.items():
            await engine.create(name, settings())
            await decide_and_reward(engine, count, name)

    with_engine(folder, scenario, stop=False)


@contextlib.asynccontextmanager
async def started(folder: Path, **changes: object) -> AsyncIterator[tuple[Engine, FailingDatabase]]:
    """Yield an engine that has just started, and stop it."""
    database = FailingDatabase(folder)
    engine = Engine(database, ServiceSettings(**changes))  # type: ignore[arg-type]
    await asyncio.wait_for(engine.start(), PATIENCE)
    try:
        yield engine, database
    finally:
        await asyncio.wait_for(engine.stop(), PATIENCE)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 3 * PATIENCE))


async def listed(engine: Engine) -> dict[str, ExperimentInfo]:
    return {info.name: info for info in await engine.list_experiments(lambda name: True)}


def test_others_answer_while_an_experiment_opens(tmp_path: Path, gates: Callable[..., Gates]) -> None:
    killed(tmp_path, large=20, small=3)
    held = gates("large")

    async def scenario() -> None:
        async with started(tmp_path) as (engine, database):
            await held.reached("large")
            await decide_and_reward(engine, 2, "small")
            await engine.create("new", settings())
            await decide_and_reward(engine, 2, "new")
            held.open("large")
            await engine.opened()
            await decide_and_reward(engine, 2, "large")
            assert not engine.cache.unopened
            verified(database)

    run(scenario)


def test_requests_for_an_experiment_that_opens_get_its_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gates: Callable[..., Gates]
) -> None:
    monkeypatch.setattr(cache, "_WAIT_SECONDS", 0.01)
    killed(tmp_path, home=20)
    held = gates("home")

    async def scenario() -> None:
        async with running_service(tmp_path) as service:
            await held.reached("home")
            path = "/v1/experiments/home"
            for method, where, body in (
                ("POST", f"{path}/decisions", {"context": {}}),
                ("GET", path, None),
                ("PUT", path, {"arms": ["a", "b", "c"]}),
            ):
                refused = await service.ask(method, where, body)
                assert (refused.status, refused.code) == (503, "experiment_opening")
                assert refused.headers["retry-after"] == "1"
                assert refused.message == (
                    "the experiment 'home' is being opened: 2 of 40 events are done: retry"
                )
            assert (await service.ask("GET", "/readyz")).status == 200
            metrics = await service.ask("GET", "/metrics")
            assert b"glcb_unopened_experiments 1.0" in metrics.content
            held.open("home")
            await service.engine.opened()
            assert (await service.ask("GET", path)).status == 200

    run(scenario)


def test_a_request_waits_for_an_experiment_that_opens_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gates: Callable[..., Gates]
) -> None:
    monkeypatch.setattr(cache, "_WAIT_SECONDS", PATIENCE)
    killed(tmp_path, home=5)
    held = gates("home")

    async def scenario() -> None:
        async with started(tmp_path) as (engine, _):
            await held.reached("home")
            deciding = asyncio.ensure_future(decide(engine, {"age": 1}))
            disconnected = asyncio.ensure_future(decide(engine, {"age": 2}))
            await asyncio.sleep(0)
            disconnected.cancel()
            held.open("home")
            await deciding
            assert (await engine.read("home", experiment_info)).counts.decisions == 6

    run(scenario)


def test_experiments_that_requests_need_are_opened_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gates: Callable[..., Gates]
) -> None:
    monkeypatch.setattr(cache, "_WAIT_SECONDS", PATIENCE)
    killed(tmp_path, a=3, b=4, c=5, d=6, e=7)
    held = gates("a", "d")

    async def scenario() -> None:
        async with started(tmp_path) as (engine, _):
            await held.reached("a")  # the one with the fewest events
            first = asyncio.ensure_future(decide(engine, {"age": 1}, "d"))
            await held.reached("d")
            second = asyncio.ensure_future(decide(engine, {"age": 1}, "e"))
            await asyncio.sleep(0)
            held.open("a", "d")
            await asyncio.gather(first, second)
            await engine.opened()
            assert held.order == ["a", "d", "e", "b", "c"]

    run(scenario)


def test_an_experiment_that_opens_is_listed_with_what_was_saved(
    tmp_path: Path, gates: Callable[..., Gates]
) -> None:
    async def saved(engine: Engine, _: Database) -> None:
        await engine.create("saved", settings())
        await decide_and_reward(engine, 5, "saved")

    async def more(engine: Engine, _: Database) -> None:
        await decide_and_reward(engine, 3, "saved")
        await engine.create("bare", settings())
        await decide_and_reward(engine, 2, "bare")

    with_engine(tmp_path, saved)
    with_engine(tmp_path, more, stop=False)
    held = gates("bare")

    async def scenario() -> None:
        async with started(tmp_path) as (engine, _):
            await held.reached("bare")
            found = await listed(engine)
            assert {info.state for info in found.values()} == {"opening"}
            assert (found["saved"].counts.decisions, found["bare"].counts.decisions) == (5, 0)
            assert [(check.ok, check.text) for info in found.values() for check in info.health] == [
                (None, "The experiment is being opened: 2 of 4 events are done."),
                (None, "The experiment is being opened: 0 of 7 events are done."),
            ]
            held.open("bare")
            await engine.opened()
            found = await listed(engine)
            assert {info.state for info in found.values()} == {"running"}
            assert (found["saved"].counts.decisions, found["bare"].counts.decisions) == (8, 2)

    run(scenario)


def test_a_stop_ends_replays_and_the_next_start_repeats_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(tmp_path, a=20, b=30, c=40)
    began, replayed = threading.Event(), []

    def slow(experiment: Experiment, event: Event) -> None:
        REPLAY(experiment, event)
        replayed.append(experiment.name)
        began.set()
        assert stopped.wait(PATIENCE)

    stopped = threading.Event()

    async def scenario() -> None:
        async with started(tmp_path) as (engine, database):
            assert await asyncio.to_thread(began.wait, PATIENCE)
            stopping = asyncio.ensure_future(engine.stop())
            await asyncio.sleep(0)
            stopped.set()
            await asyncio.wait_for(stopping, PATIENCE)
            assert replayed == ["a"], "it stops before the next event"
            assert not engine.cache.broken
            with rejected("stopping"):
                await decide(engine, {"age": 1}, "b")
            assert not database.snapshots(1)

    async def again() -> None:
        async with started(tmp_path) as (engine, database):
            await engine.opened()
            await decide_and_reward(engine, 1, "a")
            assert len(database.snapshots(1)) == 1
            verified(database)

    with monkeypatch.context() as patch:
        patch.setattr(Experiment, "recover", slow)
        run(scenario)
    run(again)


def test_an_experiment_can_be_deleted_while_it_opens(tmp_path: Path, gates: Callable[..., Gates]) -> None:
    killed(tmp_path, home=20, other=30)
    held = gates("home")

    async def scenario() -> None:
        async with started(tmp_path) as (engine, _):
            await held.reached("home")
            deleting = asyncio.ensure_future(engine.delete("home"))
            await asyncio.sleep(0)
            held.open("home")
            await deleting
            await engine.opened()
            assert list(await listed(engine)) == ["other"]
            await engine.create("home", settings())
            await decide_and_reward(engine, 1)

    run(scenario)


@pytest.mark.settings(snapshot_seconds=100.0)
async def test_snapshots_follow_the_time_that_a_replay_would_take(
    engine: Engine, database: FailingDatabase
) -> None:
    await engine.create("home", settings())
    await decide_and_reward(engine, 10)
    loaded = engine.loaded["home"]
    assert 0.0 < loaded.replay_seconds < 100.0
    assert not loaded.needs_snapshot(100.0)
    loaded.replay_seconds += 100.0
    assert loaded.needs_snapshot(100.0)
    await decide(engine, {"age": 1})
    await wait_for_snapshots(engine)
    assert [row.sequence for row in database.snapshots(1)] == [22]
    assert not loaded.needs_snapshot(100.0)


def test_replayed_events_count_for_the_next_snapshot(tmp_path: Path) -> None:
    killed(tmp_path, home=10)

    async def scenario(engine: Engine, database: FailingDatabase) -> None:
        assert engine.loaded["home"].replay_seconds == 0.0, "opening it has saved it"
        await decide_and_reward(engine, 3)
        engine.cache.drop(engine.loaded["home"])
        await engine.read("home", experiment_info)
        assert engine.loaded["home"].unsaved_events == 7
        assert engine.loaded["home"].replay_seconds > 0.0
        verified(database)

    with_engine(tmp_path, scenario)
