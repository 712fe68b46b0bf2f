"""Which package may import which, as described in docs/architecture.md."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent / "src" / "glcb"

BASIC = {"_arrays", "_errors", "_types", "_validation"}
"""Private modules without any knowledge of bandits."""

ALLOWED: dict[str, set[str]] = {
    # Private modules, from the bottom up.
    "_types": set(),
    "_version": set(),
    "_text": set(),
    "_html": set(),
    "_prompts": set(),
    "_errors": set(),
    "_arrays": set(),
    "_numba": {"_arrays"},
    "_files": set(),
    "_ray": {"_errors", "_version"},
    "_registry": {"_errors"},
    "_validation": {"_arrays", "_errors", "_numba", "_text", "_types"},
    "_forgetting": {"_arrays", "_numba", "_validation"},
    "_figures": {"_errors", "_files"},
    "_document": set(),
    "_environment": {"_version"},
    "_formats": {"_errors", "_version"},
    "_model_file": {"_arrays", "_environment", "_errors", "_files", "_formats"},
    "_api": {"_errors", "_html", "bandit.config"},
    # The algorithm: networks know nothing of arms or rewards, policies nothing of files, tasks or HTTP.
    "gln": {*BASIC, "_forgetting", "_numba"},
    "values": {*BASIC, "_numba"},
    "experts": {*BASIC, "_forgetting", "_numba"},
    "explore": {*BASIC, "_numba"},
    "explain": {*BASIC, "_figures", "_html"},
    "policies": {
        *BASIC,
        *("_forgetting", "_html", "_model_file", "_numba", "_registry"),
        *("experts", "explain", "explore", "gln", "values"),
    },
    "bandit": {
        *BASIC,
        *("_files", "_formats", "_html", "_model_file", "_numba", "_text", "_version"),
        *("explain", "explore", "policies"),
    },
    "evaluate": {
        *BASIC,
        *("_document", "_figures", "_files", "_html", "_model_file", "_ray", "_text", "_version"),
        *("bandit", "policies"),
    },
    "route": {*BASIC, "_model_file", "_prompts", "bandit", "explain"},
    # Benchmarks.
    "tasks": {*BASIC, "_prompts", "_registry", "_text", "_version", "bandit.encoding"},
    "bench": {
        *BASIC,
        *("_document", "_figures", "_files", "_formats", "_ray"),
        *("gln", "policies", "tasks"),
    },
    # The service and its client. The demo of the service sends its traffic through the client.
    "client": {*BASIC, "_api", "_files", "_version", "bandit.encoding", "bandit.config"},
    "service": set(),
    "service.config": {*BASIC},
    "service.events": set(),
    "service.errors": {*BASIC, "_api"},
    "service.process": {*BASIC, "bandit", "policies"},
    "service.storage": {
        *BASIC,
        *("_files", "_formats"),
        *("service.config", "service.errors", "service.events"),
    },
    "service.access": {*BASIC, "_api", "service.storage"},
    "service.core": {
        *BASIC,
        *("_api", "_environment", "_model_file"),
        *("bandit", "evaluate", "explore", "policies"),
        *("service.config", "service.errors", "service.events"),
    },
    "service.views": {
        *BASIC,
        *("_api", "_document"),
        *("bandit", "evaluate"),
        *("service.core", "service.errors", "service.process"),
    },
    "service.evaluations": {
        *BASIC,
        *("_api", "bandit", "evaluate", "policies"),
        *("service.config", "service.errors", "service.events"),
        *("service.core", "service.process", "service.storage"),
    },
    "service.engine": {
        *BASIC,
        *("_api", "_environment", "bandit"),
        *("service.config", "service.errors", "service.events"),
        *("service.core", "service.evaluations", "service.process", "service.storage", "service.views"),
    },
    "service.http": {
        *BASIC,
        *("_api", "_version", "bandit", "integrations", "policies"),
        *("service.config", "service.errors"),
        *("service.access", "service.core", "service.engine", "service.process", "service.storage"),
        "service.views",
    },
    "service.workers": {
        *BASIC,
        *("_api", "_ray", "integrations"),
        *("service.config", "service.errors"),
        *("service.access", "service.engine", "service.http", "service.process", "service.storage"),
    },
    "service.server": {
        *BASIC,
        "service.config",
        *("service.access", "service.engine", "service.http", "service.process", "service.storage"),
        "service.workers",
    },
    "service.demo": {
        *BASIC,
        *("_api", "client"),
        "service.config",
        *("service.access", "service.engine", "service.process", "service.server", "service.storage"),
    },
    # One module per foreign tool.
    "integrations": {
        *BASIC,
        *("__init__", "_api", "_ray", "_version", "bandit", "client", "evaluate", "route", "tasks"),
    },
    # Nothing uses the command line.
    "cli": {
        *BASIC,
        *("_figures", "_text", "_version"),
        *("bandit", "bench", "client", "evaluate", "policies", "tasks"),
        *("service.access", "service.config", "service.demo", "service.engine", "service.process"),
        *("service.server", "service.storage", "service.workers"),
    },
    "__main__": {"cli"},
    "__init__": {"_errors", "_version", "bandit", "explain", "policies"},
}
"""What each package or top-level module may import; ``package.module`` allows only that part of a package.

