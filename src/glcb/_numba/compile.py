"""The one decorator for every compiled kernel."""

import inspect
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import FunctionType
from typing import Any, ParamSpec, TypeVar, cast

import numba
from numba.core.dispatcher import Dispatcher

P = ParamSpec("P")
R = TypeVar("R")

_OPTIONS: dict[str, Any] = {
    "nogil": True,  # other threads run while a kernel does
    "error_model": "numpy",
    # Sums may be reordered, so that they vectorize. The full fastmath would also let the compiler
    # assume that no NaN or infinity exists, and delete the checks for them.
    "fastmath": {"reassoc", "contract", "nsz"},
}

_digests: dict[object, str] = {}
"""Of each kernel, the digest of all that went into it."""


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` at its first call and keep the machine code on disk.

    What is kept is found by file, line and name of the kernel, and Numba notices when that file has changed.
    It does not notice when another one has, from which a kernel, an intrinsic, a constant or a named tuple
    was imported. So a digest of these is made part of the name. They must be imported by name, and kernels of
    the same file stand above those that call them.

    Arrays are copied in loops: to compile ``a[:] = b``, with all its errors, takes three seconds.

    A loop that adds up must not write to arrays as well. Where it does, the compiled code looks how far apart
    arrays lie in memory, and adds in another order if they are close: the last bits would depend on chance.
    """
    source = cast("FunctionType", function)
    digest = _digest(*map(_baked, (source.__globals__.get(name) for name in source.__code__.co_names)))
    source.__qualname__ = f"{source.__qualname__}_{digest}"
    try:
        compiled = numba.njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # no writable folder for the cache: compile anew in every process
        compiled = numba.njit(**_OPTIONS)(function)
    _digests[compiled] = _digest(digest, _content(source.__code__.co_filename))
    return cast("Callable[P, R]", compiled)


def _baked(value: object) -> str:
    """Return what a kernel that uses ``value`` takes from it."""
    if isinstance(value, Dispatcher):
        return _digests.get(value, "")
    code = getattr(inspect.unwrap(cast("Any", value)), "__code__", None)  # an intrinsic wraps a function
    return _content(code.co_filename) if code else repr(getattr(value, "_fields", value))


def _digest(*parts: str) -> str:
    return sha256("\n".join(parts).encode()).hexdigest()[:16]


@cache
def _content(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:  # no source, as in a zipped package: Numba keeps nothing on disk then
        return ""
