"""A fixture of every kind of file is written with the current formats and can be opened again."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.fixtures import MANIFEST, WRITERS, write_all
from glcb import Bandit
from glcb._formats import DATABASE, FORMATS, LOG, MODEL, RESULTS
from glcb.bandit.logs.format import EVENTS
from glcb.bench.results import Results
from glcb.policies import LinUCB
from glcb.service.core.experiment import _HANDLERS
from glcb.service.engine.audit import audit_database
from glcb.service.storage.connection import sqlite_url
from glcb.service.storage.database import Database


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fixtures")
    write_all(folder)
    return folder


def test_every_format_has_a_fixture(folder: Path) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    assert manifest["formats"] == {one.kind: one.number for one in FORMATS}
    assert set(manifest["files"].values()) == set(manifest["formats"])
    assert manifest["files"].keys() == {path.name for path in folder.iterdir()} - {MANIFEST}
    for name, (one, _) in WRITERS.items():
        assert name.startswith(f"{one.kind}-{one.number}")


def test_models_can_be_loaded(folder: Path) -> None:
    bandit = Bandit.load(folder / f"model-{MODEL.number}.bandit")
    assert bandit.counts["pending"] > 0
    assert LinUCB.load(folder / f"model-{MODEL.number}.policy").features == 5


def test_the_log_has_all_kinds_of_lines_and_can_be_replayed(folder: Path) -> None:
    path = folder / f"log-{LOG.number}.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert {line.get("event") for line in lines} == {None, *EVENTS}
    bandit = Bandit({}, policy="linucb", slots=2)
    assert bandit.learn_from(path).decisions > 0


def test_the_results_can_be_read(folder: Path) -> None:
    assert len(Results(folder / f"results-{RESULTS.number}").records) == 1


def test_the_database_has_all_kinds_of_events_and_can_be_replayed(folder: Path) -> None:
    path = folder / f"database-{DATABASE.number}.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        kinds = {kind for (kind,) in connection.execute("SELECT DISTINCT kind FROM glcb_events")}
    assert kinds == {"create", *_HANDLERS} - {"set_aside"}  # which only damage causes
    with closing(Database(sqlite_url(path))) as database:
        findings = list(audit_database(database))
    assert all(finding.ok for finding in findings), findings
