"""The database: transactions, events, snapshots, pruning, format versions and locks."""

import asyncio
import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from benchmarks.service import postgres
from glcb._errors import InvalidSettings, StorageError
from glcb._formats import DATABASE
from glcb.service.events import Event
from glcb.service.storage import database as database_module
from glcb.service.storage.chain import EventRow
from glcb.service.storage.connection import connect, parse_url, sqlite_url
from glcb.service.storage.database import Database
from glcb.service.storage.journal import Journal
from glcb.service.storage.rows import SnapshotRow
from glcb.service.storage.tables import MAX_AUTHOR
from tests.support.builders import event, open_test_database


def rows(experiment: int, *sequences: int, at: float = 0.0) -> list[EventRow]:
    return [(experiment, *event(sequence, at)) for sequence in sequences]


def test_events_are_read_in_order_and_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "_PAGE_EVENTS", 3)
    database = open_test_database(tmp_path)
    number = database.create("home", Event(1, 0.1 + 0.2, "create", bytes(range(256)), b""))
    database.append(rows(number, *range(2, 12)))
    database.append(rows(number + 1, 1, 2))
    stored = list(database.events(number, 0))
    assert stored[0] == Event(1, 0.1 + 0.2, "create", bytes(range(256)), b"")
    assert [one.sequence for one in stored] == list(range(1, 12))
    assert [one.sequence for one in database.events(number, 4, 9)] == [5, 6, 7, 8, 9]


def test_a_transaction_is_all_or_nothing(tmp_path: Path) -> None:
    database = open_test_database(tmp_path)
    database.append(rows(1, 1, 2))
    with pytest.raises(StorageError, match="the database rejects an event"):
        database.append([*rows(2, 1), *rows(1, 2)])
    with pytest.raises(StorageError, match="event 5 of experiment 1 cannot follow event 3"):
        database.append(rows(1, 3, 5))
    assert [one.sequence for one in database.events(1, 0)] == [1, 2]
    assert list(database.events(2, 0)) == []


def test_a_commit_is_on_disk_when_it_returns(tmp_path: Path) -> None:
    database = open_test_database(tmp_path)
    with database.read() as connection:
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 2
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"


def test_errors_do_not_contain_the_written_data(tmp_path: Path) -> None:
    database = open_test_database(tmp_path)
    database.append(rows(1, 1))
    with pytest.raises(StorageError) as caught:
        database.append(rows(1, 1))
    assert "request" not in str(caught.value)
    assert "request" not in str(caught.value.__cause__)


def test_experiments_are_listed_with_their_last_event_and_snapshot(tmp_path: Path) -> None:
    database = open_test_database(tmp_path)
    first, second = database.create("b", event(1)), database.create("a", event(1))
    database.append(rows(first, 2, 3))
    database.save_snapshot(first, SnapshotRow(2, 0.0, "digest", 0), b"content", b"summary")
    assert [tuple(row) for row in database.experiments()] == [
        (second, "a", 1, 0, b"", 0.0),
        (first, "b", 3, 2, b"summary", 0.0),
    ]


def test_a_snapshot_exists_only_if_it_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "PART_BYTES", 10)
    database = open_test_database(tmp_path)
    content = bytes(range(35))
    written = 0
    write = database.write

    def failing() -> Any:
        nonlocal written
        written += 1
        if written == 4:
            raise StorageError("the disk is full")
        return write()

    monkeypatch.setattr(database, "write", failing)
    with pytest.raises(StorageError):
        database.save_snapshot(1, SnapshotRow(7, 0.0, "digest", 0), content, b"")
    assert database.snapshots(1) == []
    assert database.snapshot_content(1, 7) == b"", "an incomplete snapshot wastes disk space"
    monkeypatch.undo()
    monkeypatch.setattr(database_module, "PART_BYTES", 10)
    database.save_snapshot(1, SnapshotRow(7, 0.0, "digest", 0), content, b"")
    assert database.snapshots(1) == [SnapshotRow(7, 0.0, "digest", 4)]
    assert database.snapshot_content(1, 7) == content


def test_pruning_keeps_recent_events_and_those_that_a_snapshot_needs(tmp_path: Path) -> None:
    database = open_test_database(tmp_path)
    number = database.create("home", event(1, at=0.0))
    database.append(rows(number, *range(2, 101), at=0.0))
    database.append(rows(number, *range(101, 201), at=1000.0))
    for sequence in (20, 40, 60, 150):
        database.save_snapshot(number, SnapshotRow(sequence, 0.0, "digest", 0), b"x", b"")
    database.prune(number, 2, before=500.0, now=1500.0)
    assert [row.sequence for row in database.snapshots(number)] == [60, 150]
    assert next(database.events(number, 0)).sequence == 60
    database.prune(number, 1, before=500.0, now=1500.0)
    assert next(database.events(number, 0)).sequence == 101, "recent events are kept"
    assert database.snapshot_content(number, 60) == b""


