"""Every Python example in the README and in the documentation runs as it stands there."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.service.server import Server, serving

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SERVICE = "http://localhost:8000"
"""Where the examples expect the service."""

RUN = """
import pathlib, sys
together = {}
for example in sys.argv[2:]:
    names = together if sys.argv[1] == "together" else {}
    names["__name__"] = "__main__"
    exec(compile(pathlib.Path(example).read_text(encoding="utf-8"), example, "exec"), names)
"""


def examples(page: Path) -> list[str]:
    """Return the examples of a page; in front of each as many empty lines that errors name the right line."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return ["\n" * text[: one.start(1)].count("\n") + one[1] for one in found]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(["--data", str(tmp_path_factory.mktemp("service") / "glcb.db")]) as running:
        yield running


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def run(page: Path, folder: Path, url: str = SERVICE) -> subprocess.CompletedProcess[str]:
    """Run the examples of a page in one process: those of the README alone, others one after the other."""
    files = []
    for number, example in enumerate(examples(page)):
        file = folder / f"{page.stem}-{number}.py"
        file.write_text(example.replace(SERVICE, url), encoding="utf-8")
        files.append(str(file))
    how = "alone" if page.name == "README.md" else "together"
    command = [sys.executable, "-W", "error", "-c", RUN, how, *files]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("page", [page for page in PAGES if examples(page)], ids=name)
def test_examples_run(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    needs_service = SERVICE in page.read_text(encoding="utf-8")
    ran = run(page, tmp_path, request.getfixturevalue("server").url if needs_service else SERVICE)
    assert ran.returncode == 0, f"{name(page)}\n{ran.stdout}\n{ran.stderr}"


def test_an_example_that_fails_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\n```\n\n```python\nassert x == 2\n```\n")
    ran = run(page, tmp_path)
    assert ran.returncode != 0
    assert "line 6" in ran.stderr
