"""The versions and the processor on which the last bits of floating-point results depend."""

import os
import platform
from functools import cache
from hashlib import sha256
from importlib import metadata
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numba
import numpy as np

from glcb._version import __version__

_config: Any = numba.config  # its attributes come from the environment
_LIBRARIES = ("jax", "mabwiser", "optax", "river", "scikit-learn", "vowpalwabbit", "xgboost", "xgboost-cpu")
"""Libraries of some policies. Those not installed are omitted."""


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
        **{name: version for name in _LIBRARIES if (version := _version(name)) is not None},
    }


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _features() -> str:
    """Return a digest of the CPU instructions available to compiled code."""
    chosen = _config.CPU_FEATURES
    compiled = llvm.get_host_cpu_features().flatten() if chosen is None else chosen
    disabled = os.environ.get("NPY_DISABLE_CPU_FEATURES", "")
    return sha256(f"{compiled} {disabled}".encode()).hexdigest()[:16]
