"""Contextual bandits that learn online, from gated linear networks."""

from importlib import import_module
from typing import TYPE_CHECKING

from glcb._errors import (
    DataError,
    GlcbError,
    InvalidContext,
    InvalidInput,
    InvalidReward,
    InvalidSettings,
    MissingExtra,
    ModelFileError,
    ResultsError,
    UnknownArm,
)
from glcb._version import __version__

if TYPE_CHECKING:
    from glcb.policies import (
        GLCB,
        UCB1,
        Decision,
        EpsilonGreedy,
        LinTS,
        LinUCB,
        Policy,
        Settings,
        Uniform,
    )

__all__ = [
    "GLCB",
    "UCB1",
    "DataError",
    "Decision",
    "EpsilonGreedy",
    "GlcbError",
    "InvalidContext",
    "InvalidInput",
    "InvalidReward",
    "InvalidSettings",
    "LinTS",
    "LinUCB",
    "MissingExtra",
    "ModelFileError",
    "Policy",
    "ResultsError",
    "Settings",
    "Uniform",
    "UnknownArm",
    "__version__",
]


def __getattr__(name: str) -> object:
    """Load the policies, and with them NumPy and Numba, when the first of them is asked for."""
    if name in __all__:
        return getattr(import_module("glcb.policies"), name)
    raise AttributeError(f"module 'glcb' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
