"""Reading logs of other systems, and converting them."""

import gzip
import json
import lzma
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from glcb._errors import InvalidSettings, LogError
from glcb.bandit.logs.format import header_event
from glcb.evaluate import convert, evaluate
from glcb.evaluate.formats import Layout, detect, read
from glcb.evaluate.rows import LoggedDecision, LogRow
from tests.evaluate.logs import rows, rule, write


def decisions(path: Path, form: str | None = None) -> list[LoggedDecision]:
    return [row.decision for row in read(path, form, Layout()) if row.decision is not None]


def refused(path: Path) -> list[LogRow]:
    return [row for row in read(path, None, Layout()) if row.decision is None]


VW = """\
2:-1:0.25 |user age:31 country=FR
1:0:0.75 |user age:20 country=DE
"""

ADF = """\
shared |user age:31 country=FR
|item a
0:-1:0.5 |item b
|item c

shared |user age:20
0:0.5:0.25 |item a
|item b
"""

DSJSON: dict[str, Any] = {
    "_label_cost": -1.0,
    "_label_probability": 0.8,
    "_label_Action": 2,
    "_labelIndex": 1,
    "EventId": "e1",
    "a": [2, 1, 3],
    "p": [0.8, 0.1, 0.1],
    "c": {
        "User": {"age": 31, "country": "FR"},
        "_multi": [
            {"i": {"constant": 1, "id": "pasta"}, "j": [{"price": 3}]},
            {"i": {"constant": 1, "id": "salad"}},
            {"i": {"constant": 1, "id": "soup"}},
        ],
    },
}

SLOTS: dict[str, Any] = {
    "Timestamp": "2019-09-10T14:43:37.2010000Z",
    "Version": "1",
    "c": {
        "User": {"age": 31},
        "_multi": [
            {"_tag": "pasta", "i": {"constant": 1, "id": "pasta"}, "j": [{"price": 3}]},
            {"_tag": "salad", "i": {"constant": 1, "id": "salad"}},
            {"_tag": "soup", "i": {"constant": 1, "id": "soup"}},
        ],
        "_slots": [{"_id": "top", "j": [{"size": "large"}]}, {"_id": "side"}],
    },
    "_outcomes": [
        {"_label_cost": -1.0, "_id": "top", "_a": [2, 0, 1], "_p": [0.8, 0.1, 0.1]},
        {"_label_cost": 0.0, "_id": "side", "_a": [0, 1], "_p": [0.6, 0.4]},
    ],
    "VWState": {"m": "N/A"},
}

OPEN_BANDIT = """\
,timestamp,item_id,position,click,propensity_score,user_feature_0
0,2019-11-24 00:03:13+00:00,14,3,0,0.0294,abc
1,2019-11-24 00:03:36+00:00,7,1,1,0.0294,def
"""


def test_vowpal_wabbit_text_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log.vw"
    path.write_text(VW)
    assert detect(path) == "vw"
    assert decisions(path) == [
        LoggedDecision({"user.age": 31.0, "user.country": "FR"}, 2, 1.0, 0.25),
        LoggedDecision({"user.age": 20.0, "user.country": "DE"}, 1, 0.0, 0.75),
    ]


def test_vowpal_wabbit_blocks_with_arm_features_are_read(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text(ADF)
    assert detect(path) == "vw"
    assert decisions(path) == [
        LoggedDecision(
            *({"user.age": 31.0, "user.country": "FR"}, 2, 1.0, 0.5, (1, 2, 3)),
            {1: {"item.a": True}, 2: {"item.b": True}, 3: {"item.c": True}},
        ),
        LoggedDecision({"user.age": 20.0}, 1, -0.5, 0.25, (1, 2), {1: {"item.a": True}, 2: {"item.b": True}}),
    ]


def test_decision_service_json_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "log.json", [DSJSON])
    assert detect(path) == "dsjson"
    assert decisions(path) == [
        LoggedDecision(
            *({"User.age": 31, "User.country": "FR"}, "salad", 1.0, 0.8, ("pasta", "salad", "soup")),
            {"pasta": {"price": 3}, "salad": {}, "soup": {}},
        )
    ]


