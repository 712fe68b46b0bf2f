"""The decorator for compiled kernels, with an on-disk cache that detects changes in imported files."""

import inspect
import logging
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import FunctionType
from typing import Any, ParamSpec, TypeVar, cast

import numba
from llvmlite.binding import get_host_cpu_features, get_host_cpu_name

log = logging.getLogger("glcb")

P = ParamSpec("P")
R = TypeVar("R")

_OPTIONS: dict[str, Any] = {
    "nogil": True,  # other threads can run during a kernel
    "error_model": "numpy",
    "no_cfunc_wrapper": True,  # C code does not call kernels
    # A kernel that is not inlined exists once by itself and once in each caller. Which of these copies runs
    # depends on what the process has loaded before, and they may round differently.
    "forceinline": True,
}
# Allow sums to be reordered, so that they vectorize. Full fastmath would also let the compiler assume that
# NaN and infinity do not occur, and delete the checks for them.
_FASTMATH = {"reassoc", "contract", "nsz"}

_FOLDER = Path(__file__).parent
_MACHINERY = [str(_FOLDER / f"{name}.py") for name in ("arrays", "compile", "packed")]
"""The files that determine how every kernel is compiled."""


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` on its first call and cache the machine code on disk.

    Numba identifies a cached kernel by file, line and name, and recompiles it when that file changes. It does
    not detect changes in other files from which the kernel imports a kernel, an intrinsic, a constant or a
    named tuple. A digest of the imports is therefore made part of the kernel's name. They must be imported by
    name, and a kernel must be defined above the kernels of the same file that call it.

    Copy arrays in loops: compiling ``a[:] = b``, with all its error handling, takes three seconds.

    A loop that accumulates a sum must not also write to arrays. If it does, the compiled code checks at
    run time how far apart the arrays are in memory and adds in a different order when they are close, so
    the last bits of the sum would depend on memory addresses.
    """
    return _compile(function, strict=False)


def strict_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel like :func:`kernel` that returns the same bits on every processor.

    Every operation is rounded as IEEE 754 defines it, in the order in which it is written: sums are not
    reordered, and products are not fused with sums. Use only + − × ÷, square roots, comparisons and integer
    arithmetic: logarithms and the like depend on the library that computes them. A strict kernel calls only
    strict kernels. Any kernel can call it.
    """
    return _compile(function, strict=True)


def _compile(function: Callable[P, R], strict: bool) -> Callable[P, R]:
    source = cast("FunctionType", function)
    used = [source.__globals__.get(name) for name in source.__code__.co_names]
    if strict and any(getattr(value, "glcb_strict", True) is False for value in used):
        raise TypeError(f"{source.__qualname__} is strict, but calls a kernel that is not")
    digest = _digest(*map(_content, _MACHINERY), *map(_dependency, used))
    source.__qualname__ = f"{source.__qualname__}_{digest}"
    # A kernel inherits the option from its first caller unless it is set.
    options = {**_OPTIONS, "fastmath": False if strict else _FASTMATH}
    try:
        compiled: Any = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no writable cache folder: compile in every process
        compiled = numba.njit(**options)(function)
    compiled.glcb_strict = strict
    compiled.glcb_digest = _digest(digest, _content(source.__code__.co_filename))
    return cast("Callable[P, R]", compiled)


def cache_folder(compiled: Callable[..., object]) -> str | None:
    """Return the folder in which a kernel is cached, or None if no folder is writable."""
    path: str | None = cast("Any", compiled).stats.cache_path
    return path


def is_cached(compiled: Callable[..., object]) -> bool:
    """Return whether the cache on disk holds machine code of this version of a kernel."""
    with suppress(AttributeError, TypeError):  # no cache, or a version of Numba with other internals
        cache_file = cast("Any", compiled)._cache._cache_file
        # The index is written before the machine code.
        names = cache_file._load_index().values()
        return bool(names) and all(Path(cache_file._data_path(name)).exists() for name in names)
    return False


def fingerprint(*compiled: Callable[..., object]) -> str:
    """Return a text that identifies the machine code of kernels: sources, versions and processor."""
    digests = [str(cast("Any", one).glcb_digest) for one in compiled]
    processor = get_host_cpu_name(), get_host_cpu_features().flatten()
    return _digest(*digests, sys.version, numba.__version__, *processor)


@cache
def warn_before_compiling(compiled: Callable[..., object]) -> None:
    """Log a warning, at most once per process, unless a kernel is cached."""
    if not is_cached(compiled):
        log.warning(
            "compiling kernels, which takes about 20 seconds; %s",
            "no folder for the result is writable: set NUMBA_CACHE_DIR, or every process compiles again"
            if cache_folder(compiled) is None
            else "later processes on this machine load the result (`glcb warm` compiles ahead of time)",
        )


def _dependency(value: object) -> str:
    """Return the text that determines the contribution of ``value`` to a kernel that uses it."""
    digest = getattr(value, "glcb_digest", None)
    if digest is not None:  # a kernel
        return str(digest)
    code = getattr(inspect.unwrap(cast("Any", value)), "__code__", None)  # an intrinsic wraps its function
    return _content(code.co_filename) if code else repr(getattr(value, "_fields", value))


def _digest(*parts: str) -> str:
    return sha256("\n".join(parts).encode()).hexdigest()[:16]


@cache
def _content(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:  # no source, as in a zipped package: Numba does not cache then
        return ""
