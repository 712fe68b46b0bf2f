"""``glcb audit`` accepts the log of the service and detects alterations."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.service.server import Server
from glcb.cli import app
from glcb.service.engine.audit import audit_database
from glcb.service.storage.connection import sqlite_url
from glcb.service.storage.database import Database
from tests.service.conftest import Serve

pytestmark = pytest.mark.live

PATH = "/v1/experiments/e"


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that decided, learned, changed its arms and shut down."""
    server = Server(["--data", str(tmp_path_factory.mktemp("data") / "glcb.db")]).start()
    client = server.client
    assert client.put(PATH, {"arms": ["a", "b"], "seed": 10_000}).status == 201
    for step in range(20):
        decision = client.post(f"{PATH}/decisions", {"context": {"x": step % 3}}).data
        assert client.post(f"{PATH}/decisions/{decision['id']}/reward", {"value": 1}).status == 200
        if step == 10:
            assert client.post(f"{PATH}/arms", {"name": "c", "like": "a"}).status == 201
    server.stop()
    yield server
    server.close()


def _altered(server: Server, folder: Path, statement: str) -> Path:
    """Return an altered copy of the database file."""
    data = folder / "copy.db"
    shutil.copy(server.store[1], data)
    with closing(sqlite3.connect(data)) as connection, connection:
        connection.create_function(
            "edited", 3, lambda value, old, new: value.replace(old.encode(), new.encode())
        )
        assert connection.execute(statement).rowcount > 0
    return data


def test_the_log_of_the_service_replays_identically(stopped: Server) -> None:
    ran = stopped.command("audit")
    assert ran.returncode == 0, ran
    assert "e: 42 events" in ran.stdout


@pytest.mark.parametrize(
    "statement",
    [
        """UPDATE glcb_events SET request = edited(request, '"value":1', '"value":0') WHERE sequence = 11""",
        """UPDATE glcb_events SET request = edited(request, '"x"', '"y"') WHERE sequence > 30""",
        """UPDATE glcb_events SET outcome = edited(outcome, '"arm":"a"', '"arm":"b"')""",
        "DELETE FROM glcb_events WHERE sequence = 20",
        "DELETE FROM glcb_events WHERE sequence = 42",
        "UPDATE glcb_events SET sequence = -sequence WHERE sequence IN (20, 21)",
        "UPDATE glcb_snapshot_parts SET content = zeroblob(length(content))",
    ],
    ids=["reward", "context", "arm", "missing event", "missing last event", "moved events", "snapshot"],
)
def test_an_altered_log_is_detected(stopped: Server, tmp_path: Path, statement: str) -> None:
    with closing(Database(sqlite_url(_altered(stopped, tmp_path, statement)))) as database:
        (finding,) = audit_database(database)
    assert not finding.ok
    assert "DAMAGED" in finding.line


def test_the_command_fails_for_an_altered_log(stopped: Server, tmp_path: Path) -> None:
    data = _altered(stopped, tmp_path, "DELETE FROM glcb_events WHERE sequence = 20")
    ran = CliRunner().invoke(app, ["audit", "--data", str(data)])
    assert ran.exit_code == 1
    assert "DAMAGED" in ran.output


def test_two_services_cannot_share_a_database(serve: Serve) -> None:
    first = serve()
    with pytest.raises(RuntimeError, match="another service uses this database"):
        serve("--set", "lock_wait_seconds=0.1")
    assert first.client.get("/readyz").status == 200