def test_a_snapshot_that_is_written_after_its_events_were_pruned_is_not_used(tmp_path: Path) -> None:
    database = open_test_database(tmp_path)
    number = database.create("home", event(1, at=0.0))
    database.append(rows(number, *range(2, 51), at=0.0))
    database.save_snapshot(number, SnapshotRow(40, 0.0, "digest", 0), b"x", b"")
    database.prune(number, 1, before=500.0, now=1500.0)
    for late in (20, 39):
        database.save_snapshot(number, SnapshotRow(late, 0.0, "digest", 0), b"x", b"")
    assert [row.sequence for row in database.snapshots(number)] == [40]


def test_a_deleted_experiment_leaves_no_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "_PAGE_EVENTS", 3)
    database = open_test_database(tmp_path)
    number = database.create("home", event(1))
    database.append(rows(number, *range(2, 12)))
    database.save_snapshot(number, SnapshotRow(5, 0.0, "digest", 0), b"x", b"")
    database.delete(number, 0.0)
    assert database.experiments() == []
    again = database.create("home", event(1))
    assert again != number
    database.sweep()
    assert list(database.events(number, 0)) == []
    assert database.snapshots(number) == []
    assert [row.id for row in database.experiments()] == [again]


def write_version(folder: Path, version: str) -> None:
    """Create a database that only has a format version, as every version of glcb writes it."""
    with contextlib.closing(sqlite3.connect(folder / "glcb.db")) as connection, connection:
        connection.execute("CREATE TABLE glcb_about (name VARCHAR(64) PRIMARY KEY, value TEXT NOT NULL)")
        connection.execute("INSERT INTO glcb_about VALUES ('version', ?)", (version,))


@pytest.mark.parametrize("version", ["1", "99"])
def test_a_database_of_another_format_is_rejected_unchanged(tmp_path: Path, version: str) -> None:
    write_version(tmp_path, version)
    expected = rf"has format {version}, but glcb .* reads format {DATABASE.number}: .*start a new database"
    with pytest.raises(StorageError, match=expected):
        open_test_database(tmp_path)
    with contextlib.closing(sqlite3.connect(tmp_path / "glcb.db")) as connection:
        assert connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall() == [
            ("glcb_about",)
        ]
        assert connection.execute("SELECT value FROM glcb_about").fetchall() == [(version,)]


@pytest.mark.live
@pytest.mark.postgres
def test_a_postgresql_database_of_another_format_is_rejected(cluster: postgres.Cluster) -> None:
    engine = connect(parse_url(cluster.url), 10.0)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE glcb_about (name TEXT PRIMARY KEY, value TEXT NOT NULL)"))
        connection.execute(text("INSERT INTO glcb_about VALUES ('version', '1')"))
    engine.dispose()
    with pytest.raises(StorageError, match="has format 1, but glcb"):
        Database(cluster.url)


@pytest.mark.live
@pytest.mark.postgres
async def test_a_row_that_postgresql_rejects_fails_alone(cluster: postgres.Cluster) -> None:
    database = Database(cluster.url)
    numbers = [database.create(name, event(1)) for name in ("home", "other")]
    journal = Journal(database, max_events=100, on_commit=lambda events, seconds: None)
    longest, longer = (event(2)._replace(author="a" * length) for length in (MAX_AUTHOR, MAX_AUTHOR + 1))
    other = journal.submit(0, numbers[1], [longest])
    rejected = journal.submit(0, numbers[0], [longer])
    more = journal.submit(0, numbers[1], [event(3)])
    await asyncio.gather(other, more)
    with pytest.raises(StorageError, match="the database rejects an event"):
        await rejected
    await journal.submit(1, numbers[0], [event(2)])
    await journal.stop()
    assert [database.last_sequence(number) for number in numbers] == [2, 3]
    database.close()


def test_two_services_cannot_share_a_database(tmp_path: Path) -> None:
    first, second = open_test_database(tmp_path), open_test_database(tmp_path)
    with first.exclusive(0):
        with pytest.raises(StorageError, match="another service"), second.exclusive(0):
            pass
        second.append(rows(1, 1))  # other commands, such as `glcb keys add`, can write
    with second.exclusive(0):
        pass


@pytest.mark.parametrize("url", ["mysql://localhost/x", "nonsense", "postgresql+pg8000://localhost/x"])
def test_an_unsupported_database_url_is_rejected(url: str) -> None:
    with pytest.raises((InvalidSettings, ImportError)):
        Database(url)


def test_a_file_that_is_not_a_database_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "glcb.db").write_bytes(b"not a database" * 100)
    with pytest.raises(StorageError, match="not a database"):
        open_test_database(tmp_path)


def test_the_file_is_an_ordinary_sqlite_database(tmp_path: Path) -> None:
    open_test_database(tmp_path).create("home", event(1))
    with sqlite3.connect(tmp_path / "glcb.db") as connection:
        assert connection.execute("SELECT name FROM glcb_experiments").fetchall() == [("home",)]
    connection.close()
    assert sqlite_url("x.db").database == "x.db"
