"""Kernels call each other, and cached machine code is recompiled when anything it depends on changes."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import pytest
from numba.core.caching import NullCache

from glcb._numba.compile import kernel, strict_kernel, warn_before_compiling

KERNEL = """
from glcb._numba.compile import kernel
{imports}
{constants}

@kernel
def {name}(x):
    return {result}
"""
SCRIPT = "from outer import outer\nprint(outer(1.0), sum(outer.stats.cache_hits.values()))"


def run(folder: Path) -> list[str]:
    """Run the outer kernel in a new process; return its result and the number of cache hits."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout.split()


def write(folder: Path, name: str, result: str, imports: str, constants: str = "") -> None:
    """Write a kernel with the modification time that files from an archive can have."""
    path = folder / f"{name}.py"
    path.write_text(KERNEL.format(name=name, result=result, imports=imports, constants=constants))
    os.utime(path, (0, 0))


def test_a_change_two_files_away_is_noticed(tmp_path: Path) -> None:
    write(tmp_path, "inner", "x + 1", "")
    write(tmp_path, "middle", "inner(x)", "from inner import inner")
    write(tmp_path, "outer", "middle(x)", "from middle import middle")
    assert run(tmp_path) == ["2.0", "0"]
    assert run(tmp_path) == ["2.0", "1"], "nothing changed, so it is not compiled again"
    write(tmp_path, "inner", "x + 2", "")
    assert run(tmp_path) == ["3.0", "0"]


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
    assert run(tmp_path) == ["2.0", "0"]
    assert run(tmp_path) == ["2.0", "1"]
    (tmp_path / "machine.py").write_text(INTRINSIC.format(2))
    assert run(tmp_path) == ["3.0", "0"]


def test_a_change_of_an_imported_constant_or_named_tuple_is_noticed(tmp_path: Path) -> None:
    pair = "from typing import NamedTuple\nclass Pair(NamedTuple):\n    {}: float\n    {}: float\nSTEP = {}"
    write(tmp_path, "inner", "x", "", pair.format("a", "b", 1))
    write(tmp_path, "outer", "Pair(x, 5.0).a + STEP", "from inner import STEP, Pair")
    assert run(tmp_path) == ["2.0", "0"]
    write(tmp_path, "inner", "x", "", pair.format("a", "b", 2))
    assert run(tmp_path) == ["3.0", "0"]
    write(tmp_path, "inner", "x", "", pair.format("b", "a", 2))
    assert run(tmp_path) == ["7.0", "0"]
    assert run(tmp_path) == ["7.0", "1"]


ERROR = """
from glcb._numba.compile import kernel

@kernel
def inner(x):
    if x > 1:
        raise ValueError("too large", x)
    return x

@kernel
def outer(x):
    return inner(x) + 1
"""
CALLS = """
from errors import inner, outer
assert (outer(1.0), inner(1.0)) == (2.0, 1.0)
for function in (outer, inner):
    try:
        function(3.0)
    except ValueError as error:
        print(*error.args)
"""


def test_an_error_in_an_inner_kernel_reaches_the_caller(tmp_path: Path) -> None:
    (tmp_path / "errors.py").write_text(ERROR)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-c", CALLS]
    for _ in ("compiled", "loaded from the cache"):
        printed = subprocess.check_output(command, cwd=tmp_path, env=environment, text=True)
        assert printed == "too large 3.0\ntoo large 3.0\n"


def test_a_kernel_works_without_a_writable_cache(tmp_path: Path) -> None:
    (tmp_path / "errors.py").write_text(ERROR)
    no_folder = "from numba.core import caching\ncaching.CacheImpl._locator_classes = []\n"
    subprocess.run([sys.executable, "-c", no_folder + CALLS], cwd=tmp_path, check=True)
    assert not list(tmp_path.rglob("*.nb?"))


WARNING = """
import gc, logging, os, signal, subprocess, sys
gc_before = gc.isenabled(), gc.get_freeze_count(), gc.get_threshold(), sys.getswitchinterval()
handlers = [signal.getsignal(one) for one in signal.valid_signals()]
def forbidden(*_, **__):
    raise AssertionError("a process was started")
subprocess.Popen = os.fork = forbidden
from glcb import Bandit
for _ in range(2):
    bandit = Bandit(["a", "b"])
    bandit.reward(bandit.decide({"age": 31}).id, 1)
after = gc.isenabled(), gc.get_freeze_count(), gc.get_threshold(), sys.getswitchinterval()
assert after == gc_before, (gc_before, after)
assert [signal.getsignal(one) for one in signal.valid_signals()] == handlers
"""


@pytest.mark.live
def test_a_bandit_has_no_side_effects_and_warns_once_that_it_compiles(tmp_path: Path) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    for warnings in (1, 0):
        ran = subprocess.run(
            [sys.executable, "-c", WARNING], env=environment, capture_output=True, text=True, check=True
        )
        assert ran.stderr.count("compiling kernels") == warnings, ran.stderr


def test_without_a_cache_folder_the_warning_says_what_to_set(caplog: pytest.LogCaptureFixture) -> None:
    warn_before_compiling(numba.njit(lambda x: x))
    assert "set NUMBA_CACHE_DIR" in caplog.text


@strict_kernel
def divide_strictly(x: float, y: float) -> float:
    return max(x, y) / 3.0


@kernel
def larger(x: float, y: float) -> float:
    return max(x, y) * 2.0


@kernel
def add(x: float, y: float) -> float:
    return x + larger(x, y) + divide_strictly(x, y)


KERNELS: tuple[Any, ...] = (divide_strictly, larger, add)
for own in KERNELS:
    own._cache = NullCache()  # code from the cache cannot be inspected


def flagged(compiled: Any) -> dict[str, bool]:
    """Return whether each operation of a compiled kernel may be reordered or fused."""
    compiled(1.0, 2.0)
    [code] = compiled.inspect_llvm().values()
    found = re.findall(r" (f(?:add|mul|div|cmp)) (reassoc nsz contract )?", code)
    return {name: any(flags for other, flags in found if other == name) for name, _ in found}


def test_a_strict_kernel_stays_strict_in_a_caller_that_is_not() -> None:
    flags = flagged(add)
    assert flags["fadd"]
    assert not flags["fdiv"]


def test_a_strict_kernel_does_not_share_functions_of_numba_with_others() -> None:
    assert flagged(larger)["fcmp"]
    assert not any(flagged(divide_strictly).values())


def test_a_strict_kernel_cannot_call_one_that_is_not() -> None:
    def caller(x: float, y: float) -> float:
        return larger(x, y)

    with pytest.raises(TypeError, match="caller is strict, but calls a kernel that is not"):
        strict_kernel(caller)
