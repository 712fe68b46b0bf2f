"""Files, rows and events that vanish are noticed, by the running service, at its start and by the audit."""

import contextlib
import os
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection
from typer.testing import CliRunner

from benchmarks.service import postgres
from glcb import cli
from glcb._errors import StorageError
from glcb.service.engine.audit import Finding, audit_database
from glcb.service.engine.engine import Engine
from glcb.service.errors import ApiError
from glcb.service.events import Event
from glcb.service.storage.database import Database
from tests.support.builders import event, findings, open_test_database, settings, sql
from tests.support.engine_harness import decide, decide_and_reward, own_engine, recovered, run_service

CHECKPOINT = "PRAGMA wal_checkpoint(TRUNCATE)"
SWAP = [
    f"UPDATE glcb_experiments SET name = '{name}' WHERE id = {n}"
    for n, name in ((1, "t"), (2, "home"), (1, "other"))
]
"""Statements that swap the names of two experiments."""


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


@pytest.mark.parametrize(("name", "size"), [("glcb.db-wal", 0), ("glcb.db-wal", 0.5), ("glcb.db", 0.5)])
def test_a_file_that_is_truncated_while_it_is_used_stops_all_writes(
    tmp_path: Path, name: str, size: float
) -> None:
    database = open_test_database(tmp_path)
    with database.exclusive(0):
        number = database.create("home", event(1))
        database.append([(number, *event(sequence)) for sequence in range(2, 200)])
        if name == "glcb.db":
            database._checkpoint()  # otherwise, the write-ahead log has everything that this file loses
            database.append([(number, *event(200))])
        file = tmp_path / name
        os.truncate(file, int(file.stat().st_size * size))
        for _ in range(2):
            with pytest.raises(StorageError, match="was truncated while the service used it"):
                database.append([(number, *event(201))])
            with pytest.raises(StorageError, match="was truncated"):
                database.probe()


def test_a_checkpoint_of_another_program_stops_nothing(tmp_path: Path) -> None:
    database = open_test_database(tmp_path)
    with database.exclusive(0):
        number = database.create("home", event(1))
        sql(tmp_path, CHECKPOINT)
        assert (tmp_path / "glcb.db-wal").stat().st_size == 0
        database.append([(number, *event(2))])
        database.probe()


def test_a_checkpoint_of_another_program_stops_nothing_beside_a_broken_experiment(
    tmp_path: Path,
) -> None:
    database = open_test_database(tmp_path)
    with database.exclusive(0):
        numbers = [database.create(name, event(1)) for name in ("home", "other")]
        database.append([(numbers[1], *event(2))])
    database = open_test_database(tmp_path)
    with database.write() as connection:
        connection.exec_driver_sql("DELETE FROM glcb_events WHERE experiment = 2 AND sequence = 2")
    with database.exclusive(0):
        database.append([(numbers[0], *event(2))])
        sql(tmp_path, CHECKPOINT)
        database.append([(numbers[0], *event(3))])


def test_an_error_while_files_are_compared_is_temporary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = open_test_database(tmp_path)
    with database.exclusive(0):
        number = database.create("home", event(1))
        sql(tmp_path, CHECKPOINT)
        elsewhere = tmp_path / "nowhere" / "glcb.db"
        with monkeypatch.context() as patch:
            patch.setattr(database, "_file", elsewhere)
            with pytest.raises(StorageError, match="unable to open"):
                database.append([(number, *event(2))])
        database.append([(number, *event(2))])


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


async def create_and_decide(engine: Engine, _: Database) -> None:
    for name in ("home", "other"):
        await engine.create(name, settings())
        await decide_and_reward(engine, 10, name)


def lose_rows(folder: Path) -> None:
    sql(folder, "DELETE FROM glcb_events WHERE experiment = 1 AND sequence > 15")


async def test_events_lost_while_running_break_their_experiment_only(tmp_path: Path) -> None:
    async with own_engine(tmp_path) as (engine, database):
        await create_and_decide(engine, database)
        lose_rows(tmp_path)
        with pytest.raises(StorageError, match="event 21 of experiment 1 has vanished"):
            await decide(engine, {"age": 1})
        await recovered(engine.journal)
        with pytest.raises(ApiError, match="events 16 to 21 were acknowledged but are not in the database"):
            await decide(engine, {"age": 1})
        await decide(engine, {"age": 1}, "other")


def lose_log(folder: Path) -> None:
    """Lose the write-ahead log, as after a crash that damages it."""
    (folder / "glcb.db-wal").unlink()


