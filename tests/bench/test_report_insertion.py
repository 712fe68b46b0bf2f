"""Insertion of result tables into documents."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from glcb import ResultsError
from glcb.bench.report import insert
from tests.bench.records import folder, record

PROJECT = Path(__file__).parents[2]
REFERENCE = PROJECT / "results" / "reference"
BEGIN = "<!-- results: reference ranks rewards -->"
END = "<!-- results: end -->"


@pytest.mark.parametrize("results", ["reference", "bakeoff", "scenarios", "intents", "clicks"])
def test_the_results_page_shows_the_recorded_results(results: str, tmp_path: Path) -> None:
    page = PROJECT / "docs" / "results.md"
    copy = tmp_path / "results.md"
    shutil.copy(page, copy)
    insert(PROJECT / "results" / results, copy, "glcb")
    assert copy.read_text() == page.read_text(), "run `make tables`"


def test_text_around_the_tables_is_kept(tmp_path: Path) -> None:
    document = tmp_path / "paper.md"
    document.write_text(f"above\n{BEGIN}\nstale numbers\n{END}\nbelow\n")
    insert(REFERENCE, document)
    text = document.read_text()
    assert text.startswith(f"above\n{BEGIN}\n")
    assert text.endswith(f"\n{END}\nbelow\n")
    assert "stale" not in text
    assert "| policy |" in text


def test_each_place_shows_the_sections_of_its_own_folder(tmp_path: Path) -> None:
    runs = [
        record(name, "wheel", seed, total) for name, total in (("glcb", 150), ("rms", 99)) for seed in (0, 1)
    ]
    own = folder(tmp_path / "bakeoff", runs)
    document = tmp_path / "paper.md"
    other = f"{BEGIN}\nother folder\n{END}"
    places = (
        f"<!-- results: bakeoff conclusion -->\n{END}\n{other}\n<!-- results: bakeoff leads -->\nold\n{END}\n"
    )
    document.write_text(places)
    insert(own, document)
    first, second, third = document.read_text().split(f"\n{END}\n")[:3]
    assert first.startswith(
        "<!-- results: bakeoff conclusion -->\n**GLCB has the highest mean reward on wheel;"
    )
    assert second == f"{BEGIN}\nother folder"
    assert third.startswith("<!-- results: bakeoff leads -->\nCumulative reward of GLCB minus")
    assert "| wheel | RMS | +51 ± 0 | +51.5% |" in third
    insert(own, document, reference="rms")
    assert "| wheel | GLCB | −51 ± 0 | −34.0% |" in document.read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"<!-- results: reference ranks wins -->\n{END}\n", "out of conclusion, overview, .*; got wins"),
        (f"<!-- results: reference -->\n{END}\n", "must name sections .*; got none"),
        ("<!-- results: reference ranks -->\nno end\n", "after it a line <!-- results: end -->"),
        (f"<!-- results: reference ranks -->\n<!-- results: other ranks -->\n{END}\n", "must contain a line"),
    ],
)
def test_an_invalid_marker_is_an_error_and_changes_nothing(tmp_path: Path, text: str, message: str) -> None:
    document = tmp_path / "notes.md"
    document.write_text(text)
    with pytest.raises(ResultsError, match=message):
        insert(REFERENCE, document)
    assert document.read_text() == text


def test_a_document_without_marks_is_not_changed(tmp_path: Path) -> None:
    document = tmp_path / "notes.md"
    document.write_text("no marks here")
    with pytest.raises(ResultsError, match="must contain a line <!-- results: reference"):
        insert(REFERENCE, document)
    assert document.read_text() == "no marks here"


def test_line_endings_around_the_tables_are_kept(tmp_path: Path) -> None:
    document = tmp_path / "paper.md"
    document.write_bytes(f"above\r\n{BEGIN}\r\n{END}\r\nbelow\r\n".encode())
    insert(REFERENCE, document)
    assert document.read_bytes().startswith(b"above\r\n")
    assert document.read_bytes().endswith(b"\r\nbelow\r\n")


def test_an_unreadable_document_is_a_results_error(tmp_path: Path) -> None:
    (tmp_path / "latin.md").write_bytes(b"caf\xe9")
    for name in ("missing.md", "latin.md", ""):
        with pytest.raises(ResultsError, match="cannot read"):
            insert(REFERENCE, tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["latin.md"]


def test_a_failed_write_leaves_the_old_document(tmp_path: Path, fill_disk: Callable[[], None]) -> None:
    document = tmp_path / "paper.md"
    document.write_text(f"{BEGIN}\n{END}\n")

    fill_disk()
    with pytest.raises(ResultsError, match=r"cannot write .*: No space left"):
        insert(REFERENCE, document)
    assert document.read_text() == f"{BEGIN}\n{END}\n"
    assert list(tmp_path.iterdir()) == [document]
