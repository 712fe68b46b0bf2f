"""Contextual bandits that learn online with gated linear networks.

``import glcb`` is fast: NumPy and Numba are imported with the first name that needs them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from glcb._errors import (
    ClosedDecision,
    DataError,
    DuplicateDecision,
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
    from glcb.bandit import Bandit, BanditDecision, Ranking
    from glcb.explain import Explanation
    from glcb.policies import (
        GLCB,
        UCB1,
        Decision,
        EpsilonGreedy,
        Estimates,
        LinTS,
        LinUCB,
        Policy,
        Settings,
        Uniform,
        make_policy,
    )

__all__ = [
    "GLCB",
    "UCB1",
    "Bandit",
    "BanditDecision",
    "ClosedDecision",
    "DataError",
    "Decision",
    "DuplicateDecision",
    "DuplicateReward",
    "EpsilonGreedy",
    "Estimates",
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
    "Ranking",
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
    "make_policy",
]

_LAZY = {
    "Bandit": "glcb.bandit",
    "BanditDecision": "glcb.bandit",
    "Decision": "glcb.policies",
    "EpsilonGreedy": "glcb.policies",
    "Estimates": "glcb.policies",
    "Explanation": "glcb.explain",
    "GLCB": "glcb.policies",
    "LinTS": "glcb.policies",
    "LinUCB": "glcb.policies",
    "Policy": "glcb.policies",
    "Ranking": "glcb.bandit",
    "Settings": "glcb.policies",
    "UCB1": "glcb.policies",
    "Uniform": "glcb.policies",
    "make_policy": "glcb.policies",
}
"""The modules of the names that are imported on first use."""


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'glcb' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