def test_decision_service_json_with_several_slots_is_read_as_a_ranking(tmp_path: Path) -> None:
    path = write(tmp_path / "log.json", [SLOTS])
    assert detect(path) == "dsjson"
    context = {"User.age": 31, "slot.top.size": "large"}
    features: dict[str | int, dict[str, int]] = {"pasta": {"price": 3}, "salad": {}, "soup": {}}
    eligible = ("pasta", "salad", "soup")
    assert decisions(path) == [
        LoggedDecision(context, "soup", 1.0, 0.8, eligible, features),
        LoggedDecision(context, "pasta", 0.0, 0.6, eligible, features, ("soup",)),
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"_outcomes": SLOTS["_outcomes"][:1]}, "every slot must have an outcome"),
        ({"_outcomes": [SLOTS["_outcomes"][0]] * 2}, "a different action"),
        ({"c": {**SLOTS["c"], "_slots": [{"_inc": [0, 2]}, {"_inc": [1]}]}}, "the same actions"),
        ({"_outcomes": [{"_a": [0]}, {"_a": [1]}]}, "not a complete decision"),
    ],
)
def test_rankings_that_cannot_be_used_are_refused_whole(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    path = write(tmp_path / "log.json", [SLOTS, {**SLOTS, **change}])
    (row,) = refused(path)
    assert message in row.message
    assert len(decisions(path)) == 2


def test_open_bandit_tables_are_read(tmp_path: Path) -> None:
    path = tmp_path / "men.csv"
    path.write_text(OPEN_BANDIT)
    assert detect(path) == "openbandit"
    first, second = decisions(path)
    assert (first.arm, first.reward, first.context) == ("14", 0.0, {"position": 3, "user_feature_0": "abc"})
    assert (second.arm, second.reward, second.propensity) == ("7", 1.0, 0.0294)


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress], ids=["gz", "xz"])
def test_compressed_logs_are_read(tmp_path: Path, pack: object) -> None:
    suffix = ".gz" if pack is gzip.compress else ".xz"
    path = tmp_path / f"log.jsonl{suffix}"
    text = "".join(json.dumps(row) + "\n" for row in rows(5))
    path.write_bytes(pack(text.encode()))  # type: ignore[operator]
    assert len(decisions(path)) == 5


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("log.vw", "1:-1:0.5 | a\n\n1:x:0.5 | a\n", "no label"),
        ("log.vw", "1:-1:0.5 | a\n2:-1:1.5 | a\n", "invalid label"),
        ("log.vw", "shared | a\n| x\n| y\n", "no label"),
        ("log.jsonl", '{"_label_cost": 1, "c": {}, "p": [1]}\n', "invalid row"),
        ("log.jsonl", '{"_label_cost": 1}\nnot json\n', "invalid row"),
        (
            "log.jsonl",
            '{"context": {"a": 1}, "arm": "x", "reward": 1, "propensity": 0.5, "eligible": ["y"]}\n',
            "invalid eligible arms",
        ),
        (
            "log.jsonl",
            '{"glcb_log": 4}\n{"event": "reward", "id": "1", "reward": 1}\n',
            "unknown decision",
        ),
    ],
)
def test_rows_that_cannot_be_used_are_refused_with_a_reason(
    tmp_path: Path, name: str, text: str, reason: str
) -> None:
    path = tmp_path / name
    path.write_text(text)
    assert reason in {row.reason for row in refused(path)}


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.dat"
    path.write_text("a;b;c\n")
    with pytest.raises(LogError, match="not recognized: pass format="):
        detect(path)


# ---- conversion -------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["jsonl", "vw", "dsjson"])
def test_a_converted_log_gives_the_same_estimates(tmp_path: Path, form: str) -> None:
    path = write(tmp_path / "log.jsonl", rows(500))
    found = convert(path, tmp_path / f"out.{form}", to=form)  # type: ignore[arg-type]
    assert found.rows == 500
    assert list(found.arms) == ["games", "news", "sports"]
    arms = {"games": "arm=1"} if form == "vw" else {"games": "arm=games"}
    before = evaluate(path, {"games": "arm=games"}, estimators=("ips",))["games"].estimates["ips"]
    after = evaluate(tmp_path / f"out.{form}", arms, estimators=("ips",))["games"].estimates["ips"]
    assert after.value == pytest.approx(before.value, abs=1e-9)


def test_rankings_survive_conversion_to_decision_service_json(tmp_path: Path) -> None:
    path = write(tmp_path / "log.json", [SLOTS, DSJSON, SLOTS])
    assert convert(path, tmp_path / "out.dsjson", to="dsjson").rows == 3
    assert decisions(tmp_path / "out.dsjson") == decisions(path)
    with pytest.raises(LogError, match="rankings, which vw cannot hold: convert it to dsjson"):
        convert(path, tmp_path / "out.vw", to="vw")


