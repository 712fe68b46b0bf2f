"""Tables, events, snapshots: written whole or not at all, migrated forward, removed bit by bit."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text

from glcb._errors import InvalidSettings, StorageError
from glcb.service.storage import storage as storage_module
from glcb.service.storage import tables
from glcb.service.storage.database import Row, sqlite_url
from glcb.service.storage.storage import Event, SnapshotRow, Storage
from tests.service.made import storage as made


def event(sequence: int, at: float = 0.0) -> Event:
    return Event(sequence, at, "decide", b"asked", b"answered")


def rows(experiment: int, *sequences: int, at: float = 0.0) -> list[Row]:
    return [(experiment, *event(sequence, at)) for sequence in sequences]


def test_events_come_back_in_order_and_bit_by_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_module, "_ROWS", 3)
    storage = made(tmp_path)
    number = storage.create("home", Event(1, 0.1 + 0.2, "create", bytes(range(256)), b""))
    storage.append(rows(number, *range(2, 12)))
    storage.append(rows(number + 1, 1, 2))
    found = list(storage.events(number, 0))
    assert found[0] == Event(1, 0.1 + 0.2, "create", bytes(range(256)), b"")
    assert [one.sequence for one in found] == list(range(1, 12))
    assert [one.sequence for one in storage.events(number, 4, 9)] == [5, 6, 7, 8, 9]


def test_a_transaction_is_all_or_nothing(tmp_path: Path) -> None:
    storage = made(tmp_path)
    storage.append(rows(1, 1, 2))
    with pytest.raises(StorageError, match="cannot be written to"):
        storage.append(rows(1, 3, 2))
    assert [one.sequence for one in storage.events(1, 0)] == [1, 2]


def test_a_commit_is_on_disk_when_it_returns(tmp_path: Path) -> None:
    storage = made(tmp_path)
    with storage.read() as connection:
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 2
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"


def test_errors_do_not_tell_what_was_written(tmp_path: Path) -> None:
    storage = made(tmp_path)
    storage.append(rows(1, 1))
    with pytest.raises(StorageError) as caught:
        storage.append(rows(1, 1))
    assert "asked" not in str(caught.value)
    assert "asked" not in str(caught.value.__cause__)


def test_known_experiments_tell_how_far_they_are(tmp_path: Path) -> None:
    storage = made(tmp_path)
    first, second = storage.create("b", event(1)), storage.create("a", event(1))
    storage.append(rows(first, 2, 3))
    storage.save_snapshot(first, SnapshotRow(2, 0.0, "digest", 0), b"content", b"summary")
    assert [tuple(known) for known in storage.known()] == [
        (second, "a", 1, 0, b""),
        (first, "b", 3, 2, b"summary"),
    ]


def test_a_snapshot_is_there_when_all_of_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_module, "PART", 10)
    storage = made(tmp_path)
    content = bytes(range(35))
    written = 0
    write = storage.write

    def failing() -> Any:
        nonlocal written
        written += 1
        if written == 4:
            raise StorageError("the disk is full")
        return write()

    monkeypatch.setattr(storage, "write", failing)
    with pytest.raises(StorageError):
        storage.save_snapshot(1, SnapshotRow(7, 0.0, "digest", 0), content, b"")
    assert storage.snapshots(1) == []
    assert storage.snapshot_content(1, 7) == b"", "half a snapshot only takes room"
    monkeypatch.undo()
    monkeypatch.setattr(storage_module, "PART", 10)
    storage.save_snapshot(1, SnapshotRow(7, 0.0, "digest", 0), content, b"")
    assert storage.snapshots(1) == [SnapshotRow(7, 0.0, "digest", 4)]
    assert storage.snapshot_content(1, 7) == content


def test_old_snapshots_and_events_go_unless_they_are_needed(tmp_path: Path) -> None:
    storage = made(tmp_path)
    number = storage.create("home", event(1, at=0.0))
    storage.append(rows(number, *range(2, 101), at=0.0))
    storage.append(rows(number, *range(101, 201), at=1000.0))
    for sequence in (20, 40, 60, 150):
        storage.save_snapshot(number, SnapshotRow(sequence, 0.0, "digest", 0), b"x", b"")
    storage.prune(number, 2, before=500.0)
    assert [row.sequence for row in storage.snapshots(number)] == [60, 150]
    assert next(storage.events(number, 0)).sequence == 61
    storage.prune(number, 1, before=500.0)
    assert next(storage.events(number, 0)).sequence == 101, "young events stay"
    assert storage.snapshot_content(number, 60) == b""


def test_a_deleted_experiment_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_module, "_DELETED", 3)
    storage = made(tmp_path)
    number = storage.create("home", event(1))
    storage.append(rows(number, *range(2, 12)))
    storage.save_snapshot(number, SnapshotRow(5, 0.0, "digest", 0), b"x", b"")
    storage.delete(number)
    assert storage.known() == []
    again = storage.create("home", event(1))
    assert again != number
    storage.sweep()
    assert list(storage.events(number, 0)) == []
    assert storage.snapshots(number) == []
    assert [known.id for known in storage.known()] == [again]


def _add_a_column(connection: Connection) -> None:
    connection.execute(text("ALTER TABLE glcb_keys ADD COLUMN remark TEXT"))


def test_older_tables_are_brought_up_to_date(tmp_path: Path) -> None:
    storage = made(tmp_path)
    storage.create("home", event(1))
    newer = (*tables.MIGRATIONS, _add_a_column)
    with storage.write() as connection:
        tables.migrate(connection, newer)
    with storage.write() as connection:
        tables.migrate(connection, newer)  # once is enough
        connection.execute(text("SELECT remark FROM glcb_keys"))
    assert [known.name for known in storage.known()] == ["home"]
    with pytest.raises(StorageError, match="update glcb"):
        made(tmp_path)


def test_a_migration_that_fails_changes_nothing(tmp_path: Path) -> None:
    storage = made(tmp_path)

    def breaks(connection: Connection) -> None:
        _add_a_column(connection)
        raise StorageError("something is wrong")

    with pytest.raises(StorageError, match="something"), storage.write() as connection:
        tables.migrate(connection, (*tables.MIGRATIONS, breaks))
    with storage.write() as connection:
        tables.migrate(connection, (*tables.MIGRATIONS, _add_a_column))


def test_two_services_cannot_share_a_database(tmp_path: Path) -> None:
    first, second = made(tmp_path), made(tmp_path)
    with first.alone(0):
        with pytest.raises(StorageError, match="another service"), second.alone(0):
            pass
        second.append(rows(1, 1))  # keys, for instance, can be added beside it
    with second.alone(0):
        pass


@pytest.mark.parametrize("url", ["mysql://localhost/x", "nonsense", "postgresql+pg8000://localhost/x"])
def test_a_database_that_cannot_be_is_refused(url: str) -> None:
    with pytest.raises((InvalidSettings, ImportError)):
        Storage(url)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "glcb.db").write_bytes(b"nothing of the kind" * 100)
    with pytest.raises(StorageError, match="not a database"):
        made(tmp_path)


def test_the_file_is_an_ordinary_database(tmp_path: Path) -> None:
    made(tmp_path).create("home", event(1))
    with sqlite3.connect(tmp_path / "glcb.db") as connection:
        assert connection.execute("SELECT name FROM glcb_experiments").fetchall() == [("home",)]
    connection.close()
    assert sqlite_url("x.db").database == "x.db"
