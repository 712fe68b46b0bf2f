"""The public names of the package, and what importing it loads."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import glcb
import glcb.policies


def lazy_names() -> dict[str, str]:
    """Return the names that ``glcb`` imports for type checkers only, with their modules."""
    tree = ast.parse(Path(str(glcb.__file__)).read_text())
    (guarded,) = [node for node in tree.body if isinstance(node, ast.If)]
    return {
        alias.name: str(node.module)
        for node in guarded.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_all_public_names_are_listed_in_order_and_exist() -> None:
    def order(name: str) -> tuple[bool, bool, str]:  # that of ruff: constants, classes, functions
        return (not name.isupper(), not name[0].isupper(), name)

    assert glcb.__all__ == sorted(glcb.__all__, key=order)
    for name in glcb.__all__:
        assert getattr(glcb, name) is not None
    assert dir(glcb) == sorted(glcb.__all__)


def test_type_checkers_see_the_same_names_as_the_interpreter() -> None:
    assert lazy_names() == glcb._LAZY


def test_a_name_that_does_not_exist_raises_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Bandits'"):
        glcb.Bandits  # noqa: B018


@pytest.mark.parametrize("package", [glcb, glcb.policies], ids=lambda package: package.__name__)
def test_everything_public_has_a_docstring(package: object) -> None:
    for name in package.__all__:  # type: ignore[attr-defined]
        thing = getattr(package, name)
        if not inspect.isclass(thing) and not inspect.isfunction(thing):
            continue
        assert vars(thing).get("__doc__") or thing.__doc__, name
        if inspect.isclass(thing):
            for member, value in vars(thing).items():
                if not member.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
                    assert inspect.getdoc(getattr(thing, member)), f"{name}.{member}"


def loaded_by(program: str) -> set[str]:
    """Return the top-level packages that ``program`` loads in a fresh interpreter."""
    listing = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys; print(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return {name.split(".")[0] for name in listing.split()}


def test_importing_the_package_loads_neither_numpy_nor_numba() -> None:
    assert not loaded_by("import glcb; glcb.InvalidReward") & {"numpy", "numba"}


def test_a_policy_loads_numpy_and_numba_but_no_optional_package() -> None:
    loaded = loaded_by("import glcb; glcb.GLCB")
    assert {"numpy", "numba"} <= loaded
    assert not loaded & {"typer", "rich", "matplotlib", "jax", "optax", "pandas", "platformdirs"}


def test_the_command_line_shows_its_help_without_loading_numpy() -> None:
    assert not loaded_by("import glcb.cli") & {"numpy", "numba", "matplotlib", "jax"}


def test_a_bandit_has_a_small_surface() -> None:
    names = [name for name in dir(glcb.Bandit) if not name.startswith("_")]
    assert len(names) <= 20, "merge a method with another one, or make it private"
    assert glcb.Bandit.__mro__ == (glcb.Bandit, object)
