"""Insertion of result tables into documents."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from glcb import ResultsError
from glcb.bench.report import insert

PROJECT = Path(__file__).parents[2]
REFERENCE = PROJECT / "results" / "reference"


def test_the_results_page_shows_the_reference_results(tmp_path: Path) -> None:
    page = PROJECT / "docs" / "results.md"
    copy = tmp_path / "results.md"
    shutil.copy(page, copy)
    insert(REFERENCE, copy)
    assert copy.read_text() == page.read_text(), "run `make tables`"


def test_text_around_the_tables_is_kept(tmp_path: Path) -> None:
    document = tmp_path / "paper.md"
    document.write_text("above\n<!-- results: begin -->\nstale numbers\n<!-- results: end -->\nbelow\n")
    insert(REFERENCE, document)
    text = document.read_text()
    assert text.startswith("above\n<!-- results: begin -->\n")
    assert text.endswith("\n<!-- results: end -->\nbelow\n")
    assert "stale" not in text
    assert "| policy |" in text


def test_a_document_without_marks_is_not_changed(tmp_path: Path) -> None:
    document = tmp_path / "notes.md"
    document.write_text("no marks here")
    with pytest.raises(ResultsError, match="results: begin"):
        insert(REFERENCE, document)
    assert document.read_text() == "no marks here"


def test_line_endings_around_the_tables_are_kept(tmp_path: Path) -> None:
    document = tmp_path / "paper.md"
    document.write_bytes(b"above\r\n<!-- results: begin -->\n<!-- results: end -->\r\nbelow\r\n")
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
    document.write_text("<!-- results: begin -->\n<!-- results: end -->\n")

    fill_disk()
    with pytest.raises(ResultsError, match=r"cannot write .*: No space left"):
        insert(REFERENCE, document)
    assert document.read_text() == "<!-- results: begin -->\n<!-- results: end -->\n"
    assert list(tmp_path.iterdir()) == [document]
