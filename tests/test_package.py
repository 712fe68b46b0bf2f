"""The public surface, and what importing it costs."""

import subprocess
import sys

import glcb


def test_everything_public_is_listed_and_there() -> None:
    assert glcb.__all__ == sorted(
        glcb.__all__, key=lambda name: (not name.isupper(), name.startswith("_"), name)
    )
    for name in glcb.__all__:
        assert getattr(glcb, name) is not None
    assert dir(glcb) == sorted(glcb.__all__)


def loaded_by(program: str) -> set[str]:
    """Return the top-level packages that ``program`` loads in a fresh interpreter."""
    listing = subprocess.run(
        [sys.executable, "-c", f"{program}\nimport sys; print(*sys.modules)"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return {name.split(".")[0] for name in listing.split()}


def test_the_library_loads_numpy_and_numba_only() -> None:
    loaded = loaded_by("import glcb; glcb.GLCB")
    assert {"numpy", "numba"} <= loaded
    assert not loaded & {"typer", "rich", "matplotlib", "jax", "optax", "pandas", "platformdirs"}


def test_the_command_line_shows_its_help_without_loading_the_library() -> None:
    loaded = loaded_by("import glcb.cli")
    assert not loaded & {"numpy", "numba", "matplotlib", "jax"}
