"""Group commit: events are journal in order and together, and none behind a failed commit."""

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from glcb._errors import StorageError
from glcb.service.storage.chain import EventRow
from glcb.service.storage.connection import sqlite_url
from glcb.service.storage.database import Database
from glcb.service.storage.journal import Journal
from tests.support.builders import event
from tests.support.engine_harness import recovered


class ControlledDatabase(Database):
    """Blocks commits while ``open`` is cleared, and rejects them while ``fails`` is set."""

    def __init__(self, folder: Path) -> None:
        super().__init__(sqlite_url(folder / "glcb.db"))
        self.open = threading.Event()
        self.open.set()
        self.fails = False
        self.commits: list[list[int]] = []

    def append(self, rows: Sequence[EventRow]) -> None:
        self.open.wait(10)
        if self.fails:
            raise StorageError("the disk is full")
        super().append(rows)
        self.commits.append([row[1] for row in rows])

    def probe(self) -> None:
        if self.fails:
            raise StorageError("the disk is still full")
        super().probe()


def make_journal(database: Database, max_events: int = 100) -> Journal:
    return Journal(database, max_events=max_events, on_commit=lambda events, seconds: None)


async def test_events_submitted_during_a_commit_share_the_next_one(tmp_path: Path) -> None:
    database = ControlledDatabase(tmp_path)
    journal = make_journal(database, max_events=10)
    database.open.clear()
    first = journal.submit(0, 1, [event(1)])
    await asyncio.sleep(0.05)
    others = [journal.submit(0, 1, [event(sequence)]) for sequence in range(2, 26)]
    assert not first.done()
    database.open.set()
    await asyncio.gather(first, *others)
    assert database.commits == [[1], list(range(2, 12)), list(range(12, 22)), list(range(22, 26))]
    assert [one.sequence for one in database.events(1, 0)] == list(range(1, 26))
    assert journal.depth == 0
    await journal.stop()


async def test_a_barrier_waits_only_while_events_are_being_written(tmp_path: Path) -> None:
    database = ControlledDatabase(tmp_path)
    journal = make_journal(database)
    assert journal.submit(0, 1, ()).done()
    database.open.clear()
    first = journal.submit(0, 1, [event(1)])
    barrier = journal.submit(0, 2, ())
    await asyncio.sleep(0.05)
    assert not barrier.done()
    database.open.set()
    await barrier
    assert first.done()
    await journal.stop()


async def test_events_behind_a_failure_fail_until_the_experiment_is_loaded_again(tmp_path: Path) -> None:
    database = ControlledDatabase(tmp_path)
    journal = make_journal(database)
    await journal.submit(0, 1, [event(1)])
    database.open.clear()
    database.fails = True
    lost = [journal.submit(0, 1, [event(2)]), journal.submit(0, 1, [event(3)]), journal.submit(0, 2, ())]
    database.open.set()
    errors = await asyncio.gather(*lost, return_exceptions=True)
    assert [str(error) for error in errors] == ["the disk is full"] * 3
    with pytest.raises(StorageError):
        journal.submit(0, 1, [event(4)])
    assert journal.generation(1) == 1
    await asyncio.sleep(0.05)
    assert journal.failure == "the disk is still full"
    database.fails = False
    await recovered(journal)
    with pytest.raises(StorageError, match="retry"):
        journal.submit(0, 1, [event(4)])  # loaded before the failure
    await journal.submit(1, 1, [event(2)])
    assert [one.sequence for one in database.events(1, 0)] == [1, 2]
    await journal.stop()


async def test_a_rejected_event_fails_with_all_behind_it_in_its_experiment_only(tmp_path: Path) -> None:
    database = ControlledDatabase(tmp_path)
    journal = make_journal(database)
    database.open.clear()
    waiting = journal.submit(0, 1, [event(1)])
    await asyncio.sleep(0.05)  # it is being written; the next ones share a commit
    first = [journal.submit(0, number, [event(2 if number == 1 else 1)]) for number in (1, 2, 3)]
    bad = journal.submit(0, 2, [event(2), event(3)._replace(author="\ud800")])
    behind = [journal.submit(0, 2, [event(4)]), journal.submit(0, 2, ())]
    others = [
        journal.submit(0, 3, [event(2)]),
        journal.submit(0, 3, ()),
        journal.submit(0, 1, [event(3)]),
    ]
    database.open.set()
    await asyncio.gather(waiting, *first, *others)
    for failed in (bad, *behind):
        with pytest.raises(StorageError, match="the database rejects an event"):
            await failed
    written = {number: [one.sequence for one in database.events(number, 0)] for number in (1, 2, 3)}
    assert written == {1: [1, 2, 3], 2: [1], 3: [1, 2]}
    assert [journal.generation(number) for number in (1, 2, 3)] == [0, 1, 0]
    assert (journal.failure, journal.depth) == (None, 0)
    with pytest.raises(StorageError):
        journal.submit(0, 2, [event(5)])  # loaded before
    await journal.submit(1, 2, [event(2)])
    await journal.stop()


async def test_it_accepts_events_again_if_it_gave_up_just_when_a_commit_succeeded(tmp_path: Path) -> None:
    database = ControlledDatabase(tmp_path)
    journal = make_journal(database)
    await journal.submit(0, 1, [event(1)])
    journal._give_up("the database has not answered")  # no event is waiting any more
    async with asyncio.timeout(10):
        await recovered(journal)
    await journal.submit(journal.generation(1), 1, [event(2)])
    await journal.stop()


async def test_it_stops_while_the_database_is_unavailable(tmp_path: Path) -> None:
    database = ControlledDatabase(tmp_path)
    database.fails = True
    journal = make_journal(database)
    with pytest.raises(StorageError):
        await journal.submit(0, 1, [event(1)])
    await asyncio.wait_for(journal.stop(), 5)


async def test_queued_events_are_written_before_it_stops(tmp_path: Path) -> None:
    database = ControlledDatabase(tmp_path)
    journal = make_journal(database)
    futures = [journal.submit(0, 1, [event(sequence)]) for sequence in range(1, 6)]
    await journal.stop()
    await asyncio.gather(*futures)
    assert len(list(database.events(1, 0))) == 5
