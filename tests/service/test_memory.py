"""Experiments come into memory and leave it, with and without snapshots, and some cannot be loaded."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from glcb._errors import StorageError
from glcb.service import views
from glcb.service.engine import Engine
from glcb.service.messages import Changes
from glcb.service.problems import Problem
from glcb.service.storage import Storage
from glcb.service.verify import verify
from tests.service.engines import Fragile, agreed, decide, digest, reward, some_pairs, with_engine
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
        assert view.counts.issued == 10
        assert engine.loaded == {}, "the list does not load either"

    with_engine(tmp_path, before)
    with_engine(tmp_path, after)


def test_snapshots_are_taken_under_way_and_pruned(tmp_path: Path) -> None:
    async def play(engine: Engine, storage: Fragile) -> None:
        await engine.create("home", settings())
        for _ in range(12):
            await some_pairs(engine, 10)
            while any(live.saving for live in engine.loaded.values()):
                await asyncio.sleep(0.001)
        number = engine.number("home")
        taken = [row.sequence for row in storage.snapshots(number)]
        assert len(taken) == 2
        assert taken[-1] > 200
        (line,) = agreed(storage)
        assert "2 snapshots agree" in line

    with_engine(tmp_path, play, snapshot_events=30, keep_snapshots=2)


def test_a_damaged_snapshot_is_made_up_for_by_an_earlier_one(tmp_path: Path) -> None:
    seen: list[str] = []

    async def before(engine: Engine, _: Fragile) -> None:
        await engine.create("home", settings())
        await some_pairs(engine, 10)
        seen.append(await engine.look("home", digest))

    async def after(engine: Engine, _: Fragile) -> None:
        assert await engine.look("home", digest) == seen[0]

    with_engine(tmp_path, before)
    storage = Fragile(tmp_path)
    with storage.write() as connection:
        connection.exec_driver_sql("UPDATE glcb_snapshot_parts SET content = zeroblob(length(content))")
    with_engine(tmp_path, after)


def test_idle_and_surplus_experiments_leave_the_memory_and_come_back(tmp_path: Path) -> None:
    async def play(engine: Engine, storage: Fragile) -> None:
        for name in ("a", "b", "c"):
            await engine.create(name, settings())
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
        await engine.create("home", settings(patience=1e9))
        await some_pairs(engine, 3)
        view = await engine.change("home", Changes(state="archived"))
        assert view.state == "archived"
        assert engine.loaded == {}
        with pytest.raises(Problem) as caught:
            await decide(engine, {"age": 1})
        assert caught.value.code == "experiment_archived"
        assert (await engine.look("home", views.experiment)).counts.issued == 3
        await engine.change("home", Changes(state="running"))
        await some_pairs(engine, 1)

    with_engine(tmp_path, play)


def test_an_experiment_that_cannot_be_replayed_is_not_served_but_can_be_deleted(tmp_path: Path) -> None:
    async def before(engine: Engine, _: Fragile) -> None:
        for name in ("home", "other"):
            await engine.create(name, settings())
            await some_pairs(engine, 5, name)

    async def after(engine: Engine, storage: Fragile) -> None:
        for _ in range(2):
            with pytest.raises(StorageError, match="another way"):
                await decide(engine, {"age": 1})
        await some_pairs(engine, 2, "other")
        assert not next(iter(verify(storage))).ok
        await engine.delete("home")
        await engine.create("home", settings())
        await some_pairs(engine, 2)

    with_engine(tmp_path, before, stop=False)
    storage = Fragile(tmp_path)
    with storage.write() as connection:
        connection.exec_driver_sql(
            "UPDATE glcb_events SET outcome = x'7b7d' WHERE experiment = 1 AND sequence = 4"
        )
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
