"""The versions and the processor on which the last bits of floating-point results depend."""

import os
import platform
from functools import cache
from hashlib import sha256
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numba
import numpy as np

from glcb._version import __version__

_config: Any = numba.config  # its attributes come from the environment


@cache
def environment() -> dict[str, str]:
    """Return everything that bit-identical results depend on."""
    return {
        "glcb": __version__,
        "numpy": np.__version__,
        "numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpu": _config.CPU_NAME or llvm.get_host_cpu_name(),
        "cpu_features": _features(),
    }


def _features() -> str:
    """Return a digest of the instructions that compiled code can use."""
    chosen = _config.CPU_FEATURES
    compiled = llvm.get_host_cpu_features().flatten() if chosen is None else chosen
    disabled = os.environ.get("NPY_DISABLE_CPU_FEATURES", "")
    return sha256(f"{compiled} {disabled}".encode()).hexdigest()[:16]
