"""The one decorator for every compiled kernel."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")

_OPTIONS: dict[str, Any] = {
    "nogil": True,  # other threads run while a kernel does
    "error_model": "numpy",
    # Sums may be reordered, so that they vectorise. The full fastmath would also let the compiler
    # assume that no NaN or infinity exists, and delete the checks for them.
    "fastmath": {"reassoc", "contract", "nsz"},
}

_sources: dict[object, frozenset[str]] = {}
"""The files from which each kernel is made: its own, and those of the kernels that it calls."""


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` at its first call and keep the machine code on disk.

    A kernel from another file must be imported by its name, so that a change of that file is noticed here.

    Arrays are copied in loops: to compile ``a[:] = b``, with all its errors, takes three seconds.

    A loop that adds up must not write to arrays as well. Where it does, the compiled code looks how far apart
    arrays lie in memory, and adds in another order if they are close: the last bits would depend on chance.
    """
    try:
        compiled = numba.njit(cache=True, **_OPTIONS)(function)
        _drop_outdated(compiled)
    except (RuntimeError, OSError):  # no writable folder for the cache: compile anew in every process
        compiled = numba.njit(**_OPTIONS)(function)
    return cast("Callable[P, R]", compiled)


def _drop_outdated(compiled: Any) -> None:
    """Remove what was kept on disk if a file that went into it has changed since.

    Numba notices by itself when a kernel's own file has changed, but not when that of another one has.
    """
    function = compiled.py_func
    code = function.__code__
    called = (function.__globals__.get(name) for name in code.co_names)
    others = frozenset[str]().union(*(_sources.get(kernel, ()) for kernel in called if callable(kernel)))
    _sources[compiled] = others | {code.co_filename}
    if others <= {code.co_filename}:
        return
    changed = max(Path(source).stat().st_mtime for source in others)
    name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}-{code.co_firstlineno}"
    for index in Path(compiled.stats.cache_path).glob(f"{name}.*.nbi"):
        if index.stat().st_mtime < changed:
            index.unlink()
