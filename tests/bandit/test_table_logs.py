"""Learning from tables of other systems: CSV, JSON lines and Parquet."""

import gzip
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glcb import Bandit, InvalidSettings, LogError, MissingExtra
from glcb.bandit import LogReport
from glcb.bandit.logs import LogColumns, arms_in
from tests.support.bandits import ARMS, FAST, counts_of, full_state
from tests.support.logs import HEADER, Rows, as_csv, as_jsonl, as_parquet, flat_rows, full_disk


@pytest.mark.parametrize("write", [as_jsonl, as_csv, as_parquet])
def test_rows_are_learned_like_own_decisions(write: Any, tmp_path: Path) -> None:
    rows = flat_rows(200)
    path = write(tmp_path / f"log.{write.__name__[3:]}", rows)
    bandit = Bandit(ARMS, **FAST)
    before = bandit._snapshot().generator
    report = bandit.learn_from(path)
    assert (report.rows, report.decisions, report.learned, report.refused) == (200, 200, 200, {})
    assert bandit.counts == counts_of(decisions=200, rewarded=200)
    assert bandit._snapshot().generator == before
    encoder = bandit._core.encoder
    assert encoder is not None
    assert bandit.schema is not None
    assert list(bandit.schema.features) == ["age", "country", "spent"]
    twin = bandit._core.config.make_policy(ARMS, encoder.width)
    fresh = Bandit(ARMS, **FAST)
    for row in rows:
        context = {name: row[name] for name in ("age", "country", "spent")}
        prepared = fresh._core.prepare(context)
        fresh._core._commit(prepared)
        twin.count_decision(prepared.encoded.x, row["arm"])
        twin.learn(prepared.encoded.x, row["arm"], row["reward"], counted=True)
    own = bandit._snapshot().arrays
    for name, array in twin.snapshot().arrays.items():
        assert np.array_equal(own[f"policy.{name}"], array), name


@pytest.mark.parametrize("write", [as_jsonl, as_csv, as_parquet])
def test_a_column_of_contexts_and_columns_of_other_names(write: Any, tmp_path: Path) -> None:
    rows = flat_rows(50)
    renamed = [
        {
            "when": "2024-02-03",
            "features": json.dumps({"age": row["age"], "country": row["country"], "spent": row["spent"]}),
            "action": row["arm"],
            "clicked": row["reward"],
        }
        for row in rows
    ]
    names: dict[str, Any] = {"context_column": "features", "arm_column": "action", "reward_column": "clicked"}
    bandit = Bandit(ARMS, **FAST)
    path = write(tmp_path / f"log.{write.__name__[3:]}", renamed)
    assert bandit.learn_from(path, **names).learned == 50
    twin = Bandit(ARMS, **FAST)
    twin.learn_from(as_jsonl(tmp_path / "flat.jsonl", rows))
    assert full_state(bandit) == full_state(twin)


def test_a_context_as_an_object_or_a_struct(tmp_path: Path) -> None:
    rows: Rows = [{"context": {"age": i, "country": "FR"}, "arm": "news", "reward": 1} for i in range(5)]
    for path in (as_jsonl(tmp_path / "a.jsonl", rows), as_parquet(tmp_path / "a.parquet", rows)):
        bandit = Bandit(ARMS, **FAST)
        assert bandit.learn_from(path).learned == 5
        assert bandit.schema is not None
        assert set(bandit.schema.features) == {"age", "country"}


def test_columns_can_be_ignored(tmp_path: Path) -> None:
    rows = [{"user": f"u{i}", **row} for i, row in enumerate(flat_rows(20))]
    bandit = Bandit(ARMS, **FAST)
    bandit.learn_from(as_csv(tmp_path / "log.csv", rows), ignore_columns=["user"])
    assert bandit.schema is not None
    assert "user" not in bandit.schema.features
    with pytest.raises(LogError, match="no column 'usr' to ignore; its columns are user, "):
        bandit.learn_from(tmp_path / "log.csv", ignore_columns=["usr"])


