from pathlib import Path

import pytest
from typer.testing import CliRunner

from glcb import DataError, InvalidSettings
from glcb.cli import app
from tests.tasks.server import serving


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GLCB_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("GLCB_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def mushrooms() -> bytes:
    """Return a synthetic file with the same rows, features and classes as the real one."""
    levels = [6] * 6 + [5] * 16 + [1]  # 22 columns with 117 distinct values
    levels = levels[:22]
    levels[-1] += 117 - sum(levels)
    lines = []
    for row in range(8124):
        letters = [chr(ord("a") + row % count) for count in levels]
        lines.append(",".join(["e" if row < 4208 else "p", *letters]))
    return "\n".join(lines).encode()


def test_list_shows_which_files_are_present_and_which_are_missing(folder: Path) -> None:
    (folder / "mushroom.data").write_bytes(mushrooms())
    result = CliRunner().invoke(app, ["data", "list"])
    assert result.exit_code == 0, result.output
    shown, sources = result.output.split("sources\n")
    rows = {line.split()[0]: line for line in shown.splitlines() if line.strip()}
    assert {"adult", "census", "covertype", "financial", "jester", "mushroom", "statlog"} <= rows.keys()
    assert "present" in rows["mushroom"]
    assert "missing" in rows["adult"]
    assert "CC BY 4.0" in rows["adult"]
    assert "https://archive.ics.uci.edu/dataset/2/adult\n" in sources
    assert "75.17 MB" in rows["covertype"]
    assert "data sets of the bake-off: none; put data sets" in shown


def test_list_counts_the_data_sets_of_the_bakeoff(folder: Path) -> None:
    (folder / "bakeoff").mkdir()
    for name in ("one.tsv", "two.csv"):
        (folder / "bakeoff" / name).write_bytes(b"x" * 10_000)
    result = CliRunner().invoke(app, ["data", "list"])
    assert "data sets of the bake-off: 2 data sets, 0.02 MB" in result.output


def test_fetch_downloads_a_missing_file_and_verify_accepts_it(folder: Path) -> None:
    with serving({"mushroom.data": mushrooms()}) as site:
        fetched = CliRunner().invoke(app, ["data", "fetch", "mushroom", "--base-url", site.url])
        assert fetched.exit_code == 0, fetched.output
        assert str(folder / "mushroom.data") in fetched.output
        again = CliRunner().invoke(app, ["data", "fetch", "mushroom", "--base-url", site.url])
        assert "is already present" in again.output
        assert len(site.requests) == 1
    verified = CliRunner().invoke(app, ["data", "verify", "mushroom"])
    assert verified.exit_code == 0, verified.output
    assert "mushroom.data is valid (rows, columns, classes)" in verified.output


def test_fetch_continues_after_a_failed_download(folder: Path) -> None:
    with serving({"mushroom.data": mushrooms()}) as site:
        result = CliRunner().invoke(app, ["data", "fetch", "adult", "mushroom", "--base-url", site.url])
    assert isinstance(result.exception, DataError)
    assert "has no file adult.full" in str(result.exception)
    assert (folder / "mushroom.data").exists()


def test_verify_names_invalid_and_missing_files(folder: Path) -> None:
    (folder / "mushroom.data").write_bytes(mushrooms().rpartition(b"\n")[0])
    result = CliRunner().invoke(app, ["data", "verify"])
    assert "adult: missing, run `glcb data fetch adult`" in result.output
    assert isinstance(result.exception, DataError)
    assert "expected 8,124 rows, 117 features, 2 arms" in str(result.exception)


def test_verify_fails_without_files(folder: Path) -> None:
    assert "no data files to verify" in str(CliRunner().invoke(app, ["data", "verify"]).exception)
    (folder / "mushroom.data").write_bytes(mushrooms())
    assert CliRunner().invoke(app, ["data", "verify"]).exit_code == 0
    assert "adult: file is missing" in str(CliRunner().invoke(app, ["data", "verify", "adult"]).exception)


def test_unknown_tasks_and_tasks_without_data_are_refused() -> None:
    for name, message in (("nothing", "no task 'nothing'"), ("wheel", "needs no data")):
        for command in ("fetch", "verify"):
            result = CliRunner().invoke(app, ["data", command, name])
            assert isinstance(result.exception, InvalidSettings)
            assert message in str(result.exception)
