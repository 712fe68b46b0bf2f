"""Contextual bandits that learn online, from gated linear networks."""

from importlib import import_module
from typing import TYPE_CHECKING

from glcb._errors import (
    ClosedDecision,
    DataError,
    DuplicateReward,
    GlcbError,
    InvalidContext,
    InvalidInput,
    InvalidReward,
    InvalidSettings,
    LogError,
    MissingExtra,
    ModelFileError,
    NotRunning,
    NotSupported,
    ResultsError,
    ServiceError,
    ServiceUnavailable,
    StorageError,
    Unauthorized,
    UnknownArm,
    UnknownDecision,
    UnknownExperiment,
)
from glcb._version import __version__

if TYPE_CHECKING:
    from glcb.bandit import Bandit, BanditDecision
    from glcb.explain import Explanation
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
    "Bandit",
    "BanditDecision",
    "ClosedDecision",
    "DataError",
    "Decision",
    "DuplicateReward",
    "EpsilonGreedy",
    "Explanation",
    "GlcbError",
    "InvalidContext",
    "InvalidInput",
    "InvalidReward",
    "InvalidSettings",
    "LinTS",
    "LinUCB",
    "LogError",
    "MissingExtra",
    "ModelFileError",
    "NotRunning",
    "NotSupported",
    "Policy",
    "ResultsError",
    "ServiceError",
    "ServiceUnavailable",
    "Settings",
    "StorageError",
    "Unauthorized",
    "Uniform",
    "UnknownArm",
    "UnknownDecision",
    "UnknownExperiment",
    "__version__",
]


def __getattr__(name: str) -> object:
    """Load bandits and policies, and with them NumPy and Numba, when the first of them is asked for."""
    if name in __all__:
        room = "bandit" if name.startswith("Bandit") else "explain" if name == "Explanation" else "policies"
        return getattr(import_module(f"glcb.{room}"), name)
    raise AttributeError(f"module 'glcb' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