def test_cells_of_a_csv_file(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(
        b"\xef\xbb\xbfage,city,arm,reward\r\n"
        b'31,"Paris, ""left""",0,1\r\n'
        b",Lyon,1,0.0\r\n"
        b" 4.5e1 ,Caf\xc3\xa9,2.0,1\r\n"
        b"99,\xff\xfe,2.0,1\r\n"
        b"12,Nice,weather,1\r\n"
        b"12,Nice,1,\r\n"
        b"12,Nice,1,maybe\r\n"
        b"12,Nice,1,0.5\r\n"
        b"12,Nice\r\n"
        b"\r\n"
        b'13,"line\nbreak",1,1\r\n'
    )
    bandit = Bandit(3, **FAST)
    report = bandit.learn_from(path)
    assert report.learned == 4
    assert report.refused == {
        "unknown arm": 1,
        "missing reward": 1,
        "invalid reward": 2,
        "invalid row": 2,
    }
    assert report.examples["invalid row"] == "row 4: it is not UTF-8: save the log as UTF-8"
    assert bandit.reward_counts == {0: 1, 1: 2, 2: 1}
    assert bandit.schema is not None
    age = bandit.schema.features["age"]
    assert (age.kind, age.limits) == ("number", (13.0, 45.0))
    assert age.problems["missing"] == 1
    assert bandit.schema.features["city"].values[:2] == ('Paris, "left"', "Lyon")


def test_integer_arms_match_strings_in_the_log(tmp_path: Path) -> None:
    for value in ("1", 1, 1.0, "1.0"):
        bandit = Bandit([1, "news"], **FAST)
        bandit.learn_from(as_jsonl(tmp_path / "a.jsonl", [{"age": 3, "arm": value, "reward": 1}]))
        assert bandit.reward_counts == {1: 1, "news": 0}, value
    both = Bandit([1, "1"], **FAST)
    rows: Rows = [{"age": 3, "arm": arm, "reward": 1} for arm in (1, "1", "1", True, None, [1])]
    report = both.learn_from(as_jsonl(tmp_path / "a.jsonl", rows))
    assert both.reward_counts == {1: 1, "1": 2}
    assert report.refused == {"unknown arm": 3}


def test_compressed_files_and_other_suffixes(tmp_path: Path) -> None:
    rows = flat_rows(30)
    plain = as_csv(tmp_path / "log.csv", rows).read_bytes()
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(plain))
    (tmp_path / "log.tsv").write_bytes(plain.replace(b",", b"\t"))
    (tmp_path / "log.data").write_bytes(plain)
    for name, form in (("log.csv.gz", None), ("log.tsv", None), ("log.data", "csv")):
        assert Bandit(ARMS, **FAST).learn_from(tmp_path / name, format=form).learned == 30
    with pytest.raises(InvalidSettings, match="pass format="):
        Bandit(ARMS, **FAST).learn_from(tmp_path / "log.data")
    with pytest.raises(InvalidSettings, match="got 'xml'"):
        Bandit(ARMS, **FAST).learn_from(tmp_path / "log.csv", format="xml")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    bandit = Bandit(ARMS, **FAST)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and then nothing")
    (tmp_path / "bad.csv.gz").write_bytes(b"not compressed")
    (tmp_path / "empty.csv").write_bytes(b"")
    (tmp_path / "semicolons.csv").write_text("age;arm;reward\n1;news;1\n")
    (tmp_path / "other.csv").write_text("age,choice,reward\n1,news,1\n")
    (tmp_path / "latin.csv").write_bytes("größe,arm,reward\n1,news,1\n".encode("latin-1"))
    (tmp_path / "twice.csv").write_text("age,age,arm,reward\n1,1,news,1\n")
    as_parquet(tmp_path / "other.parquet", [{"age": 1, "arm": "news"}])
    for name, message in {
        "nowhere.csv": "cannot read .*nowhere.csv: No such file",
        "bad.parquet": "cannot read .*bad.parquet",
        "bad.csv.gz": "cannot read .*bad.csv.gz",
        "empty.csv": "is empty: a CSV file must begin with a row of column names",
        "semicolons.csv": "is separated by semicolons: save it with commas",
        "other.csv": "no column 'arm'; its columns are age, choice, reward: .* arm_column=, or --arm-column",
        "latin.csv": "latin.csv has column names that are not UTF-8: save the log as UTF-8",
        "twice.csv": "two columns with the same name",
        "other.parquet": "no column 'reward'",
    }.items():
        with pytest.raises(LogError, match=message) as caught:
            bandit.learn_from(tmp_path / name)
        assert caught.value.report is None
    assert bandit.counts["decisions"] == 0
    (tmp_path / "one.jsonl").write_text('{"age": 1, "arm": "news", "reward": 1}\n')
    assert str(bandit.learn_from(tmp_path / "one.jsonl")).startswith(
        "1 row: 1 decision and 1 reward learned, 0 rows"
    )
    (tmp_path / "empty.jsonl").write_bytes(b"")
    assert bandit.learn_from(tmp_path / "empty.jsonl") == LogReport()


