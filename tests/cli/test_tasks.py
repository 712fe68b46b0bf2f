from pathlib import Path

import pytest
from typer.testing import CliRunner

from glcb import InvalidSettings, tasks
from glcb.cli import app


@pytest.fixture
def no_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLCB_DATA_DIR", str(tmp_path))


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
