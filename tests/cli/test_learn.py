"""``glcb learn``: train a bandit on a log."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from glcb import Bandit, InvalidSettings, LogError, ModelFileError
from glcb.cli import app
from tests.support.bandits import ARMS, FAST, full_state, run
from tests.support.logs import as_csv, as_jsonl, flat_rows


def learned(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["learn", *map(str, arguments)])
    if result.exception is not None:
        raise result.exception
    return result.output


def test_a_csv_file_becomes_a_model(tmp_path: Path) -> None:
    log = as_csv(tmp_path / "log.csv", flat_rows(60))
    output = learned(log, "--out", tmp_path / "model", "--policy", "linucb", "--seed", 5)
    assert "60 rows: 60 decisions and 60 rewards learned, 0 rows rejected" in output
    assert f"Bandit.load('{tmp_path / 'model'}')" in output.replace("\n", "")
    twin = Bandit(sorted(ARMS), policy="linucb", seed=5)
    twin.learn_from(log)
    assert full_state(Bandit.load(tmp_path / "model")) == full_state(twin)


VISITS = [
    {
        "id": f"d{i}",
        "time": 1e9 + i,
        "visitor": f"v{i}",
        "seen": f"2026-11-17 10:{i}",
        "p": 0.5,
        "country": "AB"[i % 2],
        "arm": "ab"[i % 3 > 0],
        "reward": i % 2,
        "propensity": 0.5,
    }
    for i in range(400)
]


def test_identifiers_and_propensities_among_the_features_are_named(tmp_path: Path) -> None:
    log = as_csv(tmp_path / "log.csv", VISITS)
    output = learned(log, "--out", tmp_path / "model", "--policy", "linucb").replace("\n", " ")
    for name in ("visitor", "seen"):
        assert re.search(rf"warning: 9\d\.\d% of the values of '{name}' have no slot of their own", output)
    assert "'country'" not in output
    assert "'p' is a feature. If it is the propensity, pass --propensity-column p" in output
    assert "not features, because of their names: id, time" in output
    arguments = ("--propensity-column", "p", "--ignore-columns", "visitor,seen")
    output = learned(log, "--out", tmp_path / "model", "--policy", "linucb", *arguments)
    assert "warning" not in output
    assert list(Bandit.load(tmp_path / "model").schema.features) == ["country"]  # type: ignore[union-attr]


@pytest.mark.parametrize("arguments", [[], ["--propensity-column", "p", "--ignore-columns", "visitor,seen"]])
def test_columns_with_a_role_are_no_features(tmp_path: Path, arguments: list[str]) -> None:
    log = as_jsonl(tmp_path / "log.jsonl", VISITS)
    learned(log, "--out", tmp_path / "model", "--policy", "linucb", *arguments)
    features = Bandit.load(tmp_path / "model").schema.features  # type: ignore[union-attr]
    assert features.keys().isdisjoint({"id", "time", "arm", "reward", "propensity"})
    assert ("p" in features) == (not arguments)


def test_the_log_of_a_bandit_gives_the_same_model(tmp_path: Path) -> None:
    bandit = Bandit(sorted(ARMS), **FAST)
    bandit.log_to(tmp_path / "log.jsonl")
    run(bandit, 80)
    learned(tmp_path / "log.jsonl", "--out", tmp_path / "model", "--policy", "linucb")
    model = Bandit.load(tmp_path / "model")
    assert full_state(model)[0] == full_state(bandit)[0]
    assert model.counts == bandit.counts


def test_training_continues_from_a_model(tmp_path: Path) -> None:
    first, second = (as_csv(tmp_path / f"{i}.csv", flat_rows(30, 10_000 + i)) for i in range(2))
    model = tmp_path / "model"
    learned(first, "--out", model, "--policy", "linucb", "--arms", ",".join(ARMS))
    learned(second, "--out", model, "--from", model)
    twin = Bandit(ARMS, policy="linucb")
    twin.learn_from(first)
    twin.learn_from(second)
    assert full_state(Bandit.load(model)) == full_state(twin)
    with pytest.raises(
        InvalidSettings, match=r"--policy, --seed cannot be combined with --from: .*already defines them"
    ):
        learned(second, "--out", model, "--from", model, "--policy", "glcb", "--seed", 1)
    with pytest.raises(ModelFileError, match="cannot read"):
        learned(second, "--out", model, "--from", tmp_path / "nothing")


@pytest.mark.parametrize("named", [(), ("--arms", "007,008")])
def test_arms_with_leading_zeros_keep_them(named: tuple[str, ...], tmp_path: Path) -> None:
    rows = [{"age": age, "arm": arm, "reward": 1} for age, arm in enumerate(["007", "008", "007"])]
    log = as_csv(tmp_path / "log.csv", rows)
    assert "3 rewards learned, 0 rows rejected" in learned(log, "--out", tmp_path / "model", *named)
    assert Bandit.load(tmp_path / "model").arms == ("007", "008")


def test_columns_rewards_and_arms_can_be_named(tmp_path: Path) -> None:
    rows = [
        {"f": json.dumps({"age": i}), "action": i % 3, "gain": i / 2, "p": 0.5, "who": "x"} for i in range(20)
    ]
    log = as_jsonl(tmp_path / "log.data", rows)
    names = ("--context-column", "f", "--arm-column", "action", "--reward-column", "gain")
    more = (
        "--propensity-column",
        "p",
        "--ignore-columns",
        "who, nothing",
        "--format",
        "jsonl",
        "--policy",
        "ucb1",
    )
    output = learned(
        log,
        "--out",
        tmp_path / "model",
        *names,
        *more,
        "--policy",
        "ucb1",
        "--arms",
        "0,1",
        "--rewards",
        "0,10",
    )
    assert "14 decisions and 14 rewards learned, 6 rows rejected" in output
    assert "unknown arm, for example row 3: there is no arm 2; the arms are 0, 1" in output
    model = Bandit.load(tmp_path / "model")
    assert model.arms == (0, 1)
    assert model.get_params()["rewards"] == [0.0, 10.0]


def test_invalid_arguments_are_refused_before_anything_is_saved(tmp_path: Path) -> None:
    log = as_csv(tmp_path / "log.csv", flat_rows(5))
    out = tmp_path / "model"
    with pytest.raises(InvalidSettings, match=r"the folder .* does not exist"):
        learned(log, "--out", tmp_path / "nowhere" / "model")
    with pytest.raises(InvalidSettings, match="--rewards must be `binary` or a range"):
        learned(log, "--out", out, "--rewards", "many")
    with pytest.raises(InvalidSettings, match="no policy 'magic'"):
        learned(log, "--out", out, "--policy", "magic")
    with pytest.raises(LogError, match="has no usable rows"):
        learned(log, "--out", out, "--arms", "a,b", "--policy", "ucb1")
    with pytest.raises(LogError, match="cannot read"):
        learned(tmp_path / "nothing.csv", "--out", out)
    assert not out.exists()


def test_an_interrupt_reports_progress_and_keeps_the_old_model(tmp_path: Path) -> None:
    log, out = tmp_path / "log.csv", tmp_path / "model"
    os.mkfifo(log)
    out.write_text("the old model")
    program = [sys.executable, "-m", "glcb", "learn", str(log), "--out", str(out), "--arms", ",".join(ARMS)]
    process = subprocess.Popen([*program, "--policy", "ucb1"], stderr=subprocess.PIPE, text=True)
    rows = as_csv(tmp_path / "rows.csv", flat_rows(10_000)).read_bytes()
    with log.open("wb") as pipe:  # by the time this is written, most of it has been learned
        pipe.write(rows)
        pipe.flush()
        process.send_signal(signal.SIGINT)
        _, output = process.communicate(timeout=60)
    assert process.returncode == 130
    stopped = re.search(r"stopped after at least ([\d,]+) rewards; nothing was saved", output)
    assert stopped is not None, output
    assert 1000 <= int(stopped[1].replace(",", "")) <= 10_000
    assert out.read_text() == "the old model"
