"""Logs in which arms have features."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from glcb import Bandit
from glcb._errors import InvalidInput
from glcb.cli import app
from glcb.evaluate import Frozen, convert, evaluate
from glcb.evaluate.formats import Layout, read
from glcb.evaluate.rows import LoggedDecision
from tests.evaluate.logs import write

COLORS = ("red", "green", "blue", "gray")


def rows(count: int, seed: int) -> list[dict[str, Any]]:
    """Return decisions among two to four arms; users like red ones."""
    rng = np.random.default_rng(seed)
    result: list[dict[str, Any]] = []
    for number in range(count):
        size = int(rng.integers(2, 5))
        colors = rng.permutation(COLORS)[:size]
        arms = [
            {"arm": f"item{number % 7}-{position}", "features": {"item.color": str(color), "item.price": 0.5}}
            for position, color in enumerate(colors)
        ]
        chosen = int(rng.integers(0, size))
        result.append(
            {
                "context": {"user.age": float(rng.integers(18, 90))},
                "arm": arms[chosen]["arm"],
                "arms": arms,
                "reward": float(rng.random() < (0.9 if colors[chosen] == "red" else 0.1)),
                "propensity": 1 / size,
            }
        )
    return result


def decisions(path: Path) -> list[LoggedDecision]:
    return [row.decision for row in read(path, None, Layout()) if row.decision is not None]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("log") / "log.jsonl", rows(400, 0))


def test_a_policy_learns_from_the_features_of_the_arms(log: Path) -> None:
    result = evaluate(log, ["linucb", "uniform"], estimators=("snips",), replay=False)
    learned, uniform = (result[name].estimates["snips"] for name in ("linucb", "uniform"))
    assert learned.value > uniform.value + 2 * np.hypot(learned.error, uniform.error)
    assert result.level == "ok"


def test_a_bandit_with_shared_arms_is_evaluated_frozen_learning_and_by_replay(log: Path) -> None:
    bandit = Bandit(arms={}, policy="linucb", exploration=0.1)
    for row in rows(200, 10_000):
        candidates = {own["arm"]: own["features"] for own in row["arms"]}
        decision = bandit.decide(row["context"], arms=candidates)
        bandit.reward(decision.id, float(candidates[decision.arm]["item.color"] == "red"))
    before = str(bandit)
    result = evaluate(log, {"frozen": Frozen(bandit), "learning": bandit}, estimators=("snips",))
    assert str(bandit) == before
    for name in ("frozen", "learning"):
        assert result[name].estimates["snips"].value > 0.45  # uniform gets about 0.3
    assert result["learning (replay)"].estimates["replay"].value > 0.45


def test_doubly_robust_uses_a_model_of_the_features(log: Path) -> None:
    estimates = evaluate(log, ["uniform"], estimators=("dr", "ips", "dm"))["uniform"].estimates
    assert estimates["dr"].error < estimates["ips"].error
    assert abs(estimates["dr"].value - estimates["ips"].value) < 4 * estimates["ips"].error


@pytest.mark.parametrize("form", ["jsonl", "vw"])
def test_features_of_arms_survive_conversion(log: Path, tmp_path: Path, form: str) -> None:
    out = tmp_path / f"out.{form}"
    convert(log, out, to=form)  # type: ignore[arg-type]
    assert decisions(out) == decisions(log)


def test_decision_service_json_becomes_vowpal_wabbit_text(tmp_path: Path) -> None:
    line = {
        "_label_cost": -1.0,
        "_label_probability": 0.5,
        "_label_Action": 2,
        "a": [2, 1],
        "p": [0.5, 0.5],
        "c": {
            "User": {"age": 31},
            "_multi": [{"_tag": "x", "I": {"price": 3}}, {"_tag": "y", "I": {"color": "red"}}],
        },
    }
    path = tmp_path / "log.dsjson"
    path.write_text(json.dumps(line) + "\n")
    convert(path, tmp_path / "out.vw", to="vw")
    expected = "shared |User age:31\n'x |I price:3\n0:-1.0:0.5 'y |I color=red\n\n"
    assert (tmp_path / "out.vw").read_text() == expected


def test_a_converted_log_trains_a_bandit(log: Path, tmp_path: Path) -> None:
    convert(log, tmp_path / "out.jsonl")
    bandit = Bandit(arms={}, policy="linucb")
    report = bandit.learn_from(tmp_path / "out.jsonl")
    assert (report.learned, report.refused) == (400, {})


def test_the_command_tries_other_settings_with_shared_arms(log: Path) -> None:
    arguments = ["evaluate", str(log), "--policies", "uniform", "--estimators", "ips", "--no-replay", "--try"]
    run = CliRunner().invoke(app, [*arguments, "policy=linucb,exploration=0.2"], catch_exceptions=False)
    assert "policy=linucb,exploration=0.2" in run.output
    refused = CliRunner().invoke(app, [*arguments, "without=item0-0"])
    assert "arms have no features" in str(refused.exception)


@pytest.mark.rivals
def test_vowpal_wabbit_reads_the_text_and_reports_the_same_ips(log: Path, tmp_path: Path) -> None:
    """Vowpal Wabbit ranks the arms of every block; the IPS estimate of its choices is its average loss."""
    convert(log, tmp_path / "log.vw", to="vw")
    ran = subprocess.run(
        [
            *(sys.executable, "-m", "vowpalwabbit", "--cb_adf", "--cb_type", "ips", "-q", "ui"),
            *("-d", str(tmp_path / "log.vw"), "-p", str(tmp_path / "predictions"), "--progress", "100000"),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = (line.partition("=") for line in ran.stderr.splitlines())
    reported = {name.strip(): number for name, _, number in lines}
    assert int(reported["number of examples"]) == 400
    predictions = (tmp_path / "predictions").read_text().split("\n\n")
    best = iter(block.strip().partition(":")[0] for block in predictions if block.strip())
    names = iter([tuple(own.features or ()) for own in decisions(log)])
    result = evaluate(log, {"vw": lambda context: next(names)[int(next(best))]}, estimators=("ips",))
    assert result["vw"].estimates["ips"].value == pytest.approx(-float(reported["average loss"]), abs=2e-6)


def test_a_bandit_without_arms_needs_features_in_the_log(tmp_path: Path) -> None:
    lines: list[dict[str, object]] = [{"context": {"a": 1}, "arm": "x", "reward": 1, "propensity": 0.5}]
    with pytest.raises(InvalidInput, match="has no arm features"):
        evaluate(write(tmp_path / "log.jsonl", lines), {"shared": Bandit(arms={})})


@pytest.mark.parametrize(
    ("arms", "reason"),
    [
        ([{"arm": "y", "features": {}}], "invalid eligible arms"),
        ([{"arm": "x", "features": 3}], "invalid arms"),
        ([{"arm": "x"}, {"arm": "x"}], "invalid arms"),
    ],
)
def test_invalid_candidates_are_refused_with_a_reason(tmp_path: Path, arms: list[Any], reason: str) -> None:
    line = {"context": {"a": 1}, "arm": "x", "reward": 1, "propensity": 0.5, "arms": arms}
    (row,) = read(write(tmp_path / "log.jsonl", [line]), None, Layout())
    assert row.reason == reason
