"""``glcb demo``."""

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from glcb import InvalidSettings
from glcb.bench import demo
from glcb.bench.run import RunRecord, execute
from glcb.cli import app
from tests.bench.records import record

POLICIES = ("GLCB", "LinUCB", "LinTS", "UCB1", "ε-greedy", "Uniform")


@pytest.mark.live
def test_the_demo_prints_a_table_and_a_conclusion_and_saves_a_figure(tmp_path: Path) -> None:
    figure = tmp_path / "figure.png"
    result = CliRunner().invoke(app, ["demo", "--seeds", "2", "--steps", "60", "--out", str(figure)])
    assert result.exit_code == 0, result.output
    for name in (*POLICIES, "smooth", "linear", "wheel", "highest mean reward"):
        assert name in result.output
    assert figure.name in result.output.replace("\n", "")
    assert figure.read_bytes().startswith(b"\x89PNG")


@pytest.mark.live
def test_the_demo_works_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = CliRunner().invoke(
        app, ["demo", "--seeds", "1", "--steps", "20", "--out", str(tmp_path / "x.png")]
    )
    assert result.exit_code == 0, result.output
    assert "pip install '.[report]'" in result.output


def test_the_conclusion_depends_on_the_numbers() -> None:
    def summary(best: str) -> str:
        return demo.summary(
            record(policy, task.name, seed, 150.0 + seed if policy == best else 100.0 + seed)
            for task in demo.TASKS
            for policy in demo.POLICIES
            for seed in range(5)
        )

    assert summary("glcb").startswith("GLCB has the highest mean reward on all 3 tasks")
    assert summary("linucb").startswith("LinUCB has the highest mean reward on all 3 tasks")


def test_the_demo_compares_all_policies_on_tasks_without_data_files(tmp_path: Path) -> None:
    records = [
        outcome for run in demo.runs(seeds=1, steps=30) if isinstance(outcome := execute(run), RunRecord)
    ]
    assert len(records) == len(demo.TASKS) * len(demo.POLICIES)
    assert demo.table(records).row_count == len(demo.POLICIES)
    demo.draw(records, tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").read_text().count('id="axes_') == len(demo.TASKS)


@pytest.mark.parametrize("out", ["nowhere/x.png", "x.abc", "folder.png"])
def test_an_invalid_figure_path_is_refused_before_the_runs(tmp_path: Path, out: str) -> None:
    (tmp_path / "folder.png").mkdir()
    result = CliRunner().invoke(app, ["demo", "--steps", "20", "--seeds", "1", "--out", str(tmp_path / out)])
    assert isinstance(result.exception, InvalidSettings)
    assert result.output == ""


def test_version_and_help() -> None:
    assert CliRunner().invoke(app, ["--version"]).output.startswith("glcb 0.")
    assert "demo" in CliRunner().invoke(app, ["--help"]).output
