"""A database that hangs: requests fail in time, the service says why, and goes on afterwards."""

import asyncio
import contextlib
import sqlite3
import threading
import time
from pathlib import Path

import pytest
from sqlalchemy.event import listen

from benchmarks.service import postgres
from glcb._errors import StorageError
from glcb.service.config import ServiceSettings
from glcb.service.engine.engine import Engine
from glcb.service.storage import journal as journal_module
from glcb.service.storage.chain import EventRow
from glcb.service.storage.connection import sqlite_url
from glcb.service.storage.database import Database
from glcb.service.storage.journal import Journal
from glcb.service.storage.threads import StorageThreads, database_call
from tests.support.builders import event, open_test_database, settings
from tests.support.engine_harness import decide, recovered, verified

DEADLINE = 0.3
LIMIT = 5.0
"""Seconds within which everything must be over, on a slow machine."""


class HangingDatabase(Database):
    """A database whose commits hang while ``open`` is cleared."""

    def __init__(self, folder: Path) -> None:
        super().__init__(sqlite_url(folder / "glcb.db"), DEADLINE)
        self.open = threading.Event()
        self.open.set()

    def append(self, rows: "list[EventRow]") -> None:  # type: ignore[override]
        self.open.wait(30)
        super().append(rows)


async def test_a_commit_that_hangs_fails_at_the_deadline_and_may_still_succeed(tmp_path: Path) -> None:
    database = HangingDatabase(tmp_path)
    journal = Journal(database, max_events=100, on_commit=lambda events, seconds: None)
    await journal.submit(0, 1, [event(1)])
    database.open.clear()
    first = journal.submit(0, 1, [event(2)])
    await asyncio.sleep(0.05)
    waiting = [first, journal.submit(0, 1, [event(3)]), journal.submit(0, 2, ())]
    assert journal.trouble() is None
    while journal.trouble() is None:
        assert not first.done()
        await asyncio.sleep(0.01)
    assert "waiting for the database" in str(journal.trouble())
    errors = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), LIMIT)
    assert {str(error) for error in errors} == {"the database has not answered for 0.3 s: retry"}
    assert journal.generation(1) == 1
    await asyncio.sleep(2 * DEADLINE)
    assert journal.failure is not None, "nothing is written before the commit has ended"
    database.open.set()
    await recovered(journal)
    assert [one.sequence for one in database.events(1, 0)] == [1, 2]
    await journal.submit(1, 1, [event(3)])
    await journal.stop()


async def test_the_journal_goes_on_after_events_have_failed_before_their_commit_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "_GATHER_SECONDS", 3 * DEADLINE)
    database = HangingDatabase(tmp_path)
    journal = Journal(database, max_events=100, on_commit=lambda events, seconds: None)
    with pytest.raises(StorageError, match="has not answered"):
        await journal.submit(0, 1, [event(1)])
    monkeypatch.setattr(journal_module, "_GATHER_SECONDS", 0.0)
    end = time.monotonic() + LIMIT
    while journal.failure is not None:
        assert time.monotonic() < end, "the journal never asks whether the database is back"
        await asyncio.sleep(0.01)
    await journal.submit(1, 1, [event(1)])
    assert [one.sequence for one in database.events(1, 0)] == [1]
    await journal.stop()


async def test_the_journal_stops_while_a_commit_hangs(tmp_path: Path) -> None:
    database = HangingDatabase(tmp_path)
    database.open.clear()
    journal = Journal(database, max_events=100, on_commit=lambda events, seconds: None)
    lost = journal.submit(0, 1, [event(1)])
    await asyncio.wait_for(journal.stop(), LIMIT)
    assert isinstance(lost.exception(), StorageError)
    database.open.set()