@pytest.mark.rivals
@pytest.mark.parametrize(("line", "reduction"), [(SLOTS, "--ccb_explore_adf"), (DSJSON, "--cb_explore_adf")])
def test_vowpal_wabbit_learns_from_the_json_that_is_written(
    tmp_path: Path, line: dict[str, object], reduction: str
) -> None:
    from vowpalwabbit import Workspace

    losses = []
    for name in ("log", "out"):
        path = tmp_path / f"{name}.dsjson"
        if name == "log":
            write(path, [line] * 20)
        else:
            convert(tmp_path / "log.dsjson", path, to="dsjson")
        learner = Workspace(f"{reduction} --dsjson -d {path} --quiet")
        losses.append(learner.get_sum_loss() / learner.get_weighted_examples())
        learner.finish()
    assert losses[0] < 0
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


def test_eligible_arms_survive_conversion(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    path.write_text(ADF)
    convert(path, tmp_path / "out.jsonl")
    assert [row.eligible for row in decisions(tmp_path / "out.jsonl")] == [(1, 2, 3), (1, 2)]


def test_a_log_is_not_converted_onto_itself(tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", rows(5))
    before = path.read_text()
    with pytest.raises(InvalidSettings, match="is the log itself"):
        convert(path, path)
    assert path.read_text() == before


def test_vowpal_wabbit_text_needs_propensities(tmp_path: Path) -> None:
    lines: list[dict[str, object]] = [{"context": {"a": 1}, "arm": "x", "reward": 1}]
    with pytest.raises(LogError, match="have no propensity"):
        convert(write(tmp_path / "log.jsonl", lines), tmp_path / "out.vw", to="vw")
    assert not (tmp_path / "out.vw").exists()


@pytest.mark.rivals
def test_ips_equals_the_average_loss_that_vowpal_wabbit_reports(tmp_path: Path) -> None:
    """Vowpal Wabbit predicts the index of an arm for every row, and reports the IPS estimate of its loss."""
    path = write(tmp_path / "log.jsonl", rows(2000))
    found = convert(path, tmp_path / "log.vw", to="vw")
    arms = list(found.arms)
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "vowpalwabbit", "--cb", str(len(arms)), "--cb_type", "ips"),
            *("-d", str(tmp_path / "log.vw"), "-p", str(tmp_path / "predictions"), "--progress", "100000"),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = (line for line in ran.stderr.splitlines() if line.startswith("average loss"))
    predictions = iter((tmp_path / "predictions").read_text().split())
    result = evaluate(path, {"vw": lambda context: arms[int(next(predictions))]}, estimators=("ips",))
    assert result["vw"].estimates["ips"].value == pytest.approx(-float(line.split("=")[1]), abs=2e-6)


def test_a_rule_gets_the_context_of_the_log(tmp_path: Path) -> None:
    seen = []

    def remember(context: dict[str, float]) -> str:
        seen.append(context)
        return rule(context)

    lines = rows(20)
    evaluate(write(tmp_path / "log.jsonl", lines), {"rule": remember}, estimators=("ips",))
    assert seen == [row["context"] for row in lines]


def test_a_propensity_that_is_too_small_to_divide_by_is_refused(tmp_path: Path) -> None:
    first, *others = rows(60)
    path = write(tmp_path / "log.jsonl", [{**first, "propensity": 1e-300}, *others])
    (row,) = refused(path)
    assert (row.reason, "1e-300" in row.message) == ("invalid propensity", True)
    assert "nan" not in str(evaluate(path, ["uniform"]))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("damaged.jsonl.gz", gzip.compress(b"{}\n")[:10] + b"\xff" * 50),
        ("damaged.jsonl.xz", b"not compressed"),
        ("deep.jsonl", b'{"context": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n"),
    ],
    ids=["gzip", "xz", "nested"],
)
def test_a_damaged_first_line_is_refused(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(LogError, match=name):
        evaluate(tmp_path / name, ["uniform"])


@pytest.mark.parametrize("name", ["export.jsonl", "export.parquet"])
def test_an_export_of_the_service_has_the_arms_of_each_decision(tmp_path: Path, name: str) -> None:
    context, shares = {"x": 1}, {"b": 0.5, "a": 0.5}
    decision = {"event": "decision", "id": "1", "time": 9.5, "arm": "a", "propensity": 0.5}
    reward = {"event": "reward", "id": "1", "time": 10.0, "reward": 1.0}
    log = tmp_path / name
    if log.suffix == ".parquet":  # holds objects as JSON
        texts = {"context": json.dumps(context), "probabilities": json.dumps(shares)}
        pq.write_table(pa.Table.from_pylist([{**decision, **texts, "reward": None}, reward]), log)
    else:
        lines = header_event(), {**decision, "context": context, "probabilities": shares}, reward
        log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (found,) = decisions(log)
    assert (found.eligible, found.time) == (("b", "a"), 9.5)
