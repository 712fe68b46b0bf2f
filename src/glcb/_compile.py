"""The one decorator for every compiled kernel."""

from collections.abc import Callable
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


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` at its first call and keep the machine code on disk.

    Numba notices a change of a kernel's own file only: kernels that call each other live in one file.

    A loop that adds up must not write to arrays as well. Where it does, the compiled code looks how far apart
    arrays lie in memory, and adds in another order if they are close: the last bits would depend on chance.
    """
    try:
        compiled = numba.njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # no writable folder for the cache: compile anew in every process
        compiled = numba.njit(**_OPTIONS)(function)
    return cast("Callable[P, R]", compiled)