async def test_retries_after_a_hang_get_the_first_answer(tmp_path: Path) -> None:
    database = HangingDatabase(tmp_path)
    engine = Engine(database, ServiceSettings())
    await engine.start()
    await engine.create("home", settings())
    first = await decide(engine, {"age": 1}, idempotency_key="first")
    database.open.clear()
    with pytest.raises(StorageError, match="has not answered"):
        await asyncio.wait_for(decide(engine, {"age": 2}, idempotency_key="second"), LIMIT)
    with pytest.raises(StorageError, match="has not answered"):
        await decide(engine, {"age": 1}, idempotency_key="first")
    database.open.set()
    await recovered(engine.journal)
    assert await decide(engine, {"age": 1}, idempotency_key="first") == first
    second = await decide(engine, {"age": 2}, idempotency_key="second")
    assert await decide(engine, {"age": 2}, idempotency_key="second") == second
    counts = await engine.read("home", lambda experiment: experiment.bandit.counts)
    assert counts["decisions"] == 2
    await engine.stop()
    verified(database)


async def test_reads_that_hang_fail_in_time_and_leave_other_threads_alone() -> None:
    released = threading.Event()

    def hang() -> None:
        with database_call():
            released.wait(30)

    threads = StorageThreads(2, DEADLINE)
    calls = [threads.run(hang) for _ in range(6)]  # more than there are threads
    started = time.monotonic()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert time.monotonic() - started < LIMIT
    assert all(isinstance(result, StorageError) for result in results)
    assert threads.is_stalled
    assert await asyncio.wait_for(asyncio.to_thread(lambda: 7), LIMIT) == 7
    released.set()
    assert await threads.run(lambda: 8) == 8
    while threads.is_stalled:
        await asyncio.sleep(0.01)


def test_connections_that_hang_are_closed_and_threads_end_once_their_calls_return(tmp_path: Path) -> None:
    database = open_test_database(tmp_path)
    database.threads = StorageThreads(2, 0.05)
    connections: list[sqlite3.Connection] = []
    listen(database.engine, "connect", lambda connection, _record: connections.append(connection))
    released, others = threading.Event(), set(threading.enumerate())

    def hang() -> None:
        with database.read():
            released.wait(LIMIT)

    async def run() -> None:
        database.append([(1, *event(1))])
        with pytest.raises(StorageError, match="has not answered"):
            await asyncio.gather(database.threads.run(hang), database.threads.run(hang))

    asyncio.run(run())
    database.close()
    released.set()
    for thread in set(threading.enumerate()) - others:
        thread.join(LIMIT)
        assert not thread.is_alive()
    assert len(connections) == 2
    for connection in connections:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.cursor()


def test_a_function_may_take_long_if_each_of_its_calls_does_not() -> None:
    def replay() -> int:
        for _ in range(8):
            with database_call():
                time.sleep(0.01)
            time.sleep(DEADLINE / 4)
        return 8

    assert asyncio.run(StorageThreads(1, DEADLINE).run(replay)) == 8


def test_the_deadline_ends_the_wait_for_a_lock_of_sqlite(tmp_path: Path) -> None:
    database = Database(sqlite_url(tmp_path / "glcb.db"), DEADLINE)
    with contextlib.closing(sqlite3.connect(tmp_path / "glcb.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        started = time.monotonic()
        with pytest.raises(StorageError, match="locked"):
            database.append([(1, *event(1))])
        assert time.monotonic() - started < LIMIT
        other.rollback()
    database.append([(1, *event(1))])


@pytest.mark.live
@pytest.mark.postgres
def test_the_deadline_ends_the_wait_for_a_lock_of_postgresql(cluster: postgres.Cluster) -> None:
    with (
        contextlib.closing(Database(cluster.url, DEADLINE)) as database,
        contextlib.closing(Database(cluster.url, 60.0)) as other,
    ):
        with other.write() as connection:
            connection.exec_driver_sql("LOCK TABLE glcb_events IN ACCESS EXCLUSIVE MODE")
            started = time.monotonic()
            with pytest.raises(StorageError, match="timeout"):
                database.append([(1, *event(1))])
            with pytest.raises(StorageError, match="timeout"):
                database.event(1, 1)
            assert time.monotonic() - started < LIMIT
        database.append([(1, *event(1))])
