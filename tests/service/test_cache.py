"""Loading, saving and unloading experiments, with and without usable snapshots."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from glcb._api.requests import ExperimentChanges
from glcb._errors import StorageError
from glcb.bandit import Bandit
from glcb.service.core.experiment import Experiment
from glcb.service.core.models import ExperimentSnapshot
from glcb.service.engine import snapshots
from glcb.service.engine.audit import audit_database
from glcb.service.engine.engine import Engine
from glcb.service.engine.snapshots import Replay
from glcb.service.errors import ApiError
from glcb.service.http.errors import status_of
from glcb.service.storage.database import Database
from glcb.service.storage.rows import SnapshotRow
from glcb.service.views.responses import experiment_info
from tests.support.builders import rejected, settings, sql
from tests.support.engine_harness import (
    FailingDatabase,
    decide,
    decide_and_reward,
    digest,
    reward,
    run_engine,
    verified,
    wait_for_snapshots,
    with_engine,
)


async def test_a_shutdown_leaves_a_snapshot_and_nothing_to_replay(tmp_path: Path) -> None:
    async with run_engine(tmp_path) as (engine, _):
        await engine.create("home", settings())
        await decide_and_reward(engine, 10)
    async with run_engine(tmp_path) as (engine, database):
        assert engine.loaded == {}, "without events to replay, nothing is loaded"
        (row,) = database.experiments()
        assert row.last_sequence == row.snapshot_sequence == 21
        (info,) = await engine.list_experiments(lambda name: True)
        assert info.counts.decisions == 10
        assert engine.loaded == {}, "listing does not load"


@pytest.mark.settings(snapshot_seconds=1e-9, keep_snapshots=2)
async def test_snapshots_are_taken_periodically_and_pruned(engine: Engine, database: FailingDatabase) -> None:
    await engine.create("home", settings())
    for _ in range(12):
        await decide_and_reward(engine, 10)
        await wait_for_snapshots(engine)
    number = engine.experiment_id("home")
    taken = [row.sequence for row in database.snapshots(number)]
    assert len(taken) == 2
    assert taken[-1] > 200
    (line,) = verified(database)
    assert "2 snapshots are identical" in line


DAMAGES = {
    "zeros": lambda content: bytes(len(content)),
    "an unknown status": lambda content: _replaced(content, b"\xa7running", b"\xa7pausing"),
    "an undecodable status": lambda content: _replaced(content, b"\xa7running", b"\xc1running"),
}


def _replaced(content: bytes, old: bytes, new: bytes) -> bytes:
    """Replace the last occurrence of ``old``, which belongs to the state of the experiment."""
    before, match, after = content.rpartition(old)
    assert match
    return before + new + after


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
async def test_a_damaged_snapshot_is_replaced_by_replaying_the_events(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    digests: list[str] = []

    async with run_engine(tmp_path) as (engine, _):
        await engine.create("home", settings())
        await decide_and_reward(engine, 10)
        digests.append(await engine.read("home", digest))
    database = FailingDatabase(tmp_path)
    (row,) = database.snapshots(1)
    damaged = damage(database.snapshot_content(1, row.sequence))
    with database.write() as connection:
        connection.exec_driver_sql("UPDATE glcb_snapshot_parts SET content = ?", (damaged,))
    async with run_engine(tmp_path) as (engine, database):
        assert not next(iter(audit_database(database))).ok
        assert await engine.read("home", digest) == digests[0]


@pytest.mark.settings(max_loaded_experiments=2)
async def test_idle_and_surplus_experiments_are_unloaded_and_loaded_again_on_demand(
    engine: Engine, database: FailingDatabase
) -> None:
    for name in ("a", "b", "c"):
        await engine.create(name, settings(reward_timeout=1e9))
        await decide_and_reward(engine, 5, name)
    await engine.tick()
    assert list(engine.loaded) == ["b", "c"]
    pending = await decide(engine, {"age": 3, "country": "A"}, "a")
    await engine.tick()
    assert list(engine.loaded) == ["c", "a"]
    for loaded in engine.loaded.values():
        loaded.last_used -= 1000
    await engine.tick()
    assert engine.loaded == {}
    await reward(engine, pending.id, 1, "a")
    verified(database)


async def test_an_archived_experiment_is_unloaded_but_readable(engine: Engine) -> None:
    await engine.create("home", settings(reward_timeout=1e9))
    await decide_and_reward(engine, 3)
    info = await engine.change("home", ExperimentChanges(state="archived"))
    assert info.state == "archived"
    assert engine.loaded == {}
    with rejected("experiment_archived"):
        await decide(engine, {"age": 1})
    assert (await engine.read("home", experiment_info)).counts.decisions == 3
    await engine.change("home", ExperimentChanges(state="running"))
    await decide_and_reward(engine, 1)


@pytest.mark.settings(snapshot_seconds=1000.0)
async def test_a_failed_snapshot_is_retried_after_the_next_interval(
    engine: Engine, database: FailingDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts: list[int] = []

    def fails(_number: int, row: SnapshotRow, *_: bytes) -> None:
        attempts.append(row.sequence)
        raise StorageError("the disk is full")

    async def pretend(seconds: float) -> None:
        engine.loaded["home"].replay_seconds += seconds
        await decide_and_reward(engine, 1)
        await wait_for_snapshots(engine)

    await engine.create("home", settings())
    monkeypatch.setattr(database, "save_snapshot", fails)
    for _ in range(10):
        await pretend(400.0)
    assert len(attempts) == 3
    monkeypatch.undo()
    await pretend(1000.0)
    assert len(database.snapshots(1)) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE glcb_events SET record = x'7b7d' WHERE experiment = 1 AND sequence = 4",
        "UPDATE glcb_events SET request = x'00' WHERE experiment = 1 AND sequence = 4",
        "UPDATE glcb_events SET request = x'00' WHERE experiment = 1 AND sequence = 1",
        "UPDATE glcb_events SET request = cast(replace(request, 'linucb', 'no-policy') AS BLOB) "
        "WHERE experiment = 1 AND sequence = 1",
        "DELETE FROM glcb_events WHERE experiment = 1 AND sequence = 1",
    ],
    ids=["damaged record", "damaged request", "damaged creation", "altered creation", "missing creation"],
)
async def test_an_experiment_that_cannot_be_loaded_is_listed_as_broken_and_can_be_deleted(
    tmp_path: Path, statement: str
) -> None:
    async with run_engine(tmp_path, stop=False) as (engine, _):
        for name in ("home", "other"):
            await engine.create(name, settings())
            await decide_and_reward(engine, 5, name)
    sql(tmp_path, statement)
    async with run_engine(tmp_path) as (engine, database):
        errors = []
        for _ in range(2):
            with pytest.raises(ApiError) as caught:
                await decide(engine, {"age": 1})
            errors.append(caught.value)
        assert {(error.code, status_of(error)) for error in errors} == {("experiment_broken", 500)}
        assert errors[0] is not errors[1], "a shared error would accumulate tracebacks"
        listed = {info.name: info for info in await engine.list_experiments(lambda name: True)}
        assert (listed["home"].state, listed["other"].state) == ("broken", "running")
        (check,) = listed["home"].health
        assert check.ok is False
        assert "cannot be loaded" in check.text
        await decide_and_reward(engine, 2, "other")
        assert not next(iter(audit_database(database))).ok
        await engine.delete("home")
        await engine.create("home", settings())
        await decide_and_reward(engine, 2)


async def test_a_broken_experiment_is_listed_with_the_numbers_of_its_last_snapshot(tmp_path: Path) -> None:
    async with run_engine(tmp_path) as (engine, _):
        await engine.create("home", settings())
        await decide_and_reward(engine, 5)
    async with run_engine(tmp_path, stop=False) as (engine, _):
        await decide_and_reward(engine, 3)
    sql(tmp_path, "UPDATE glcb_events SET record = x'7b7d' WHERE sequence = 15")
    async with run_engine(tmp_path) as (engine, _):
        (info,) = await engine.list_experiments(lambda name: True)
        assert (info.state, info.settings.arms, info.counts.decisions) == ("broken", ["a", "b", "c"], 5)


RESTORE = snapshots.restore


async def test_an_experiment_that_did_not_fit_into_memory_is_not_broken(
    engine: Engine, database: FailingDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_snapshot: object) -> Bandit:
        raise MemoryError

    await engine.create("home", settings())
    await decide_and_reward(engine, 3)
    await engine.cache.unload(engine.loaded["home"])
    with monkeypatch.context() as patch:
        patch.setattr(Bandit, "_from_snapshot", fail)
        with pytest.raises(StorageError, match="not enough memory to load the experiment: retry"):
            await decide(engine, {"age": 1, "country": "A"})
    assert not engine.cache.broken
    await decide(engine, {"age": 1, "country": "A"})
    verified(database)


async def test_an_experiment_that_cannot_be_loaded_does_not_affect_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(database: Database, number: int, replay: Replay) -> tuple[Experiment, int]:
        if number == 1:
            raise ValueError("unexpected")
        if number == 2:
            raise StorageError("the disk cannot be read at the moment")
        return RESTORE(database, number, replay)

    async with run_engine(tmp_path, stop=False) as (engine, _):
        for name in ("home", "other", "third"):
            await engine.create(name, settings())
    monkeypatch.setattr(snapshots, "restore", failing)
    async with run_engine(tmp_path) as (engine, _):
        await decide_and_reward(engine, 2, "third")
        with pytest.raises(ApiError, match="ValueError: unexpected"):
            await decide(engine, {"age": 1})
        with pytest.raises(StorageError, match="at the moment"):
            await decide(engine, {"age": 1}, "other")
        monkeypatch.undo()
        await decide_and_reward(engine, 2, "other")


SNAPSHOT = Experiment.snapshot


def fail_for_home(experiment: Experiment) -> ExperimentSnapshot:
    if experiment.state.creation.name == "home":
        raise ValueError("unexpected")
    return SNAPSHOT(experiment)


def test_an_experiment_that_cannot_be_saved_is_replayed_and_does_not_affect_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def before(engine: Engine, _: FailingDatabase) -> None:
        for name in ("home", "other"):
            await engine.create(name, settings())
            await decide_and_reward(engine, 2, name)

    async def after(engine: Engine, _: FailingDatabase) -> None:
        for name in ("home", "other"):
            await decide_and_reward(engine, 2, name)
        listed = {info.name: info for info in await engine.list_experiments(lambda name: True)}
        assert {name: info.state for name, info in listed.items()} == dict.fromkeys(listed, "running")
        assert listed["home"].counts.decisions == next(expected)

    with_engine(tmp_path, before, stop=False)
    monkeypatch.setattr(Experiment, "snapshot", fail_for_home)
    expected = iter((4, 6))
    for _ in range(2):
        with_engine(tmp_path, after)


async def test_a_shutdown_saves_the_others_if_one_cannot_be_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run_engine(tmp_path, stop=False) as (engine, database):
        for name in ("home", "other"):
            await engine.create(name, settings())
            await decide_and_reward(engine, 2, name)
        monkeypatch.setattr(Experiment, "snapshot", fail_for_home)
        await engine.stop()
        assert (len(database.snapshots(1)), len(database.snapshots(2))) == (0, 1)


async def test_an_unreadable_summary_is_rebuilt(tmp_path: Path) -> None:
    async with run_engine(tmp_path) as (engine, _):
        await engine.create("home", settings())
    sql(tmp_path, "UPDATE glcb_snapshots SET summary = x'7b7d'")
    async with run_engine(tmp_path) as (engine, _):
        (info,) = await engine.list_experiments(lambda name: True)
        assert (info.name, info.state) == ("home", "running")


async def test_a_deleted_experiment_does_not_come_back(
    engine: Engine, database: FailingDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that waits for an unload loads the experiment again, before or after the deletion."""
    await engine.create("home", settings())
    await decide_and_reward(engine, 3)
    proceed, save = threading.Event(), database.save_snapshot

    def slow_save(*arguments: Any) -> None:
        proceed.wait()
        save(*arguments)

    monkeypatch.setattr(database, "save_snapshot", slow_save)
    unloading = asyncio.ensure_future(engine.cache.unload(engine.loaded["home"]))
    await asyncio.sleep(0)
    asking = asyncio.ensure_future(decide(engine, {"age": 1}))
    await asyncio.sleep(0)
    deleting = asyncio.ensure_future(engine.delete("home"))
    await asyncio.sleep(0)
    proceed.set()
    await asyncio.gather(unloading, asking, deleting, return_exceptions=True)
    assert deleting.exception() is None
    assert engine.loaded == {}
    with rejected("unknown_experiment"):
        await decide(engine, {"age": 1})
