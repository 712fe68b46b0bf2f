"""Compiled code that is kept on disk is never older than what it was made from."""

import os
import subprocess
import sys
from pathlib import Path

KERNEL = """
from glcb._numba.compile import kernel
{imports}
{constants}

@kernel
def {name}(x):
    return {result}
"""
ASK = "from outer import outer\nprint(outer(1.0), sum(outer.stats.cache_hits.values()))"


def ask(folder: Path) -> list[str]:
    """Return what the outer kernel says in a process of its own, and how often it came from the disk."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    asked = subprocess.run(
        [sys.executable, "-c", ASK], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return asked.stdout.split()


def write(folder: Path, name: str, result: str, imports: str, constants: str = "") -> None:
    """Write a kernel, as old as files from an archive can be."""
    path = folder / f"{name}.py"
    path.write_text(KERNEL.format(name=name, result=result, imports=imports, constants=constants))
    os.utime(path, (0, 0))


def test_a_change_two_files_away_is_noticed(tmp_path: Path) -> None:
    write(tmp_path, "inner", "x + 1", "")
    write(tmp_path, "middle", "inner(x)", "from inner import inner")
    write(tmp_path, "outer", "middle(x)", "from middle import middle")
    assert ask(tmp_path) == ["2.0", "0"]
    assert ask(tmp_path) == ["2.0", "1"], "nothing has changed: no need to compile"
    write(tmp_path, "inner", "x + 2", "")
    assert ask(tmp_path) == ["3.0", "0"]


INTRINSIC = """
from numba import types
from numba.extending import intrinsic

@intrinsic
def constant(typing_context):
    return types.float64(), lambda context, *_: context.get_constant(types.float64, {})
"""


def test_a_change_of_an_intrinsic_is_noticed(tmp_path: Path) -> None:
    write(tmp_path, "outer", "x + constant()", "from machine import constant")
    (tmp_path / "machine.py").write_text(INTRINSIC.format(1))
    assert ask(tmp_path) == ["2.0", "0"]
    assert ask(tmp_path) == ["2.0", "1"]
    (tmp_path / "machine.py").write_text(INTRINSIC.format(2))
    assert ask(tmp_path) == ["3.0", "0"]


def test_a_change_of_what_is_imported_beside_kernels_is_noticed(tmp_path: Path) -> None:
    pair = "from typing import NamedTuple\nclass Pair(NamedTuple):\n    {}: float\n    {}: float\nSTEP = {}"
    write(tmp_path, "inner", "x", "", pair.format("a", "b", 1))
    write(tmp_path, "outer", "Pair(x, 5.0).a + STEP", "from inner import STEP, Pair")
    assert ask(tmp_path) == ["2.0", "0"]
    write(tmp_path, "inner", "x", "", pair.format("a", "b", 2))
    assert ask(tmp_path) == ["3.0", "0"]
    write(tmp_path, "inner", "x", "", pair.format("b", "a", 2))
    assert ask(tmp_path) == ["7.0", "0"]
    assert ask(tmp_path) == ["7.0", "1"]
