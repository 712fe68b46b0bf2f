"""Short versions of the studies, end to end."""

import sys
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from glcb import InvalidSettings
from glcb.bench import studies
from glcb.bench.studies.convergence import Convergence
from glcb.bench.studies.gating import Gating
from glcb.cli import app


def shown(study_result: studies.StudyResult) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        for table in study_result.tables:
            console.print(table)
    return capture.get()


def test_studies_are_registered_by_name() -> None:
    for name in studies.names():
        kind = studies.get(name)
        assert kind.name == name
        assert kind.quick().seeds <= kind().seeds
    with pytest.raises(InvalidSettings, match="no study 'weather'; the studies are convergence, gating"):
        studies.get("weather")
    with pytest.raises(InvalidSettings, match="seeds"):
        Gating(seeds=0)


def test_the_convergence_study_runs(tmp_path: Path) -> None:
    reported: list[tuple[int, int]] = []
    study_result = Convergence(seeds=2, steps=300).run(lambda done, total: reported.append((done, total)))
    assert reported[-1][0] == reported[-1][1] == 2 * 300 * 9
    text = shown(study_result)
    for expected in ("Error of the values", "slower decay", "2 seeds", "t = 300", "100–10–1 units"):
        assert expected in text + "".join(study_result.remarks), expected
    study_result.draw(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_the_gating_study_runs(tmp_path: Path) -> None:
    reported: list[tuple[int, int]] = []
    study_result = Gating(seeds=2, resolution=8).run(lambda done, total: reported.append((done, total)))
    assert reported[-1] == (8, 8)
    assert "2 seeds" in shown(study_result)
    study_result.draw(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_the_study_command_prints_a_table_and_the_path_of_the_figure(tmp_path: Path) -> None:
    arguments = ["study", "gating", "--quick", "--seeds", "1", "--out", str(tmp_path / "new")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "hyperplanes" in result.output
    assert "gating.png" in result.output.replace("\n", "")
    assert (tmp_path / "new" / "gating.png").read_bytes().startswith(b"\x89PNG")


def test_the_study_command_lists_all_studies() -> None:
    result = CliRunner().invoke(app, ["study"])
    assert result.exit_code == 0
    for name in studies.names():
        assert name in result.output


def test_a_study_works_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    arguments = ["study", "gating", "--quick", "--seeds", "1", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "there will be no figure" in result.output
    assert "pip install '.[report]'" in result.output
