"""The numbers in the README are those of the results."""

import shutil
from pathlib import Path

import pytest

from glcb import ResultsError
from glcb.bench.report import insert

PROJECT = Path(__file__).parents[2]
REFERENCE = PROJECT / "results" / "reference"


def test_the_readme_shows_the_reference_experiment(tmp_path: Path) -> None:
    copy = tmp_path / "README.md"
    shutil.copy(PROJECT / "README.md", copy)
    insert(REFERENCE, copy)
    assert copy.read_text() == (PROJECT / "README.md").read_text(), "run `make tables`"


def test_what_stands_around_the_tables_stays(tmp_path: Path) -> None:
    document = tmp_path / "paper.md"
    document.write_text("above\n<!-- results: begin -->\nstale numbers\n<!-- results: end -->\nbelow\n")
    insert(REFERENCE, document)
    text = document.read_text()
    assert text.startswith("above\n<!-- results: begin -->\n")
    assert text.endswith("\n<!-- results: end -->\nbelow\n")
    assert "stale" not in text
    assert "| policy |" in text


def test_a_document_without_marks_is_left_alone(tmp_path: Path) -> None:
    document = tmp_path / "notes.md"
    document.write_text("no marks here")
    with pytest.raises(ResultsError, match="results: begin"):
        insert(REFERENCE, document)
    assert document.read_text() == "no marks here"
