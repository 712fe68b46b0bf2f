"""Reports, figures and the command line of an evaluation."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from glcb import Bandit
from glcb._errors import InvalidSettings, MissingExtra
from glcb.cli import app
from glcb.evaluate import evaluate
from glcb.policies.trees.tree_ts import TreeTS
from tests.evaluate.logs import ARMS, rows, rule, write


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("log") / "log.jsonl", rows(1500))


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["evaluate", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_report_shows_values_checks_and_the_conclusion(log: Path, tmp_path: Path) -> None:
    result = evaluate(log, {"rule": rule, "uniform": "uniform"}, estimators=("snips", "ips"))
    page, text, data = (path.read_text(encoding="utf-8") for path in result.write(tmp_path / "out"))
    for content in (page, text):
        assert "rule is better than logged" in content
        assert "effective sample size" in content
        assert "use them only if neither policy learns" in content
    assert page.count("<svg") == 2
    assert json.loads(data)["policies"][1]["name"] == "rule"
    result.draw(tmp_path / "values.png")
    assert (tmp_path / "values.png").stat().st_size > 10_000


def test_numbers_that_should_not_be_used_are_marked(tmp_path: Path) -> None:
    lines = [{**row, "reward": float(number < 8)} for number, row in enumerate(rows(1500))]
    result = evaluate(write(tmp_path / "log.jsonl", lines), {"rule": rule}, estimators=("snips",))
    (page, *_) = result.write(tmp_path)
    assert "do not use" in page.read_text(encoding="utf-8")
    assert "Nothing can be concluded about rule" in page.read_text(encoding="utf-8")


def test_a_figure_needs_a_known_suffix(log: Path, tmp_path: Path) -> None:
    result = evaluate(log, ["uniform"], estimators=("ips",))
    with pytest.raises(InvalidSettings, match="must end in"):
        result.draw(tmp_path / "values.txt")


@pytest.fixture
def without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "matplotlib", None)


@pytest.mark.usefixtures("without_matplotlib")
def test_without_matplotlib_the_numbers_are_written_nevertheless(log: Path, tmp_path: Path) -> None:
    result = evaluate(log, ["uniform"], estimators=("ips",))
    with pytest.raises(MissingExtra, match="matplotlib"):
        result.write(tmp_path)
    assert json.loads((tmp_path / "evaluation.json").read_text())["rows"] == 1500


# ---- command line -----------------------------------------------------------------------------------


def test_the_command_evaluates_policies_and_variants(log: Path, tmp_path: Path) -> None:
    model = Bandit(ARMS, policy="linucb")
    model.learn_from(log)
    model.save(tmp_path / "model.glcb")
    out = run(
        log,
        *("--policies", f"uniform,arm=news,{tmp_path / 'model.glcb'}", "--estimators", "snips"),
        *("--try", "policy=linucb,exploration=0.02", "--try", "policy=linucb,without=games"),
        *("--out", tmp_path / "report"),
    )
    for name in ("uniform", "arm=news", "model.glcb", "policy=linucb,exploration=0.02", "(replay)"):
        assert name in out
    assert (tmp_path / "report" / "report.html").exists()
    assert not (tmp_path / "report" / "progress").exists()


@pytest.mark.usefixtures("without_matplotlib")
@pytest.mark.parametrize(
    "arguments",
    [
        ["evaluate", "missing.jsonl", "--out", "report"],
        ["report", "missing"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_without_matplotlib_a_report_is_refused_before_anything_is_read(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, MissingExtra)
    assert "matplotlib" in str(result.exception)


@pytest.mark.parametrize(
    "arguments",
    [
        ["evaluate", "missing.jsonl", "--policies", "tree-ts"],
        ["learn", "missing.jsonl", "--out", "model", "--policy", "tree-ts"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_policy_without_its_packages_is_refused_before_anything_is_read(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TreeTS, "requires", ("a_package_that_does_not_exist",))
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, MissingExtra)
    assert "a_package_that_does_not_exist" in str(result.exception)


def test_a_report_that_cannot_be_written_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    (tmp_path / "report").write_text("a file")
    result = CliRunner().invoke(app, ["evaluate", "missing.jsonl", "--out", str(tmp_path / "report")])
    assert isinstance(result.exception, InvalidSettings)
    assert "cannot create the folder" in str(result.exception)


def test_leaving_an_arm_out_is_evaluated_without_it(log: Path) -> None:
    out = run(log, "--policies", "uniform", "--estimators", "ips", "--try", "policy=linucb,without=news")
    result = evaluate(log, {"own": Bandit(["games", "sports"], policy="linucb")}, estimators=("ips",))
    assert result["own"].shares["news"] == 0.0
    assert f"{result['own'].estimates['ips'].value:.4g}" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--try", "exploration"], "--try takes settings such as exploration=0.02"),
        (["--try", "without=chess"], "there is no arm 'chess'"),
        (["--try", "patience=3"], "Bandit has no setting 'patience'"),
        (["--policies", "nothing"], "there is no policy 'nothing'"),
    ],
)
def test_invalid_arguments_of_the_command_are_refused(log: Path, arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(app, ["evaluate", str(log), *arguments])
    assert message in str(result.exception)


def test_the_command_converts_logs(log: Path, tmp_path: Path) -> None:
    arguments = ["convert", str(log), str(tmp_path / "log.vw"), "--to", "vw"]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert "1,500 decisions" in result.output
    assert "1 = games" in result.output
    assert len((tmp_path / "log.vw").read_text().splitlines()) == 1500
