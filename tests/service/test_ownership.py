"""One service owns a database: locks, what happens when they are lost, and the epoch."""

import contextlib
import os
import sqlite3
from pathlib import Path

import pytest

from benchmarks.service import postgres
from glcb._errors import StorageError
from glcb.service.storage.connection import sqlite_url
from glcb.service.storage.database import Database
from tests.support.builders import event, open_test_database


def test_a_symbolic_link_leads_to_the_same_lock(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "glcb.db")
    first, second = open_test_database(tmp_path), Database(sqlite_url(tmp_path / "link.db"))
    with first.exclusive(0), pytest.raises(StorageError, match="another service"), second.exclusive(0):
        pass


def test_a_hard_link_is_refused(tmp_path: Path) -> None:
    open_test_database(tmp_path).close()
    os.link(tmp_path / "glcb.db", tmp_path / "link.db")
    database = Database(sqlite_url(tmp_path / "link.db"))
    with pytest.raises(StorageError, match="one of 2 names of the same file"), database.exclusive(0):
        pass


def test_a_deleted_lock_file_stops_writes_until_the_lock_is_acquired_again(tmp_path: Path) -> None:
    database = open_test_database(tmp_path)
    with database.exclusive(0):
        number = database.create("home", event(1))
        (tmp_path / "glcb.db.lock").unlink()
        with pytest.raises(StorageError, match=r"lock file .* was deleted or replaced"):
            database.append([(number, *event(2))])
        database.probe()
        database.append([(number, *event(3))])
        second = open_test_database(tmp_path)
        with pytest.raises(StorageError, match="another service"), second.exclusive(0):
            pass


def test_a_service_that_lost_its_lock_to_another_cannot_write(tmp_path: Path) -> None:
    first = open_test_database(tmp_path)
    with first.exclusive(0):
        number = first.create("home", event(1))
        (tmp_path / "glcb.db.lock").unlink()
        second = open_test_database(tmp_path)
        with second.exclusive(0):
            for write in (
                lambda: first.append([(number, *event(2))]),
                lambda: first.create("other", event(1)),
                lambda: first.delete(number, 0.0),
                first.probe,
                first.watch,
            ):
                with pytest.raises(StorageError, match="another service has taken over"):
                    write()
            second.append([(number, *event(2))])
        with pytest.raises(StorageError, match="another service has taken over"):
            first.append([(number, *event(3))])  # although the other service has ended
    assert [one.sequence for one in second.events(number, 0)] == [1, 2]


def test_a_conflict_leaves_no_transaction_open(tmp_path: Path) -> None:
    database = open_test_database(tmp_path)
    number = database.create("home", event(1))
    database.append([(number, *event(2))])
    with pytest.raises(StorageError) as caught:
        database.append([(number, *event(2))])
    with contextlib.closing(sqlite3.connect(tmp_path / "glcb.db", timeout=0)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.rollback()
    assert "UNIQUE" in str(caught.value)  # the error, and with it the frames of the failure, is still alive
    database.append([(number, *event(3))])


def test_database_files_are_private(tmp_path: Path) -> None:
    database = open_test_database(tmp_path)
    with database.exclusive(0):
        database.create("home", event(1))
        modes = {file.name: oct(file.stat().st_mode & 0o777) for file in tmp_path.iterdir()}
    names = ("glcb.db", "glcb.db-shm", "glcb.db-wal", "glcb.db.lock", "glcb.db.mark")
    assert modes == dict.fromkeys(names, "0o600")


@pytest.mark.live
@pytest.mark.postgres
def test_a_lost_advisory_lock_is_acquired_again(cluster: postgres.Cluster) -> None:
    database, second = Database(cluster.url), Database(cluster.url)
    with contextlib.closing(database), contextlib.closing(second), database.exclusive(0):
        cluster.ask(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid IS NOT NULL"
        )
        database.watch()
        with pytest.raises(StorageError, match="another service uses"), second.exclusive(0):
            pass


@pytest.mark.live
@pytest.mark.postgres
def test_an_advisory_lock_lost_to_another_service_fences_the_first_one(cluster: postgres.Cluster) -> None:
    first, second = Database(cluster.url), Database(cluster.url)
    with contextlib.closing(first), contextlib.closing(second), first.exclusive(0):
        number = first.create("home", event(1))
        cluster.ask("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
        with second.exclusive(1):
            with pytest.raises(StorageError, match="another service has taken over"):
                first.append([(number, *event(2))])
            with pytest.raises(StorageError, match="another service has taken over"):
                first.delete(number, 0.0)
            with pytest.raises(StorageError, match="another service has taken over"):
                first.watch()
            second.append([(number, *event(2))])