The packages and modules of the service have rows of their own.

docs/architecture.md has the same table, without the private modules that packages share.
"""

ONLY_FOR_TYPES: dict[str, set[str]] = {"_errors": {"bandit.logs"}}
"""Further imports that are allowed under ``if TYPE_CHECKING``."""

LAYERS: dict[str, set[str]] = {"bandit.encoding": {"bandit.bandit", "bandit.logs", "policies"}}
"""Modules that parts of a package must not import."""

SHARED_NAMES = {
    # Public results of the library, and the HTTP schemas that describe them.
    *("Decision", "Diagnostic", "Explanation", "Interval", "Point", "Ranking"),
    # An experiment in the service, and as its client shows it.
    "Experiment",
}
"""The class names that stand for two classes."""

THIRD_PARTY: dict[str, set[str]] = {
    "anyio": {"client"},
    "coba": {"integrations"},
    "gymnasium": {"integrations"},
    "httpx": {"client", "service.demo"},
    "jax": {"policies"},
    "litellm": {"integrations"},
    "mabwiser": {"policies"},
    "matplotlib": {"_figures", "bench", "evaluate"},
    "msgspec": {
        *("_api", "client"),
        *("service.config", "service.core", "service.demo", "service.engine", "service.evaluations"),
        *("service.http", "service.views", "service.workers"),
    },
    "mlflow": {"integrations"},
    "openfeature": {"integrations"},
    "opentelemetry": {"integrations"},
    "optax": {"policies"},
    "prometheus_client": {"service.engine", "service.process", "service.workers"},
    "pylibvw": {"policies"},
    "rich": {"bench", "cli"},
    "river": {"policies"},
    "sklearn": {"integrations"},
    "sqlalchemy": {"service.access", "service.storage", "service.workers"},
    "starlette": {"service.http", "service.workers"},
    "typer": {"cli"},
    "uvicorn": {"service.http", "service.server", "service.workers"},
    "vowpalwabbit": {"policies"},
    "xgboost": {"policies"},
}
"""The packages that use each optional or specialized dependency."""


class Import(NamedTuple):
    """One imported module or name."""

    module: str
    """The importing module, without ``glcb.``."""
    name: str
    """The full name of the imported module, or of the name imported from it."""
    line: int
    for_types: bool
    """Whether it stands under ``if TYPE_CHECKING``."""

    def __str__(self) -> str:
        return f"glcb.{self.module}, line {self.line}: {self.name}"


@cache
def modules() -> dict[str, ast.Module]:
    """Parse all modules of glcb, by name without ``glcb.``; a package has the name of its folder."""
    trees = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
        trees[name] = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return trees


def imports(module: str, tree: ast.Module) -> Iterator[Import]:
    """Yield all imports of a module, including those inside of functions."""
    for_types = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        for child in block.body
        for node in ast.walk(child)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"glcb.{module}, line {node.lineno}: imports are absolute"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            yield Import(module, name, node.lineno, id(node) in for_types)


@cache
def all_imports() -> tuple[Import, ...]:
    """Return the imports of all modules."""
    return tuple(one for module, tree in modules().items() for one in imports(module, tree))


def unit(module: str) -> str:
    """Return the package or top-level module that a module belongs to; in the service, that inside of it."""
    package, *inner = module.split(".")
    return f"service.{inner[0]}" if package == "service" and inner else package


def within(name: str, places: set[str]) -> bool:
    """Return whether a name without ``glcb.`` is one of the places or inside of one."""
    return any(name == place or name.startswith(f"{place}.") for place in places)


def internal(one: Import) -> str | None:
    """Return the imported name without ``glcb.``, or None if it is not part of glcb."""
    package, _, rest = one.name.partition(".")
    if package != "glcb":
        return None
    return rest if unit(rest) in ALLOWED else "__init__"


def test_the_table_lists_every_package() -> None:
    assert {unit(module) for module in modules()} == set(ALLOWED)


def test_the_table_is_that_of_the_documentation() -> None:
    page = (ROOT.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.split("## Which package may import which")[1].split("\n## ")[0]
    documented = {}
    for packages, imported in re.findall(r"^\| (`.*?) \| (.*?) \|$", section, re.MULTILINE):
        for package in re.findall(r"`([\w.]+)`", packages):
            documented[package] = set(re.findall(r"`([\w.]+)`", imported))
    packages = {package for package in ALLOWED if package.startswith("service.")}
    packages |= {path.name for path in ROOT.iterdir() if (path / "__init__.py").is_file()}
    shared = ALLOWED.keys() - packages
    assert documented == {package: ALLOWED[package] - shared for package in packages}


def test_the_documentation_describes_every_package_and_shared_module() -> None:
    page = (ROOT.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    paths = re.findall(r"`([\w/]+?)(?:/|\.py)`", page.split("## Which package may import which")[0])
    described = {path.replace("/", ".") for path in paths}
    assert ALLOWED.keys() - described == {"__init__", "__main__", "_version"}


def test_the_table_allows_no_package_that_is_not_imported() -> None:
    used = {(unit(one.module), internal(one)) for one in all_imports() if internal(one) is not None}
    unused = [
        f"{package}: {name}"
        for package, allowed in ALLOWED.items()
        for name in allowed - BASIC
        if not any(importer == package and within(imported or "", {name}) for importer, imported in used)
    ]
    assert not unused, "\n".join(unused)


def test_packages_import_only_what_the_table_allows() -> None:
    broken = []
    for one in all_imports():
        name, importer = internal(one), unit(one.module)
        if name is None or unit(name) == importer:
            continue
        allowed = ALLOWED[importer] | (ONLY_FOR_TYPES.get(importer, set()) if one.for_types else set())
        if not within(name, allowed):
            broken.append(str(one))
    assert not broken, "\n".join(broken)


def test_the_table_allows_no_import_cycles() -> None:
    graph = {package: {unit(name) for name in allowed} - {package} for package, allowed in ALLOWED.items()}
    while leaves := [package for package, needed in graph.items() if not needed & graph.keys()]:
        for package in leaves:
            del graph[package]
    assert not graph, f"cycle among {', '.join(graph)}"


def test_layers_inside_of_packages_are_respected() -> None:
    broken = [
        str(one)
        for one in all_imports()
        for layer, forbidden in LAYERS.items()
        if within(one.module, {layer}) and within(internal(one) or "", forbidden)
    ]
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("dependency", THIRD_PARTY)
def test_a_dependency_is_imported_only_where_the_table_allows(dependency: str) -> None:
    importers = {unit(one.module) for one in all_imports() if one.name.partition(".")[0] == dependency}
    assert importers == THIRD_PARTY[dependency]


def test_no_private_name_is_imported_from_another_package() -> None:
    broken = []
    for one in all_imports():
        name = internal(one)
        if name is None or unit(name) == unit(one.module):
            continue
        inner = name.removeprefix(unit(name)).split(".")
        if any(part.startswith("_") and not part.startswith("__") for part in inner):
            broken.append(str(one))
    assert not broken, "\n".join(broken)


def test_no_other_class_name_stands_for_two_classes() -> None:
    places: dict[str, list[str]] = {}
    for module, tree in modules().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(module)
    repeated = {name: found for name, found in places.items() if len(found) > 1}
    assert repeated.keys() == SHARED_NAMES, repeated


def test_no_object_uses_the_random_generator_of_another() -> None:
    broken = [
        f"glcb.{module}, line {node.lineno}: {ast.unparse(node)}"
        for module, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr == "_rng"
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    ]
    assert not broken, "\n".join(broken)


def test_decoders_are_made_when_a_module_is_imported() -> None:
    """Two threads that make the first decoder of a type at the same time can crash the process."""
    wrong = []
    for module, tree in modules().items():
        functions = [one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)]
        calls = [one for function in functions for one in ast.walk(function) if isinstance(one, ast.Call)]
        for call in calls:
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            examines = name == "Decoder" or (
                name == "decode" and any(keyword.arg == "type" for keyword in call.keywords)
            )
            if examines and module != "_api.decoders":  # whose callers are checked
                wrong.append(f"{module}:{call.lineno}")
            if name == "decoders_of":
                wrong.append(f"{module}:{call.lineno}")
    assert wrong == []


def test_every_package_and_module_has_a_docstring() -> None:
    for path in ROOT.rglob("*"):
        if path.is_dir() and any(path.glob("*.py")):
            assert (path / "__init__.py").is_file(), f"{path} has no __init__.py"
    missing = [
        module
        for module, tree in modules().items()
        if ast.get_docstring(tree) is None and module != "_version"
    ]
    assert not missing, f"without a docstring: {', '.join(missing)}"


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("glcb", ("numba", "jax", "xgboost", "httpx", "typer", "sqlalchemy")),
        ("glcb.client", ("numba", "numpy", "jax", "sqlalchemy", "starlette")),
        ("glcb.cli", ("numba", "jax", "matplotlib", "sqlalchemy", "starlette")),
    ],
)
def test_an_import_does_not_load_what_it_may_not_need(module: str, absent: tuple[str, ...]) -> None:
    program = f"import sys, {module}; print(*sorted(sys.modules.keys() & set({absent!r})))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []
