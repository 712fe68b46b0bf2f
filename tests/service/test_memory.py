"""Experiments come into memory and leave it, with and without snapshots, and some cannot be loaded."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from glcb._api.requests import Changes
from glcb._errors import StorageError
from glcb.service import views
from glcb.service.audit import verify
from glcb.service.core import cache as memory_module
from glcb.service.core.engine import Engine
from glcb.service.core.experiment import Experiment
from glcb.service.core.models import Frozen
from glcb.service.core.restore import restore
from glcb.service.errors import Problem
from glcb.service.storage.storage import SnapshotRow, Storage
from tests.service.engines import Fragile, agreed, decide, digest, idle, reward, some_pairs, with_engine
from tests.service.made import settings


def test_a_stop_leaves_a_snapshot_and_nothing_to_replay(tmp_path: Path) -> None:
    async def before(engine: Engine, _: Storage) -> None:
        await engine.create("home", settings())
        await some_pairs(engine, 10)

    async def after(engine: Engine, storage: Storage) -> None:
        assert engine.loaded == {}, "nothing had to be replayed, so nothing was loaded"
        (known,) = storage.known()
        assert known.last == known.snapshot == 21
        (view,) = await engine.listed(lambda name: True)
        assert view.counts.decisions == 10
        assert engine.loaded == {}, "the list does not load either"

    with_engine(tmp_path, before)
    with_engine(tmp_path, after)


def test_snapshots_are_taken_under_way_and_pruned(tmp_path: Path) -> None:
    async def play(engine: Engine, storage: Fragile) -> None:
        await engine.create("home", settings())
        for _ in range(12):
            await some_pairs(engine, 10)
            await idle(engine)
        number = engine.number("home")
        taken = [row.sequence for row in storage.snapshots(number)]
        assert len(taken) == 2
        assert taken[-1] > 200
        (line,) = agreed(storage)
        assert "2 snapshots agree" in line

    with_engine(tmp_path, play, snapshot_events=30, keep_snapshots=2)


DAMAGES = {
    "nothing but zeros": lambda content: bytes(len(content)),
    "another state": lambda content: _replaced(content, b"\xa7running", b"\xa7pausing"),
    "no state at all": lambda content: _replaced(content, b"\xa7running", b"\xc1running"),
}


def _replaced(content: bytes, old: bytes, new: bytes) -> bytes:
    """Return the content with something else in the place of the last ``old``, which is the experiment's."""
    before, found, after = content.rpartition(old)
    assert found
    return before + new + after


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_snapshot_is_made_up_for_by_the_events(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    seen: list[str] = []

    async def before(engine: Engine, _: Fragile) -> None:
        await engine.create("home", settings())
        await some_pairs(engine, 10)
        seen.append(await engine.look("home", digest))

    async def after(engine: Engine, storage: Fragile) -> None:
        assert not next(iter(verify(storage))).ok
        assert await engine.look("home", digest) == seen[0]

    with_engine(tmp_path, before)
    storage = Fragile(tmp_path)
    (row,) = storage.snapshots(1)
    damaged = damage(storage.snapshot_content(1, row.sequence))
    with storage.write() as connection:
        connection.exec_driver_sql("UPDATE glcb_snapshot_parts SET content = ?", (damaged,))
    with_engine(tmp_path, after)


def test_idle_and_surplus_experiments_leave_the_memory_and_come_back(tmp_path: Path) -> None:
    async def play(engine: Engine, storage: Fragile) -> None:
        for name in ("a", "b", "c"):
            await engine.create(name, settings(reward_timeout=1e9))
            await some_pairs(engine, 5, name)
        await engine.tick()
        assert list(engine.loaded) == ["b", "c"]
        waiting = await decide(engine, {"age": 3, "country": "A"}, "a")
        await engine.tick()
        assert list(engine.loaded) == ["c", "a"]
        for live in engine.loaded.values():
            live.used -= 1000
        await engine.tick()
        assert engine.loaded == {}
        await reward(engine, waiting.id, 1, "a")
        agreed(storage)

    with_engine(tmp_path, play, max_loaded=2)


def test_an_archived_experiment_leaves_the_memory_but_can_be_seen(tmp_path: Path) -> None:
    async def play(engine: Engine, _: Fragile) -> None:
        await engine.create("home", settings(reward_timeout=1e9))
        await some_pairs(engine, 3)
        view = await engine.change("home", Changes(state="archived"))
        assert view.state == "archived"
        assert engine.loaded == {}
        with pytest.raises(Problem) as caught:
            await decide(engine, {"age": 1})
        assert caught.value.code == "experiment_archived"
        assert (await engine.look("home", views.experiment)).counts.decisions == 3
        await engine.change("home", Changes(state="running"))
        await some_pairs(engine, 1)

    with_engine(tmp_path, play)


def test_a_snapshot_that_failed_is_not_tried_again_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(engine: Engine, storage: Fragile) -> None:
        tried: list[int] = []

        def fails(_number: int, row: SnapshotRow, *_: bytes) -> None:
            tried.append(row.sequence)
            raise StorageError("the disk is full")

        await engine.create("home", settings())
        monkeypatch.setattr(storage, "save_snapshot", fails)
        for _ in range(50):
            await some_pairs(engine, 1)
            await idle(engine)
        assert len(tried) == 5
        monkeypatch.undo()
        await some_pairs(engine, 10)
        await idle(engine)
        assert len(storage.snapshots(1)) == 1

    with_engine(tmp_path, play, snapshot_events=20)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE glcb_events SET outcome = x'7b7d' WHERE experiment = 1 AND sequence = 4",
        "UPDATE glcb_events SET request = x'00' WHERE experiment = 1 AND sequence = 4",
        "UPDATE glcb_events SET request = x'00' WHERE experiment = 1 AND sequence = 1",
        "UPDATE glcb_events SET request = cast(replace(request, 'linucb', 'nobody') AS BLOB) "
        "WHERE experiment = 1 AND sequence = 1",
        "DELETE FROM glcb_events WHERE experiment = 1 AND sequence = 1",
    ],
    ids=["another outcome", "no request", "no beginning", "another beginning", "beginning missing"],
)
def test_an_experiment_that_cannot_be_loaded_is_listed_as_such_and_can_be_deleted(
    tmp_path: Path, statement: str
) -> None:
    async def before(engine: Engine, _: Fragile) -> None:
        for name in ("home", "other"):
            await engine.create(name, settings())
            await some_pairs(engine, 5, name)

    async def after(engine: Engine, storage: Fragile) -> None:
        refusals = []
        for _ in range(2):
            with pytest.raises(Problem) as caught:
                await decide(engine, {"age": 1})
            refusals.append(caught.value)
        assert {(refusal.code, refusal.status) for refusal in refusals} == {("experiment_broken", 500)}
        assert refusals[0] is not refusals[1], "one for all would gather what each of them has seen"
        listed = {view.name: view for view in await engine.listed(lambda name: True)}
        assert (listed["home"].state, listed["other"].state) == ("broken", "running")
        (check,) = listed["home"].health
        assert check.ok is False
        assert "cannot be loaded" in check.text
        await some_pairs(engine, 2, "other")
        assert not next(iter(verify(storage))).ok
        await engine.delete("home")
        await engine.create("home", settings())
        await some_pairs(engine, 2)

    with_engine(tmp_path, before, stop=False)
    storage = Fragile(tmp_path)
    with storage.write() as connection:
        connection.exec_driver_sql(statement)
    with_engine(tmp_path, after)


def test_a_broken_experiment_is_listed_as_it_was_when_last_saved(tmp_path: Path) -> None:
    async def before(engine: Engine, _: Fragile) -> None:
        await engine.create("home", settings())
        await some_pairs(engine, 5)

    async def between(engine: Engine, _: Fragile) -> None:
        await some_pairs(engine, 3)

    async def after(engine: Engine, _: Fragile) -> None:
        (view,) = await engine.listed(lambda name: True)
        assert (view.state, view.arms, view.counts.decisions) == ("broken", ("a", "b", "c"), 5)

    with_engine(tmp_path, before)
    with_engine(tmp_path, between, stop=False)
    storage = Fragile(tmp_path)
    with storage.write() as connection:
        connection.exec_driver_sql("UPDATE glcb_events SET outcome = x'7b7d' WHERE sequence = 14")
    with_engine(tmp_path, after)


def test_whatever_keeps_one_experiment_from_loading_the_others_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def before(engine: Engine, _: Fragile) -> None:
        for name in ("home", "other", "third"):
            await engine.create(name, settings())

    def failing(storage: Storage, number: int) -> tuple[Experiment, int]:
        if number == 1:
            raise ValueError("nobody thought of this")
        if number == 2:
            raise StorageError("the disk cannot be read just now")
        return restore(storage, number)

    async def after(engine: Engine, _: Fragile) -> None:
        await some_pairs(engine, 2, "third")
        with pytest.raises(Problem, match="ValueError: nobody thought of this"):
            await decide(engine, {"age": 1})
        with pytest.raises(StorageError, match="just now"):
            await decide(engine, {"age": 1}, "other")
        monkeypatch.undo()
        await some_pairs(engine, 2, "other")

    with_engine(tmp_path, before, stop=False)
    monkeypatch.setattr(memory_module, "restore", failing)
    with_engine(tmp_path, after)


