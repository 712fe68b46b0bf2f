from pathlib import Path

import pytest
from typer.testing import CliRunner

from glcb import InvalidSettings, tasks
from glcb.cli import app


@pytest.fixture
def no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLCB_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("GLCB_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")


@pytest.mark.usefixtures("no_data")
def test_every_task_is_listed_with_or_without_data() -> None:
    result = CliRunner().invoke(app, ["tasks"])
    assert result.exit_code == 0, result.output
    rows = {line.split()[1]: line for line in result.output.splitlines() if line.startswith("│")}
    assert set(tasks.names()) <= rows.keys()
    assert rows["adult"].split("│")[2].strip() == "45,222"
    assert "missing" in rows["adult"]
    assert "synthetic" in rows["wheel"]
    assert "0 … 10" in rows["wheel"]
    assert "No data sets in" in result.output


@pytest.mark.usefixtures("no_data")
def test_data_sets_of_the_bakeoff_are_listed_and_shown(tmp_path: Path) -> None:
    (tmp_path / "bakeoff").mkdir()
    (tmp_path / "bakeoff" / "own.csv").write_text("x,target\n0.5,cat\n0.1,dog\n")
    (tmp_path / "bakeoff" / "broken.csv").write_text("")
    listed = CliRunner().invoke(app, ["tasks"])
    assert listed.exit_code == 0, listed.output
    assert "2 data sets in" in listed.output
    assert "bakeoff/broken, bakeoff/own\n" in listed.output
    shown = CliRunner().invoke(app, ["tasks", "show", "bakeoff/own"])
    assert shown.exit_code == 0, shown.output
    assert "arms      cat, dog" in shown.output
    assert "Parameters" not in shown.output


def test_the_wheel_is_shown_with_a_sketch() -> None:
    result = CliRunner().invoke(app, ["tasks", "show", "wheel"])
    assert result.exit_code == 0, result.output
    assert tasks.Wheel().sketch() in result.output
    assert "arms      0, 1, 2, 3, 4" in result.output


@pytest.mark.usefixtures("no_data")
def test_a_task_with_missing_data_shows_how_to_download_it() -> None:
    result = CliRunner().invoke(app, ["tasks", "show", "census"])
    assert result.exit_code == 0, result.output
    assert "missing: run `glcb data fetch census`" in result.output
    assert "2,458,285" in result.output


@pytest.mark.data
def test_census_shows_its_file_and_classes() -> None:
    result = CliRunner().invoke(app, ["tasks", "show", "census"])
    assert result.exit_code == 0, result.output
    assert "USCensus1990." in result.output
    assert "█" in result.output
    assert "40.80%" in result.output or "features  389" in result.output


def test_an_unknown_task_is_refused() -> None:
    result = CliRunner().invoke(app, ["tasks", "show", "whele"])
    assert isinstance(result.exception, InvalidSettings)
