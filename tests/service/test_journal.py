"""Group commit: in order, together, and nothing behind a failure."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from glcb._errors import StorageError
from glcb.service.storage import journal as journal_module
from glcb.service.storage.database import Row, sqlite_url
from glcb.service.storage.journal import Journal
from glcb.service.storage.storage import Event, Storage


def event(sequence: int) -> Event:
    return Event(sequence, 0.0, "decide", b"", b"")


class Slow(Storage):
    """Waits with each commit until told, and fails when told."""

    def __init__(self, folder: Path) -> None:
        super().__init__(sqlite_url(folder / "glcb.db"))
        self.open = threading.Event()
        self.open.set()
        self.fails = False
        self.commits: list[list[int]] = []

    def append(self, rows: Sequence[Row]) -> None:
        self.open.wait(10)
        if self.fails:
            raise StorageError("the disk is full")
        super().append(rows)
        self.commits.append([row[1] for row in rows])

    def probe(self) -> None:
        if self.fails:
            raise StorageError("the disk is still full")
        super().probe()


def journal(storage: Storage, most: int = 100) -> Journal:
    return Journal(storage, most=most, committed=lambda events, seconds: None)


def test_what_comes_during_a_commit_goes_together_in_the_next(tmp_path: Path) -> None:
    async def run() -> None:
        storage = Slow(tmp_path)
        written = journal(storage, most=10)
        storage.open.clear()
        first = written.put(0, 1, [event(1)])
        await asyncio.sleep(0.05)
        others = [written.put(0, 1, [event(sequence)]) for sequence in range(2, 26)]
        assert not first.done()
        storage.open.set()
        await asyncio.gather(first, *others)
        assert storage.commits == [[1], list(range(2, 12)), list(range(12, 22)), list(range(22, 26))]
        assert [one.sequence for one in storage.events(1, 0)] == list(range(1, 26))
        assert written.depth == 0
        await written.stop()

    asyncio.run(run())


def test_nobody_waits_if_nothing_is_under_way_and_everybody_if_something_is(tmp_path: Path) -> None:
    async def run() -> None:
        storage = Slow(tmp_path)
        written = journal(storage)
        assert written.put(0, 1, ()).done()
        storage.open.clear()
        first = written.put(0, 1, [event(1)])
        barrier = written.put(0, 2, ())
        await asyncio.sleep(0.05)
        assert not barrier.done()
        storage.open.set()
        await barrier
        assert first.done()
        await written.stop()

    asyncio.run(run())


def test_what_is_behind_a_failure_fails_too_until_it_is_loaded_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "_PROBE_SECONDS", 0.01)

    async def run() -> None:
        storage = Slow(tmp_path)
        written = journal(storage)
        await written.put(0, 1, [event(1)])
        storage.open.clear()
        storage.fails = True
        lost = [written.put(0, 1, [event(2)]), written.put(0, 1, [event(3)]), written.put(0, 2, ())]
        storage.open.set()
        found = await asyncio.gather(*lost, return_exceptions=True)
        assert [str(error) for error in found] == ["the disk is full"] * 3
        with pytest.raises(StorageError):
            written.put(0, 1, [event(4)])
        assert written.generation == 1
        await asyncio.sleep(0.05)
        assert written.trouble == "the disk is still full"
        storage.fails = False
        while written.trouble is not None:
            await asyncio.sleep(0.01)
        with pytest.raises(StorageError, match="try again"):
            written.put(0, 1, [event(4)])  # whoever was loaded before must not go on
        await written.put(1, 1, [event(2)])
        assert [one.sequence for one in storage.events(1, 0)] == [1, 2]
        await written.stop()

    asyncio.run(run())


def test_it_stops_even_if_nothing_can_be_written(tmp_path: Path) -> None:
    async def run() -> None:
        storage = Slow(tmp_path)
        storage.fails = True
        written = journal(storage)
        with pytest.raises(StorageError):
            await written.put(0, 1, [event(1)])
        await asyncio.wait_for(written.stop(), 5)

    asyncio.run(run())


def test_what_was_given_is_written_before_it_stops(tmp_path: Path) -> None:
    async def run() -> None:
        storage = Slow(tmp_path)
        written = journal(storage)
        given = [written.put(0, 1, [event(sequence)]) for sequence in range(1, 6)]
        await written.stop()
        await asyncio.gather(*given)
        assert len(list(storage.events(1, 0))) == 5

    asyncio.run(run())
