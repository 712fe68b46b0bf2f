"""Kernels call each other, and cached machine code is recompiled when anything it depends on changes."""

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from numba.core.compiler_lock import global_compiler_lock
from numba.core.errors import TypingError
from numba.core.registry import CPUDispatcher

from glcb._numba.subroutine import jit

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


LINKED = """
from errors import inner, outer
print(outer(1.0), len(outer.signatures), sum(outer.stats.cache_hits.values()))
print(inner._numba_type_.dispatcher is inner)
"""


def links(folder: Path, changed_internals: str = "") -> list[str]:
    """Return what a new process prints in which Numba has other internals."""
    (folder / "errors.py").write_text(ERROR)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, "-c", changed_internals + CALLS + LINKED]
    return subprocess.check_output(command, cwd=folder, env=environment, text=True).splitlines()


def test_kernels_link_subroutines(tmp_path: Path) -> None:
    *_, links_machine_code = links(tmp_path)
    assert links_machine_code == "False"


@pytest.mark.parametrize(
    "changed_internals",
    [
        pytest.param("from numba.core import typed_passes as t; del t.NativeLowering", id="a name is gone"),
        pytest.param(
            "from numba.core import compiler_machinery as m; m.register_pass = lambda: None",
            id="a signature differs",
        ),
        pytest.param(
            "from numba.core.compiler import _LowerResult as L; L._replace = None",
            id="subroutines do not compile",
        ),
    ],
)
def test_kernels_work_when_the_internals_of_numba_change(tmp_path: Path, changed_internals: str) -> None:
    for hits in (0, 1):
        assert links(tmp_path, changed_internals) == [
            "too large 3.0",
            "too large 3.0",
            f"2.0 1 {hits}",
            "True",
        ]


class Interrupted(BaseException):
    """Raised by the handler of a signal."""


@pytest.fixture
def interrupting(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Send a signal whenever Numba starts to load or compile a function; return the steps that follow it."""
    steps: list[str] = []
    usual = CPUDispatcher.compile

    def compiled(self: CPUDispatcher, signature: Any) -> object:
        os.kill(os.getpid(), signal.SIGALRM)
        for _ in range(10_000):  # a handler runs in the main thread between any two of these
            pass
        steps.append("interrupted")
        result = usual(self, signature)
        steps.append("loaded")
        return result

    def interrupt(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    monkeypatch.setattr(CPUDispatcher, "compile", compiled)
    yield steps
    signal.signal(signal.SIGALRM, before)


def test_an_interrupt_is_raised_after_the_kernel_is_loaded(interrupting: list[str]) -> None:
    plus_one = jit()(lambda x: x + 1)
    with pytest.raises(Interrupted):
        plus_one(1.0)
    assert interrupting == ["interrupted", "loaded"]
    assert plus_one(1.0) == 2.0
    assert interrupting == ["interrupted", "loaded"], "a kernel that is loaded is called directly"
    assert gc.isenabled()


def test_a_kernel_that_cannot_be_compiled_raises_its_error() -> None:
    with pytest.raises(TypingError):
        jit()(lambda x: x + "text")(1.0)


def test_a_kernel_is_compiled_within_the_compilation_of_another_function() -> None:
    with global_compiler_lock:  # as in a function of the user that calls a kernel
        assert jit()(lambda x: x + 2)(1.0) == 3.0
