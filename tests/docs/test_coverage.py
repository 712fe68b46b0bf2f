"""Everything public is documented, and everything documented exists."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import typer.main

import glcb
import glcb.bandit
import glcb.bench
import glcb.client
import glcb.evaluate
import glcb.policies
import glcb.route
import glcb.tasks
from docs.hooks import GENERATED, generate
from glcb._api.errors import ERROR_CODES
from glcb._errors import MissingExtra, install_command
from glcb.bench import studies
from glcb.cli import app
from glcb.policies import registry
from glcb.service.config import Limits, ServiceSettings

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "glcb"
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS]
NOT_DOCUMENTED = {"__version__", "FLAVOR_NAME"}


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def optional(module: str) -> Any:
    """Import a module of glcb, or skip the test if the packages of its extra are not installed."""
    return pytest.importorskip(module, exc_type=MissingExtra)


def directives() -> set[str]:
    """Return the paths of all objects on the reference pages."""
    pages = "\n".join(text(page) for page in (ROOT / "docs" / "reference").glob("*.md"))
    return set(re.findall(r"^::: ([\w.]+)", pages + "\n" + generate("errors"), re.MULTILINE))


# ---- Python -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "module",
    [
        *("glcb", "glcb.bandit", "glcb.policies", "glcb.tasks", "glcb.bench", "glcb.client", "glcb.evaluate"),
        "glcb.route",
        *(f"glcb.integrations.{name}" for name in ("coba", "gymnasium", "mlflow", "openfeature")),
        *(f"glcb.integrations.{name}" for name in ("opentelemetry", "ray", "sklearn")),
    ],
)
def test_every_public_name_is_on_a_reference_page(module: str) -> None:
    documented = {path.rpartition(".")[2] for path in directives()}
    assert set(optional(module).__all__) - documented - NOT_DOCUMENTED - INTERNAL == set()


INTERNAL = {"BanditConfig", "GLCBPaper", "LinFullPost", "settings_table"}
"""Exported for other packages of the project; documented as policies by name, or as tables."""


@pytest.mark.parametrize("path", sorted(directives()))
def test_everything_on_a_reference_page_exists_and_has_a_docstring(path: str) -> None:
    name, _, attribute = path.rpartition(".")
    module = optional(name)
    assert attribute in module.__all__
    assert inspect.getdoc(getattr(module, attribute))


def test_the_parameter_table_has_exactly_the_parameters_of_bandit() -> None:
    table = re.findall(r"^\| `(\w+)` \|", generate("bandit-parameters"), re.MULTILINE)
    assert set(table) == set(inspect.signature(glcb.Bandit).parameters)


def test_the_settings_table_has_exactly_the_settings_of_glcb() -> None:
    table = re.findall(r"^\| `(\w+)` \|", generate("glcb-settings"), re.MULTILINE)
    common = {"arms", "features", "rewards", "seed", "settings"}
    assert set(table) == set(inspect.signature(glcb.GLCB).parameters) - common


def test_the_pages_list_all_policies_and_studies() -> None:
    listed = re.findall(r"^\| `([\w-]+)` \|", text(ROOT / "docs" / "policies.md"), re.MULTILINE)
    assert set(listed) == {each for each in registry.names() if not each.startswith("running")}
    listed = re.findall(r"^\| `([\w-]+)` \|", text(ROOT / "docs" / "benchmarks.md"), re.MULTILINE)
    assert set(listed) == set(studies.names())


# ---- command line -----------------------------------------------------------------------------------


def commands() -> dict[str, set[str]]:
    """Return every command, such as ``"keys add"``, with its flags."""
    group = typer.main.get_command(app)
    result: dict[str, set[str]] = {}
    stack = [("", group)]
    while stack:
        path, command = stack.pop()
        result[path] = {flag for parameter in command.params for flag in parameter.opts}
        for child, below in getattr(command, "commands", {}).items():
            stack.append((f"{path} {child}".strip(), below))
    return result


def test_every_command_and_flag_is_in_the_reference() -> None:
    page = generate("cli")
    for command, flags in commands().items():
        heading = f"glcb {command}".strip()
        section = re.search(rf"^#+ {heading}\n(.*?)(?=^#|\Z)", page, re.MULTILINE | re.DOTALL)
        assert section, command
        assert [flag for flag in flags if flag.startswith("--") and flag not in section[1]] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_and_flags_in_the_text_exist(page: Path) -> None:
    known = commands()
    for line in re.findall(r"(?:^    (?:\w+=\S+ )*|`)glcb ([a-z][^`\n#]*)", text(page), re.MULTILINE):
        words = line.split()
        pair, single = " ".join(words[:2]), words[0]
        command = pair if pair in known else single
        assert command in known, line
        for flag in re.findall(r"(?<!\S)--[a-z-]+", line):
            assert flag in known[command] | {"--help", "--version"}, line


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_make_targets_in_the_text_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", text(ROOT / "Makefile"), re.MULTILINE))
    used = set(re.findall(r"(?:^    (?:\w+=\S+ )?|`(?:\w+=\S+ )?)make ([a-z-]+)", text(page), re.MULTILINE))
    assert used - targets == set()


# ---- HTTP and service -------------------------------------------------------------------------------


def test_every_setting_of_the_service_is_in_the_reference() -> None:
    table = re.findall(r"^\| `(\w+)` \|", generate("service-settings"), re.MULTILINE)
    assert sorted(table) == sorted({*ServiceSettings.__struct_fields__} - {*Limits.__struct_fields__})


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_settings_of_the_service_in_the_text_exist(page: Path) -> None:
    known = set(ServiceSettings.__struct_fields__)
    content = text(page)
    used = set(re.findall(r"--set (\w+)=", content)) - {"NAME"}
    used |= {each.lower() for each in re.findall(r"\bGLCB_SERVE_([A-Z_]+)", content)} - {"name"}
    used |= set(re.findall(r"`(?!glcb_)(\w+_seconds)`", content))  # the others are metrics
    assert used - known == set()


def test_the_service_reference_lists_all_error_codes() -> None:
    page = text(ROOT / "docs" / "reference" / "service.md")
    rows = re.findall(r"^\| (\d{3}) \| (.*) \|$", page, re.MULTILINE)
    documented = {(code, int(status)) for status, codes in rows for code in re.findall(r"`([a-z_]+)`", codes)}
    assert {(code, error.status) for code, error in ERROR_CODES.items()} - documented == set()
    assert {code for code, _ in documented} == set(ERROR_CODES)


# ---- files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_paths_and_links_in_the_text_exist(page: Path) -> None:
    content = text(page)
    for path in re.findall(r"`((?:src|tests|docs|examples|results|benchmarks)/[\w/.-]+)`", content):
        assert (ROOT / path).exists() or path.startswith(("benchmarks/out", "results/mine")), path
    for module in re.findall(r"`?python -m (benchmarks[\w.]*)", content):
        path = ROOT / module.replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), module
    for link in re.findall(r"\]\(([^)#:\s]+)(?:#[\w-]+)?\)", content):
        assert (page.parent / link).exists(), link


def test_paths_on_the_architecture_page_exist() -> None:
    content = text(ROOT / "docs" / "architecture.md")
    tables, walks = content.split("## The path of a decision")
    for path in re.findall(r"`([\w/]+(?:\.py|/))`", walks):
        assert ((ROOT if path.startswith("tests/") else SOURCE) / path).exists(), path
    packages = re.findall(r"^\| `([\w/]+)/?` \|", tables, re.MULTILINE)
    assert len(packages) > 15
    for path in packages:
        assert (SOURCE / path).is_dir(), path


@pytest.mark.parametrize(
    "sentence",
    re.findall(r"`[\w.]+`[^`\n]{0,12}(?: in `[\w/]+\.py`)", text(ROOT / "docs" / "architecture.md")),
)
def test_names_on_the_architecture_page_exist(sentence: str) -> None:
    name, path = re.findall(r"`([^`]+)`", sentence)
    pattern = rf"^\s*(?:(?:async )?def |class |){name.rpartition('.')[2]}\b"
    assert re.search(pattern, text(SOURCE / path), re.MULTILINE), sentence


def test_generated_pages_use_every_generator() -> None:
    used = {each for page in DOCS for each in re.findall(r"<!-- generate: ([\w-]+) -->", text(page))}
    assert used == {*GENERATED, "errors"}


def test_nothing_installs_glcb_by_a_name_that_is_not_registered() -> None:
    """Whoever registers the name first could run code on the machines of our users."""
    programs = [*SOURCE.rglob("*.py"), *SOURCE.rglob("*.js"), *(ROOT / "examples").rglob("*.py")]
    for page in (*PAGES, *(ROOT / "docs").rglob("*.ipynb"), *programs):
        assert not re.search(r"pip install ['\"]?glcb\b", text(page)), name(page)
    assert install_command("ray") == "pip install '.[ray]' in a clone of the repository"
