import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from glcb import InvalidSettings
from glcb.cli import app

PLAYERS = ("GLCB", "LinUCB", "LinTS", "UCB1", "EpsilonGreedy", "Uniform")


def test_the_demo_ends_with_a_table_and_a_picture(tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    result = CliRunner().invoke(app, ["demo", "--seeds", "2", "--steps", "60", "--out", str(picture)])
    assert result.exit_code == 0, result.output
    for player in PLAYERS:
        assert player in result.output
    assert picture.name in result.output.replace("\n", "")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_the_demo_does_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = CliRunner().invoke(
        app, ["demo", "--seeds", "1", "--steps", "20", "--out", str(tmp_path / "x.png")]
    )
    assert result.exit_code == 0, result.output
    assert "pip install 'glcb[report]'" in result.output


@pytest.mark.parametrize("out", ["nowhere/x.png", "x.abc", "folder.png"])
def test_a_picture_that_cannot_be_saved_is_known_before_playing(tmp_path: Path, out: str) -> None:
    (tmp_path / "folder.png").mkdir()
    result = CliRunner().invoke(app, ["demo", "--steps", "20", "--seeds", "1", "--out", str(tmp_path / out)])
    assert isinstance(result.exception, InvalidSettings)
    assert result.output == ""


def test_version_and_help() -> None:
    assert CliRunner().invoke(app, ["--version"]).output.startswith("glcb 0.")
    assert "demo" in CliRunner().invoke(app, ["--help"]).output
