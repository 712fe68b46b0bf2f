"""Files, rows and events that vanish are noticed, by the running service, at its start and by the audit."""

import asyncio
import contextlib
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.service import postgres
from glcb._errors import StorageError
from glcb.service.audit import audit_database
from glcb.service.config import ServiceSettings
from glcb.service.core.engine import Engine
from glcb.service.errors import ApiError
from glcb.service.storage import journal as journal_module
from glcb.service.storage.database import Database, Event
from tests.service.builders import open_test_database, settings
from tests.service.engine_harness import decide, decide_and_reward


def event(sequence: int) -> Event:
    return Event(sequence, 0.0, "decide", b"request", b"outcome")


@pytest.mark.parametrize("name", ["glcb.db", "glcb.db-wal"])
def test_a_file_that_is_deleted_while_it_is_used_stops_all_writes(tmp_path: Path, name: str) -> None:
    database = open_test_database(tmp_path)
    with database.exclusive(0):
        number = database.create("home", event(1))
        (tmp_path / name).unlink()
        for attempt in (
            lambda: database.append([(number, *event(2))]),
            lambda: database.create("other", event(1)),
            database.probe,
        ):
            with pytest.raises(StorageError, match="was deleted or replaced while the service used it"):
                attempt()


def test_a_replaced_file_stops_all_writes(tmp_path: Path) -> None:
    database = open_test_database(tmp_path)
    with database.exclusive(0):
        number = database.create("home", event(1))
        shutil.copy(tmp_path / "glcb.db", tmp_path / "copy.db")
        (tmp_path / "copy.db").replace(tmp_path / "glcb.db")
        with pytest.raises(StorageError, match="was deleted or replaced"):
            database.append([(number, *event(2))])


def test_a_deleted_write_ahead_log_is_copied_into_the_database(tmp_path: Path) -> None:
    database = open_test_database(tmp_path)
    with database.exclusive(0):
        number = database.create("home", event(1))
        database.append([(number, *event(2))])
        (tmp_path / "glcb.db-wal").unlink()
        with pytest.raises(StorageError, match="was deleted"):
            database.probe()
        shutil.copy(tmp_path / "glcb.db", tmp_path / "copy.db")
    with contextlib.closing(sqlite3.connect(tmp_path / "copy.db")) as connection:
        assert connection.execute("SELECT count(*) FROM glcb_events").fetchone() == (2,)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DELETE FROM glcb_events WHERE sequence = 2", "event 2 of experiment 1 has vanished"),
        ("UPDATE glcb_events SET chain = zeroblob(16) WHERE sequence = 2", "event 2 .* was altered"),
    ],
)
def test_a_commit_checks_the_event_before(tmp_path: Path, statement: str, message: str) -> None:
    database = open_test_database(tmp_path)
    number = database.create("home", event(1))
    database.append([(number, *event(2))])
    with database.write() as connection:
        connection.exec_driver_sql(statement)
    with pytest.raises(StorageError, match=message):
        database.append([(number, *event(3))])


def run_service(folder: Path, scenario: Callable[[Engine, Database], object]) -> None:
    """Run a scenario with an engine that owns the database of a folder."""

    async def run() -> None:
        engine = Engine(database, ServiceSettings())
        await engine.start()
        await scenario(engine, database)  # type: ignore[misc]
        await engine.journal.stop()  # like a kill: no snapshot

    with contextlib.closing(open_test_database(folder)) as database, database.exclusive(0):
        asyncio.run(run())


async def create_and_decide(engine: Engine, _: Database) -> None:
    for name in ("home", "other"):
        await engine.create(name, settings())
        await decide_and_reward(engine, 10, name)


def delete_newest(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM glcb_events WHERE experiment = 1 AND sequence > 15")


def test_events_lost_while_running_break_their_experiment_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "_PROBE_SECONDS", 0.01)

    async def scenario(engine: Engine, database: Database) -> None:
        await create_and_decide(engine, database)
        with contextlib.closing(sqlite3.connect(tmp_path / "glcb.db")) as connection, connection:
            delete_newest(connection)
        with pytest.raises(StorageError, match="event 21 of experiment 1 has vanished"):
            await decide(engine, {"age": 1})
        while engine.journal.failure is not None:
            await asyncio.sleep(0.01)
        with pytest.raises(ApiError, match="events 16 to 21 were acknowledged but are not in the database"):
            await decide(engine, {"age": 1})
        await decide(engine, {"age": 1}, "other")

    run_service(tmp_path, scenario)


def lose_log(folder: Path) -> None:
    """Lose the write-ahead log, as after a crash that damages it."""
    (folder / "glcb.db-wal").unlink()


def lose_rows(folder: Path) -> None:
    with contextlib.closing(sqlite3.connect(folder / "glcb.db")) as connection, connection:
        delete_newest(connection)