def test_a_truncated_log_reports_what_was_learned(tmp_path: Path) -> None:
    plain = as_jsonl(tmp_path / "log.jsonl", flat_rows(3000)).read_bytes()
    (tmp_path / "torn.jsonl.gz").write_bytes(gzip.compress(plain)[:-2000])
    bandit = Bandit(ARMS, policy="ucb1")
    with pytest.raises(LogError, match=r"cannot read .*torn\.jsonl\.gz: .*") as caught:
        bandit.learn_from(tmp_path / "torn.jsonl.gz")
    report = caught.value.report
    assert report is not None
    assert 0 < report.rows == report.learned == bandit.counts["rewarded"] < 3000
    assert 0 < report.share <= 1
    assert f"at row {report.rows + 1:,}, after {report.learned:,} learned rewards" in str(caught.value)
    rest = tmp_path / "rest.jsonl"
    rest.write_bytes(b"".join(plain.splitlines(keepends=True)[report.rows :]))
    bandit.learn_from(rest)
    twin = Bandit(ARMS, policy="ucb1")
    twin.learn_from(tmp_path / "log.jsonl")
    assert full_state(bandit) == full_state(twin)


def test_parquet_needs_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = as_parquet(tmp_path / "log.parquet", flat_rows(3))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"pip install '\.\[logs\]'"):
        Bandit(ARMS, **FAST).learn_from(path)


@pytest.mark.parametrize("write", [as_jsonl, as_csv, as_parquet])
def test_progress_is_reported(write: Any, tmp_path: Path) -> None:
    reports: list[LogReport] = []
    path = write(tmp_path / f"log.{write.__name__[3:]}", flat_rows(2500))
    report = Bandit(ARMS, policy="ucb1").learn_from(path, progress=reports.append)
    assert [one.rows for one in reports] == [1000, 2000, 2500]
    assert reports[-1] == report
    assert 0.3 < reports[0].share < reports[1].share < reports[2].share == 1


def test_a_full_disk_stops_the_replay(tmp_path: Path) -> None:
    rows = as_jsonl(tmp_path / "rows.jsonl", flat_rows(50))
    bandit = Bandit(ARMS, **FAST)
    bandit.log_to(tmp_path / "log.jsonl")
    with full_disk(2000), pytest.raises(LogError, match="cannot write the log") as caught:
        bandit.learn_from(rows)
    assert caught.value.report is not None
    assert caught.value.report.rows == caught.value.report.learned == bandit.counts["rewarded"]
    bandit.log_to(None)
    reader = Bandit(ARMS, **FAST)
    report = reader.learn_from(tmp_path / "log.jsonl")
    assert 0 < report.learned == bandit.counts["rewarded"] < 50
    assert reader.counts == bandit.counts


