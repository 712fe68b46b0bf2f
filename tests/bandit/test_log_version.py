"""Logs begin with a header that names the version of their format."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from glcb import Bandit, LogError, __version__
from glcb.bandit.logs import LogColumns, arms_in
from tests.support.bandits import ARMS, FAST, full_state, run
from tests.support.logs import HEADER, as_jsonl, as_parquet, flat_rows

EVENTS: list[dict[str, Any]] = [
    {"event": "decision", "id": "1-0", "time": 1.0, "arm": "news", "propensity": 0.5, "context": {"age": 3}},
    {"event": "reward", "id": "1-0", "time": 2.0, "reward": 1.0, "idempotency_key": "order 7"},
]


def as_log(path: Path, events: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events))
    return path


def table_of(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return events with the same columns, as in a table."""
    columns = {name: None for event in events for name in event}
    return [{**columns, **event} for event in events]


def test_a_new_log_begins_with_a_header(tmp_path: Path) -> None:
    bandit, path = Bandit(ARMS, **FAST), tmp_path / "log.jsonl"
    bandit.log_to(path)
    assert path.read_text() == f'{{"glcb_log":4,"glcb":"{__version__}"}}\n'
    bandit.log_to(None)
    bandit.log_to(path)
    bandit.decide({"age": 3})
    assert path.read_text().count("glcb_log") == 1


def test_events_without_a_header_are_not_read(tmp_path: Path) -> None:
    path = as_log(tmp_path / "log.jsonl", EVENTS)
    bandit = Bandit(ARMS, **FAST)
    with pytest.raises(LogError, match=r"log\.jsonl has events, but no header .* reads format 4") as caught:
        bandit.learn_from(path)
    assert caught.value.report is None
    assert bandit.counts["decisions"] == 0
    with pytest.raises(LogError, match="no header"):
        arms_in(path, None, LogColumns())


def test_nothing_is_appended_to_a_file_without_a_header(tmp_path: Path) -> None:
    path = as_log(tmp_path / "log.jsonl", EVENTS)
    before = path.read_bytes()
    with pytest.raises(LogError):
        Bandit(ARMS, **FAST).log_to(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("version", [1, 3, 5, "4", 4.0, True, None])
def test_other_versions_are_refused(version: Any, tmp_path: Path) -> None:
    path = as_log(tmp_path / "log.jsonl", [{"glcb_log": version}])
    before = path.read_bytes()
    with pytest.raises(LogError, match=r"has format .*reads format 4: use the glcb that wrote it"):
        Bandit(ARMS, **FAST).learn_from(path)
    with pytest.raises(LogError, match=r"has format .*reads format 4: use the glcb that wrote it"):
        Bandit(ARMS, **FAST).log_to(path)
    assert path.read_bytes() == before


def test_the_header_is_not_a_row_and_logs_can_be_concatenated(tmp_path: Path) -> None:
    parts = []
    writer = Bandit(ARMS, **FAST)
    for number in range(2):
        path = tmp_path / f"{number}.jsonl"
        writer.log_to(path)
        run(writer, 10, seed=number)
        parts.append(path.read_bytes())
    writer.log_to(None)
    (tmp_path / "all.jsonl.gz").write_bytes(gzip.compress(b"".join(parts)))
    reader = Bandit(ARMS, **FAST)
    report = reader.learn_from(tmp_path / "all.jsonl.gz")
    assert not report.refused
    assert report.rows == report.decisions + report.learned == 20 + writer.counts["rewarded"]
    assert full_state(reader)[0] == full_state(writer)[0]


def test_tables_need_no_header(tmp_path: Path) -> None:
    rows = flat_rows(10)
    assert Bandit(ARMS, **FAST).learn_from(as_jsonl(tmp_path / "a.jsonl", rows)).learned == 10
    assert Bandit(ARMS, **FAST).learn_from(as_jsonl(tmp_path / "b.jsonl", [HEADER, *rows])).learned == 10


def test_events_in_a_parquet_file_need_no_header(tmp_path: Path) -> None:
    path = as_parquet(tmp_path / "events.parquet", table_of(EVENTS))
    report = Bandit(ARMS, **FAST).learn_from(path)
    assert (report.decisions, report.learned) == (1, 1)


def test_a_table_may_have_a_column_named_key(tmp_path: Path) -> None:
    path = as_parquet(tmp_path / "table.parquet", [{**row, "key": "x"} for row in flat_rows(10)])
    assert Bandit(ARMS, **FAST).learn_from(path).learned == 10


def test_a_partial_header_of_a_killed_process_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for partial in (b"", b"{", b'{"glcb_', b'{"glcb_log":4,"gl'):
        path.write_bytes(partial)
        bandit = Bandit(ARMS, **FAST)
        bandit.log_to(path)
        assert path.read_bytes() == f'{{"glcb_log":4,"glcb":"{__version__}"}}\n'.encode()
        bandit.log_to(None)