@pytest.mark.parametrize("lose", [lose_log, lose_rows])
def test_events_lost_while_stopped_are_noticed_at_the_start_and_by_the_audit(
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    running, killed = tmp_path / "running", tmp_path / "killed"
    running.mkdir()

    async def before(engine: Engine, database: Database) -> None:
        await create_and_decide(engine, database)
        with contextlib.closing(sqlite3.connect(running / "glcb.db")) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        await decide_and_reward(engine, 5)
        shutil.copytree(running, killed)  # what a kill leaves

    async def after(engine: Engine, database: Database) -> None:
        with pytest.raises(ApiError, match=r"to 31 were acknowledged .* delete .*glcb\.db\.mark to continue"):
            await decide(engine, {"age": 1})
        await decide(engine, {"age": 1}, "other")

    async def accepted(engine: Engine, database: Database) -> None:
        await decide(engine, {"age": 1})

    run_service(running, before)
    lose(killed)
    with contextlib.closing(open_test_database(killed)) as database:
        home, other = audit_database(database)
    assert not home.ok
    assert "to 31 were acknowledged but are not in the database" in home.line
    assert other.ok
    run_service(killed, after)
    (killed / "glcb.db.mark").unlink()
    run_service(killed, accepted)


def test_a_lost_experiment_is_found_by_the_audit(tmp_path: Path) -> None:
    run_service(tmp_path, create_and_decide)
    with contextlib.closing(sqlite3.connect(tmp_path / "glcb.db")) as connection, connection:
        for table in ("glcb_events WHERE experiment", "glcb_experiments WHERE id"):
            connection.execute(f"DELETE FROM {table} = 2")
    with contextlib.closing(open_test_database(tmp_path)) as database:
        lines = [finding.line for finding in audit_database(database) if not finding.ok]
    assert lines == ["experiment 2: DIFFERENT: all its 21 events are lost"]


def test_a_deleted_experiment_is_not_a_lost_one(tmp_path: Path) -> None:
    async def scenario(engine: Engine, database: Database) -> None:
        await create_and_decide(engine, database)
        await engine.delete("other")
        await engine.stop()

    run_service(tmp_path, scenario)
    with contextlib.closing(open_test_database(tmp_path)) as database:
        (finding,) = audit_database(database)
    assert finding.ok


def test_a_new_database_does_not_take_the_place_of_a_deleted_one_unnoticed(tmp_path: Path) -> None:
    run_service(tmp_path, create_and_decide)
    (tmp_path / "glcb.db").unlink()
    database = open_test_database(tmp_path)
    with (
        pytest.raises(StorageError, match=r"glcb\.db\.mark belongs to another database"),
        database.exclusive(0),
    ):
        pass


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DELETE FROM glcb_events WHERE sequence < 8", "events 1 to 7 were deleted, but not by pruning"),
        ("DELETE FROM glcb_events WHERE sequence = 8", "events 8 to 8 were deleted"),
        ("UPDATE glcb_events SET at = at + 1e-3 WHERE sequence = 8", "event 8 was altered"),
        ("UPDATE glcb_events SET request = request || ' ' WHERE sequence = 8", "DIFFERENT"),
        (r"UPDATE glcb_events SET request = X'7B2261223A22FF227D' WHERE sequence = 8", "event 8 was altered"),
        (r"UPDATE glcb_events SET kind = CAST(X'FF' AS TEXT) WHERE sequence = 8", "DIFFERENT"),
    ],
)
def test_the_audit_notices_deleted_and_altered_history(tmp_path: Path, statement: str, message: str) -> None:
    async def scenario(engine: Engine, _: Database) -> None:
        await engine.create("home", settings())
        await decide_and_reward(engine, 10)
        await engine.cache.save(engine.loaded["home"])

    run_service(tmp_path, scenario)
    with contextlib.closing(sqlite3.connect(tmp_path / "glcb.db")) as connection, connection:
        connection.execute(statement)
    with contextlib.closing(open_test_database(tmp_path)) as database:
        (finding,) = audit_database(database)
    assert not finding.ok
    assert message in finding.line


def test_damaged_text_breaks_the_experiment_with_a_reason(tmp_path: Path) -> None:
    async def before(engine: Engine, _: Database) -> None:
        await engine.create("home", settings())
        await decide_and_reward(engine, 3)

    async def after(engine: Engine, _: Database) -> None:
        with pytest.raises(ApiError, match="replayed outcome UnicodeDecodeError"):
            await decide(engine, {"age": 1})

    run_service(tmp_path, before)
    with contextlib.closing(sqlite3.connect(tmp_path / "glcb.db")) as connection, connection:
        damaged = b'{"context":{"age":"\xff"}}'
        connection.execute("UPDATE glcb_events SET request = ? WHERE sequence = 2", (damaged,))
    run_service(tmp_path, after)


def test_the_audit_reports_what_was_pruned(tmp_path: Path) -> None:
    async def scenario(engine: Engine, database: Database) -> None:
        await engine.create("home", settings())
        await decide_and_reward(engine, 10)
        await engine.cache.save(engine.loaded["home"])
        database.prune(1, 1, before=1e12, now=0.0)

    run_service(tmp_path, scenario)
    with contextlib.closing(open_test_database(tmp_path)) as database:
        (finding,) = audit_database(database)
    assert finding.ok
    assert "events 1 to 20 were pruned, the last of them at 1970-01-01" in finding.line


@pytest.mark.live
@pytest.mark.postgres
def test_a_fail_over_that_loses_events_is_noticed(cluster: postgres.Cluster, tmp_path: Path) -> None:
    mark = str(tmp_path / "mark")
    with contextlib.closing(Database(cluster.url, high_water_file=mark)) as database, database.exclusive(0):
        number = database.create("home", event(1))
        database.append([(number, *event(sequence)) for sequence in range(2, 6)])
        cluster.ask("DELETE FROM glcb_events WHERE sequence > 3")
        with pytest.raises(StorageError, match="event 5 of experiment 1 has vanished"):
            database.append([(number, *event(6))])
    with contextlib.closing(Database(cluster.url, high_water_file=mark)) as database, database.exclusive(0):
        assert database.lost_events(number) == "events 4 to 5 were acknowledged but are not in the database"