@pytest.mark.parametrize(
    ("column", "arms"),
    [
        (["007", "008", "007"], ("007", "008")),
        (["007", "7", "8"], ("007", "7", "8")),
        (["-1", "10", "9"], (-1, 9, 10)),
        (["1_0", "٣", "1"], ("1", "1_0", "٣")),
        (["1.0", "2.0", "1.0"], ("1.0", "2.0")),
    ],
    ids=str,
)
def test_arms_that_look_like_numbers_are_recognized(
    column: list[str], arms: tuple[Any, ...], tmp_path: Path
) -> None:
    path = as_csv(tmp_path / "log.csv", [{"age": 3, "arm": arm, "reward": 1} for arm in column])
    assert arms_in(path, None, LogColumns()) == arms
    bandit = Bandit(arms, **FAST)
    assert bandit.learn_from(path).learned == 3
    assert {str(arm): count for arm, count in bandit.reward_counts.items()} == Counter(column)


def test_integer_arms_in_a_column_with_gaps(tmp_path: Path) -> None:
    path = as_parquet(
        tmp_path / "log.parquet", [{"a": 3, "arm": arm, "reward": 1} for arm in (1.0, None, 2.0)]
    )
    assert arms_in(path, None, LogColumns()) == (1, 2)
    bandit = Bandit((1, 2), **FAST)
    report = bandit.learn_from(path)
    assert (report.learned, report.refused) == (2, {"unknown arm": 1})


def test_arms_are_collected_from_a_log(tmp_path: Path) -> None:
    rows = flat_rows(30)
    layout = LogColumns()
    assert arms_in(as_csv(tmp_path / "a.csv", rows), None, layout) == ("games", "news", "sports")
    (tmp_path / "b.csv").write_text("age,arm,reward\n1,10,1\n2,9,0\n3,,1\n")
    assert arms_in(tmp_path / "b.csv", None, layout) == (9, 10)
    gaps: Rows = [{"arm": arm} for arm in (2.0, None, 1.0, 1, "3", float("nan"), True, 0.5)]
    assert arms_in(as_jsonl(tmp_path / "gaps.jsonl", gaps[:6]), None, layout) == (1, 2, 3)
    assert arms_in(as_jsonl(tmp_path / "gaps.jsonl", gaps), None, layout) == (1, 2, "0.5", "3")
    events: Rows = [
        {"event": "decision", "id": 1, "arm": 2, "context": {}},
        {"event": "decision", "id": 2, "arm": "b", "context": {}},
        {"event": "reward", "id": 1, "reward": 1, "arm": "none"},
    ]
    assert arms_in(as_jsonl(tmp_path / "c.jsonl", [HEADER, *events]), None, layout) == (2, "b")
    (tmp_path / "latin.csv").write_bytes("age,arm,reward\n1,Straße,1\n2,news,0\n".encode("latin-1"))
    assert arms_in(tmp_path / "latin.csv", None, layout) == ("news",)
    halves: Rows = [{"age": 1, "arm": arm, "reward": 1} for arm in ("a", "\ud83d", "b")]
    path = as_jsonl(tmp_path / "halves.jsonl", halves)
    assert arms_in(path, None, layout) == ("a", "b")
    assert Bandit(["a", "b"], **FAST).learn_from(path).refused == {"unknown arm": 1}
    with pytest.raises(LogError, match="no arms in 'arm'"):
        arms_in(as_jsonl(tmp_path / "d.jsonl", [{"a": 1}]), None, layout)
    many: Rows = [{"arm": f"user {i}"} for i in range(1001)]
    with pytest.raises(LogError, match="more than 1,000 arms"):
        arms_in(as_jsonl(tmp_path / "e.jsonl", many), None, layout)
