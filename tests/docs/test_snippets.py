"""Every Python example in the README and the documentation runs, and prints the output shown below it."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

from benchmarks.service.server import Server, serving

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SERVICE_URL = "http://localhost:8000"
"""The address of the service in the examples."""

RUN = """
import contextlib, io, json, pathlib, sys
shared, outputs = {}, []
for file in sys.argv[2:]:
    names = shared if sys.argv[1] == "shared" else {}
    names["__name__"] = "__main__"
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(pathlib.Path(file).read_text(encoding="utf-8"), file, "exec"), names)
    outputs.append(printed.getvalue())
print(json.dumps(outputs))
"""


class Example(NamedTuple):
    code: str
    """Preceded by empty lines, so that errors name the line of the page."""
    output: str | None
    """The indented block right after the code, if there is one."""


def examples(page: Path) -> list[Example]:
    text = page.read_text(encoding="utf-8")
    pattern = re.compile(
        r"^```python\n(.*?)^```\n(?:\n((?:    [^\n]+\n|\n(?=    ))+))?", re.DOTALL | re.MULTILINE
    )
    return [
        Example(
            "\n" * text[: match.start(1)].count("\n") + match[1],
            re.sub("^    ", "", match[2], flags=re.MULTILINE).strip("\n") + "\n" if match[2] else None,
        )
        for match in pattern.finditer(text)
    ]


def run(page: Path, folder: Path, url: str = SERVICE_URL) -> subprocess.CompletedProcess[str]:
    """Run the examples of a page in one process. Those of the README share no variables; others do."""
    files = []
    for number, example in enumerate(examples(page)):
        file = folder / f"{page.stem}-{number}.py"
        file.write_text(example.code.replace(SERVICE_URL, url), encoding="utf-8")
        files.append(str(file))
    scope = "separate" if page.name == "README.md" else "shared"
    command = [sys.executable, "-W", "error", "-c", RUN, scope, *files]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def name(page: Path) -> str:
    return str(page.relative_to(ROOT)) if page.is_relative_to(ROOT) else page.name


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(["--data", str(tmp_path_factory.mktemp("service") / "glcb.db")]) as running:
        yield running


def check(page: Path, folder: Path, url: str = SERVICE_URL) -> None:
    finished = run(page, folder, url)
    assert finished.returncode == 0, f"{name(page)}\n{finished.stdout}\n{finished.stderr}"
    printed = json.loads(finished.stdout.splitlines()[-1])
    for example, output in zip(examples(page), printed, strict=True):
        assert example.output in (None, output), f"{name(page)} shows another output than\n{output}"


def uses_service(page: Path) -> bool:
    return any(SERVICE_URL in example.code for example in examples(page))


@pytest.mark.parametrize("page", [p for p in PAGES if examples(p) and not uses_service(p)], ids=name)
def test_examples_run_and_print_what_is_shown(page: Path, tmp_path: Path) -> None:
    code = "\n".join(example.code for example in examples(page))
    missing = [
        name for name in re.findall(r"^(?:from|import) (\w+)", code, re.MULTILINE) if not find_spec(name)
    ]
    if missing:
        pytest.skip(f"could not import {missing}")
    check(page, tmp_path)


@pytest.mark.live
@pytest.mark.parametrize("page", [page for page in PAGES if uses_service(page)], ids=name)
def test_examples_with_a_service_run_and_print_what_is_shown(
    page: Path, tmp_path: Path, server: Server
) -> None:
    check(page, tmp_path, server.url)


def test_a_failing_example_is_reported_with_its_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\n```\n\n```python\nassert x == 2\n```\n")
    finished = run(page, tmp_path)
    assert finished.returncode != 0
    assert "line 6" in finished.stderr


def test_a_wrong_output_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1 + 1)\n```\n\n    3\n\nText.\n")
    with pytest.raises(AssertionError, match=r"another output than\s+2"):
        check(page, tmp_path)


def test_the_readme_has_at_most_150_lines() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150