FREEZE = Experiment.freeze


def frozen_unless_home(experiment: Experiment) -> Frozen:
    if experiment.around.creation.name == "home":
        raise ValueError("nobody thought of this")
    return FREEZE(experiment)


def test_whatever_keeps_one_experiment_from_being_saved_the_others_are_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def before(engine: Engine, _: Fragile) -> None:
        for name in ("home", "other"):
            await engine.create(name, settings())
            await some_pairs(engine, 2, name)

    async def after(engine: Engine, _: Fragile) -> None:
        with pytest.raises(Problem, match="ValueError: nobody thought of this"):
            await decide(engine, {"age": 1})
        listed = {view.name: view.state for view in await engine.listed(lambda name: True)}
        assert listed == {"home": "broken", "other": "running"}
        await some_pairs(engine, 2, "other")

    with_engine(tmp_path, before, stop=False)
    monkeypatch.setattr(Experiment, "freeze", frozen_unless_home)
    with_engine(tmp_path, after)


def test_a_stop_saves_the_others_if_one_cannot_be_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(engine: Engine, storage: Fragile) -> None:
        for name in ("home", "other"):
            await engine.create(name, settings())
            await some_pairs(engine, 2, name)
        monkeypatch.setattr(Experiment, "freeze", frozen_unless_home)
        await engine.stop()
        assert (len(storage.snapshots(1)), len(storage.snapshots(2))) == (0, 1)

    with_engine(tmp_path, play, stop=False)


def test_a_summary_that_cannot_be_read_is_made_anew(tmp_path: Path) -> None:
    async def before(engine: Engine, _: Fragile) -> None:
        await engine.create("home", settings())

    async def after(engine: Engine, _: Fragile) -> None:
        (view,) = await engine.listed(lambda name: True)
        assert (view.name, view.state) == ("home", "running")

    with_engine(tmp_path, before)
    storage = Fragile(tmp_path)
    with storage.write() as connection:
        connection.exec_driver_sql("UPDATE glcb_snapshots SET summary = x'7b7d'")
    with_engine(tmp_path, after)


def test_a_deleted_experiment_does_not_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waited for it to be unloaded loads it again, before or after whoever wants to delete it."""

    async def play(engine: Engine, storage: Fragile) -> None:
        await engine.create("home", settings())
        await some_pairs(engine, 3)
        go_on, save = threading.Event(), storage.save_snapshot

        def slowly(*arguments: Any) -> None:
            go_on.wait()
            save(*arguments)

        monkeypatch.setattr(storage, "save_snapshot", slowly)
        unloading = asyncio.ensure_future(engine.memory.unload(engine.loaded["home"]))
        await asyncio.sleep(0)
        asking = asyncio.ensure_future(decide(engine, {"age": 1}))
        await asyncio.sleep(0)
        deleting = asyncio.ensure_future(engine.delete("home"))
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(unloading, asking, deleting, return_exceptions=True)
        assert deleting.exception() is None
        assert engine.loaded == {}
        with pytest.raises(Problem) as caught:
            await decide(engine, {"age": 1})
        assert caught.value.code == "unknown_experiment"

    with_engine(tmp_path, play)
