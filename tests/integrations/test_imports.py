"""No integration is imported unless asked for, and a missing package is named with its extra."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXTRAS = {
    "coba": "coba",
    "gymnasium": "gymnasium",
    "mlflow": "mlflow",
    "openfeature": "openfeature",
    "opentelemetry": "opentelemetry",
    "ray": "ray",
    "sklearn": "sklearn",
}
"""The package that each module needs; the extra has the name of the module."""
IMPORTED_LATER = ("litellm",)
"""Modules that import their package when it is needed, because that takes seconds."""
WITHOUT_PACKAGE = ("personalizer",)
"""Modules that need none: clients of Azure Personalizer speak HTTP."""


def run(program: str) -> str:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_list_has_every_module_and_each_has_an_extra() -> None:
    modules = {path.stem for path in (ROOT / "src" / "glcb" / "integrations").glob("[!_]*.py")}
    assert modules == {*EXTRAS, *IMPORTED_LATER, *WITHOUT_PACKAGE}
    declared = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for extra in (*EXTRAS, *IMPORTED_LATER):
        assert re.search(rf"^{extra} = \[", declared, re.MULTILINE), extra


def test_no_integration_is_imported_unless_asked_for() -> None:
    program = f"""
import sys, glcb, glcb.integrations, glcb.bench, glcb.client, glcb.evaluate
glcb.Bandit
print(*sorted(sys.modules.keys() & {set(EXTRAS.values())!r}))
print(*(name for name in sys.modules if name.startswith("glcb.integrations.")))
"""
    assert run(program).split() == []


def test_a_missing_package_is_named_with_its_extra() -> None:
    program = f"""
import sys
from importlib import import_module
from glcb import MissingExtra
for module, package in {EXTRAS!r}.items():
    sys.modules[package] = None
    try:
        import_module(f"glcb.integrations.{{module}}")
    except MissingExtra as error:
        print(error)
"""
    lines = run(program).splitlines()
    assert len(lines) == len(EXTRAS)
    for line, (extra, package) in zip(lines, EXTRAS.items(), strict=True):
        assert re.search(f"needs ({package}|pandas)", line)  # without pandas, Ray cannot read datasets
        assert f"pip install '.[{extra}]'" in line


@pytest.mark.parametrize("extra", [*EXTRAS, *IMPORTED_LATER])
def test_the_documentation_says_how_to_install_it(extra: str) -> None:
    page = (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8")
    assert f"pip install '.[{extra}]'" in page
