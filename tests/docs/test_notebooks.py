"""The notebooks run from top to bottom, print what they show, and have a page with their outputs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nbclient")
pytest.importorskip("mkdocs")

import nbformat
from nbclient import NotebookClient

from docs.notebook_pages import convert, on_page_markdown

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "notebooks").glob("*.ipynb"))


def read(path: Path) -> Any:
    return nbformat.read(path, 4)


def outputs(notebook: Any) -> Iterator[Any]:
    """Yield the outputs of all cells."""
    for cell in notebook.cells:
        yield from cell.get("outputs", ())


def printed(notebook: Any) -> list[str]:
    return [output.text for output in outputs(notebook) if output.output_type == "stream"]


def figures(notebook: Any) -> int:
    return sum("image/png" in output.get("data", ()) for output in outputs(notebook))


@pytest.mark.live
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_prints_what_it_shows(path: Path, tmp_path: Path) -> None:
    stored, run = (read(path) for _ in range(2))
    NotebookClient(run, timeout=240, kernel_name="python3").execute(cwd=str(tmp_path))
    assert printed(run) == printed(stored)
    assert figures(run) == figures(stored) >= 1


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_with_the_outputs_of_one_run(path: Path) -> None:
    notebook = read(path)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert "Traceback" not in str(notebook)
    assert figures(notebook) >= 1
    assert any("text/html" in output.get("data", ()) for output in outputs(notebook))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_page_of_a_notebook_has_its_cells_and_figures(path: Path) -> None:
    notebook = read(path)
    page, images = convert(path)
    for cell in notebook.cells:
        assert cell.source in page
    assert len(images) == figures(notebook)
    assert all(name in page and content.startswith(b"\x89PNG") for name, content in images.items())
    assert page.startswith("# ")
    assert "<table>" in page


def test_links_to_notebooks_lead_to_their_pages() -> None:
    text = "[a](notebooks/first-bandit.ipynb), [b](x.ipynb#y) and `x.ipynb`"
    assert on_page_markdown(text) == "[a](notebooks/first-bandit.md), [b](x.md#y) and `x.ipynb`"
