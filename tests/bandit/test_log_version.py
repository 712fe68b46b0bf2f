"""Logs begin with a header that names the version of their format."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from glcb import Bandit, LogError, __version__
from glcb.bandit.logs import LogColumns, arms_in
from tests.bandit.helpers import ARMS, FAST, full_state, run
from tests.bandit.test_log_replay import HEADER, as_jsonl, as_parquet, flat_rows

OLD_LOG: list[dict[str, Any]] = [
    {"event": "decision", "id": "1-0", "time": 1.0, "arm": "news", "propensity": 0.5, "context": {"age": 3}},
    {"event": "reward", "id": "1-0", "time": 2.0, "reward": 1.0, "key": "order 7"},
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


def test_a_log_of_format_2_is_read_as_it_was_written(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = [{"glcb_log": 2}]
    for number, (event, value) in enumerate([("reward", 1.0), ("outcome", 0.0), ("reward", 1.0)], 1):
        name = f"{number}-0"
        events.append({"event": "decision", "id": name, "time": 1.0, "arm": "news", "context": {"age": 3}})
        events.append({"event": event, "id": name, "time": 2.0, "reward": value})
    bandit = Bandit(ARMS, policy="ucb1", reward_timeout=60, default_reward=0)
    report = bandit.learn_from(as_log(tmp_path / "log.jsonl", events))
    assert (report.decisions, report.learned, report.refused) == (3, 3, {})
    assert bandit.reward_counts["news"] == 3
    assert bandit.counts["pending"] == 0
    bandit.log_to(tmp_path / "log.jsonl")
    bandit.decide({"age": 3})
    headers = [line for line in (tmp_path / "log.jsonl").read_text().splitlines() if "glcb_log" in line]
    assert headers == ['{"glcb_log":2}', f'{{"glcb_log":4,"glcb":"{__version__}"}}']


def test_a_log_of_the_old_format_is_not_read(tmp_path: Path) -> None:
    path = as_log(tmp_path / "old.jsonl", OLD_LOG)
    bandit = Bandit(ARMS, **FAST)
    with pytest.raises(
        LogError, match=r"old\.jsonl is an event log .* glcb 0\.1 .* format 1.*convert"
    ) as caught:
        bandit.learn_from(path)
    assert caught.value.report is None
    assert bandit.counts["decisions"] == 0
    with pytest.raises(LogError, match="format 1"):
        arms_in(path, None, LogColumns())


def test_the_advice_for_the_old_format_works(tmp_path: Path) -> None:
    path = as_log(tmp_path / "old.jsonl", OLD_LOG)
    path.write_text('{"glcb_log": 2}\n' + path.read_text().replace('"key"', '"idempotency_key"'))
    bandit = Bandit(ARMS, **FAST)
    report = bandit.learn_from(path)
    assert (report.rows, report.decisions, report.learned, report.refused) == (2, 1, 1, {})


def test_nothing_is_appended_to_a_log_of_the_old_format(tmp_path: Path) -> None:
    path = as_log(tmp_path / "old.jsonl", OLD_LOG)
    before = path.read_bytes()
    with pytest.raises(LogError, match=r"glcb 0\.1"):
        Bandit(ARMS, **FAST).log_to(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("version", [1, 5, "4", 4.0, True, None])
def test_other_versions_are_refused(version: Any, tmp_path: Path) -> None:
    path = as_log(tmp_path / "log.jsonl", [{"glcb_log": version}])
    before = path.read_bytes()
    advice = "update glcb" if version == 5 else "damaged"
    with pytest.raises(LogError, match=f"has log format .*reads format 4: .*{advice}"):
        Bandit(ARMS, **FAST).learn_from(path)
    with pytest.raises(LogError, match=f"has log format .*reads format 4: .*{advice}"):
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
    names = {"key": "idempotency_key"}
    events = [{names.get(name, name): value for name, value in event.items()} for event in table_of(OLD_LOG)]
    path = as_parquet(tmp_path / "events.parquet", events)
    report = Bandit(ARMS, **FAST).learn_from(path)
    assert (report.decisions, report.learned) == (1, 1)


def test_events_in_a_parquet_file_of_the_old_format_are_not_read(tmp_path: Path) -> None:
    path = as_parquet(tmp_path / "old.parquet", table_of(OLD_LOG))
    bandit = Bandit(ARMS, **FAST)
    with pytest.raises(
        LogError, match=r"old\.parquet has events in log format 1: glcb 0\.1 .*rename .*\"key\""
    ):
        bandit.learn_from(path)
    assert bandit.counts["decisions"] == 0


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