@pytest.mark.parametrize("lose", [lose_log, lose_rows])
async def test_events_lost_while_stopped_are_noticed_at_the_start_and_by_the_audit(
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    running, killed = tmp_path / "running", tmp_path / "killed"
    running.mkdir()

    async with own_engine(running) as (engine, database):
        await create_and_decide(engine, database)
        sql(running, CHECKPOINT)
        await decide_and_reward(engine, 5)
        shutil.copytree(running, killed)  # what a kill leaves
    lose(killed)
    home, other = findings(killed)
    assert not home.ok
    assert "to 31 were acknowledged but are not in the database" in home.line
    assert other.ok
    async with own_engine(killed) as (engine, _):
        with pytest.raises(ApiError, match=r"to 31 were acknowledged .*/v1/experiments/home/recover"):
            await decide(engine, {"age": 1})
        await decide(engine, {"age": 1}, "other")
    async with own_engine(killed) as (engine, _):
        with pytest.raises(ApiError, match="cannot be loaded"):
            await decide(engine, {"age": 1})
        await engine.recover("home")
        await decide(engine, {"age": 1, "country": "A"})


def test_a_lost_experiment_is_found_by_the_audit(tmp_path: Path) -> None:
    run_service(tmp_path, create_and_decide)
    sql(
        tmp_path,
        *(
            f"DELETE FROM {rows} = 2"
            for rows in ("glcb_events WHERE experiment", "glcb_experiments WHERE id")
        ),
    )
    assert audited(tmp_path) == ["experiment 2: DAMAGED: all its 21 events are lost"]


async def test_a_deleted_experiment_is_not_a_lost_one(tmp_path: Path) -> None:
    async with own_engine(tmp_path) as (engine, database):
        await create_and_decide(engine, database)
        await engine.delete("other")
        await engine.stop()
    (finding,) = findings(tmp_path)
    assert finding.ok


def test_a_sweep_that_outlives_its_service_loses_nothing(tmp_path: Path) -> None:
    """A thread that was abandoned can still sweep after the high-water mark was closed."""
    first = Event(1, 0.0, "create", b"request", b"outcome")
    with contextlib.closing(open_test_database(tmp_path)) as database:
        with database.exclusive(0):
            number = database.create("home", first)
            database.delete(number, 0.0)
            assert database.marks is not None
            database.marks.close()
            with pytest.raises(StorageError, match=re.escape("glcb.db.mark")):
                database.sweep()
        assert list(database.hidden()) == [number]
        with database.exclusive(0):
            database.sweep()
        assert list(audit_database(database)) == [Finding("there are no experiments")]


def test_a_deletion_that_is_committed_late_leaves_no_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that deletes an experiment can be slower than the one that removes its rows."""
    first = Event(1, 0.0, "create", b"request", b"outcome")
    with contextlib.closing(open_test_database(tmp_path)) as database, database.exclusive(0):
        number = database.create("home", first)
        write = database.write

        @contextlib.contextmanager
        def write_and_sweep() -> Iterator[Connection]:
            with write() as connection:
                yield connection
            monkeypatch.undo()
            database.sweep()

        monkeypatch.setattr(database, "write", write_and_sweep)
        database.delete(number, 0.0)
        assert list(audit_database(database)) == [Finding("there are no experiments")]


def audited(folder: Path) -> list[str]:
    """Return what the audit finds wrong."""
    return [finding.line for finding in findings(folder) if not finding.ok]


async def nothing(_engine: Engine, _: Database) -> None:
    return None


def test_a_damaged_name_deletes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run_service(tmp_path, create_and_decide)
    before = sql(tmp_path, "SELECT count(*) FROM glcb_events")
    sql(tmp_path, "UPDATE glcb_experiments SET name = '-1' WHERE id = 1")
    expected = "experiment 1: DAMAGED: its name 'home' is damaged, which hides it, but it was not deleted"
    assert audited(tmp_path) == [expected]
    sql(tmp_path, "UPDATE glcb_events SET request = x'ff' WHERE experiment = 1 AND sequence = 1")
    assert audited(tmp_path) == [expected.replace(" 'home'", "")], "the other experiment is audited, too"
    run_service(tmp_path, nothing)
    assert "the name of an experiment is damaged" in caplog.text
    assert sql(tmp_path, "SELECT count(*) FROM glcb_events") == before


@pytest.mark.parametrize(
    ("statements", "findings"),
    [
        (
            SWAP,
            [
                "home: DAMAGED: it was created with the name 'other'",
                "other: DAMAGED: it was created with the name 'home'",
            ],
        ),
        (
            ["DELETE FROM glcb_experiments WHERE id = 2"],
            ["experiment 2: DAMAGED: it has 21 events, but no name"],
        ),
    ],
    ids=["swapped", "lost"],
)
def test_the_audit_compares_names_with_the_first_events(
    tmp_path: Path, statements: list[str], findings: list[str]
) -> None:
    run_service(tmp_path, create_and_decide)
    sql(tmp_path, *statements)
    (tmp_path / "glcb.db.mark").unlink()
    assert audited(tmp_path) == findings


async def test_a_damaged_summary_is_reported_and_not_listed(tmp_path: Path) -> None:
    async with own_engine(tmp_path) as (engine, _):
        await engine.create("home", settings())
        await engine.cache.unload(engine.loaded["home"])
    changed = "CAST(replace(CAST(summary AS TEXT), 'home', '-ome') AS BLOB)"
    sql(tmp_path, f"UPDATE glcb_snapshots SET summary = {changed}")
    assert audited(tmp_path) == ["home: DAMAGED: the summary of its newest snapshot is damaged"]

    async with own_engine(tmp_path) as (engine, _):
        assert [one.name for one in await engine.list_experiments(lambda name: True)] == ["home"]


async def test_experiments_with_swapped_names_are_broken(tmp_path: Path) -> None:
    async with own_engine(tmp_path) as (engine, database):
        await create_and_decide(engine, database)
    sql(tmp_path, *SWAP)

    async with own_engine(tmp_path) as (engine, _):
        with pytest.raises(ApiError, match="it was created with the name 'other'") as caught:
            await decide(engine, {"age": 1})
        assert caught.value.code == "experiment_broken"


def test_a_damaged_high_water_mark_is_reported_and_renewed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run_service(tmp_path, create_and_decide)
    mark = tmp_path / "glcb.db.mark"
    content = bytearray(mark.read_bytes())
    content[32 + 3] ^= 4
    mark.write_bytes(content)
    assert audited(tmp_path) == [f"DAMAGED: the high-water mark of experiment 1 is damaged: {mark}"]
    run_service(tmp_path, nothing)
    assert "the high-water mark is damaged" in caplog.text
    assert audited(tmp_path) == []


@pytest.mark.parametrize("size", [0, 32])
def test_a_truncated_high_water_mark_is_reported_and_renewed(tmp_path: Path, size: int) -> None:
    run_service(tmp_path, create_and_decide)
    os.truncate(tmp_path / "glcb.db.mark", size)
    lines = [finding.line for finding in findings(tmp_path)]
    assert [line.partition(";")[2] for line in lines] == [" the high-water mark does not have it"] * 2
    run_service(tmp_path, nothing)
    lose_rows(tmp_path)
    assert [line.partition(":")[0] for line in audited(tmp_path)] == ["home"]


def test_the_audit_reports_a_damaged_schema(tmp_path: Path) -> None:
    run_service(tmp_path, create_and_decide)
    file = tmp_path / "glcb.db"
    content = file.read_bytes()
    codes = []
    for found in re.finditer(b"CREATE TABLE glcb_", content):
        for place in (30, 48):
            damaged = bytearray(content)
            damaged[found.start() + place] ^= 0x80
            file.write_bytes(damaged)
            result = CliRunner().invoke(cli.app, ["audit", "--data", str(file)])
            assert isinstance(result.exception, SystemExit | StorageError | None), "which the command prints"
            codes.append(result.exit_code)
    assert 1 in codes


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
        ("UPDATE glcb_events SET request = request || ' ' WHERE sequence = 8", "DAMAGED"),
        (r"UPDATE glcb_events SET request = X'7B2261223A22FF227D' WHERE sequence = 8", "event 8 was altered"),
        (r"UPDATE glcb_events SET kind = CAST(X'FF' AS TEXT) WHERE sequence = 8", "DAMAGED"),
    ],
)
async def test_the_audit_notices_deleted_and_altered_history(
    tmp_path: Path, statement: str, message: str
) -> None:
    async with own_engine(tmp_path) as (engine, _):
        await engine.create("home", settings())
        await decide_and_reward(engine, 10)
        await engine.cache.save(engine.loaded["home"])
    sql(tmp_path, statement)
    (finding,) = findings(tmp_path)
    assert not finding.ok
    assert message in finding.line


async def test_damaged_text_breaks_the_experiment_with_a_reason(tmp_path: Path) -> None:
    async with own_engine(tmp_path) as (engine, _):
        await engine.create("home", settings())
        await decide_and_reward(engine, 3)
    damaged = b'{"context":{"age":"\xff"}}'.hex()
    sql(tmp_path, f"UPDATE glcb_events SET request = x'{damaged}' WHERE sequence = 2")
    async with own_engine(tmp_path) as (engine, _):
        with pytest.raises(ApiError, match="event 2 was altered"):
            await decide(engine, {"age": 1})


async def test_the_audit_reports_what_was_pruned(tmp_path: Path) -> None:
    async with own_engine(tmp_path) as (engine, database):
        await engine.create("home", settings())
        await decide_and_reward(engine, 10)
        await engine.cache.save(engine.loaded["home"])
        database.prune(1, 1, before=1e12, now=0.0)
    (finding,) = findings(tmp_path)
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
