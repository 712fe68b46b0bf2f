"""``glcb verify`` agrees with what the service did, and notices when anybody altered it since."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.service.server import Server
from glcb.cli import app
from glcb.service.audit import verify
from glcb.service.storage.database import sqlite_url
from glcb.service.storage.storage import Storage
from tests.service.conftest import Serve

PATH = "/v1/experiments/e"


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that decided, learned, changed its arms and ended in peace."""
    server = Server(["--data", str(tmp_path_factory.mktemp("data") / "glcb.db")]).start()
    client = server.client
    assert client.put(PATH, {"arms": ["a", "b"], "seed": 10_000}).status == 201
    for turn in range(20):
        decision = client.post(f"{PATH}/decisions", {"context": {"x": turn % 3}}).data
        assert client.post(f"{PATH}/decisions/{decision['id']}/reward", {"value": 1}).status == 200
        if turn == 10:
            assert client.post(f"{PATH}/arms", {"name": "c", "like": "a"}).status == 201
    server.stop()
    yield server
    server.forget()


def _altered(server: Server, folder: Path, statement: str) -> Path:
    """Return a copy of the data with an alteration."""
    data = folder / "copy.db"
    shutil.copy(server.store[1], data)
    with closing(sqlite3.connect(data)) as connection, connection:
        connection.create_function(
            "edited", 3, lambda held, old, new: held.replace(old.encode(), new.encode())
        )
        assert connection.execute(statement).rowcount > 0
    return data


def test_what_the_service_did_is_what_the_log_leads_to(stopped: Server) -> None:
    ran = stopped.command("verify")
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
    ids=["reward", "context", "arm", "one missing", "last missing", "two elsewhere", "snapshot"],
)
def test_an_altered_log_is_noticed(stopped: Server, tmp_path: Path, statement: str) -> None:
    with closing(Storage(sqlite_url(_altered(stopped, tmp_path, statement)))) as storage:
        (finding,) = verify(storage)
    assert not finding.ok
    assert "DIFFERENT" in finding.line


def test_an_altered_log_makes_the_command_fail(stopped: Server, tmp_path: Path) -> None:
    data = _altered(stopped, tmp_path, "DELETE FROM glcb_events WHERE sequence = 20")
    ran = CliRunner().invoke(app, ["verify", "--data", str(data)])
    assert ran.exit_code == 1
    assert "DIFFERENT" in ran.output


def test_two_services_cannot_share_their_data(serve: Serve) -> None:
    first = serve()
    with pytest.raises(RuntimeError, match="another service uses this database"):
        serve("--set", "takeover_seconds=0.1")
    assert first.client.get("/readyz").status == 200
