"""Bandits for applications: contexts of any form, named arms, exact propensities.

The names are imported on first use, so that ``glcb.bandit.config`` can be imported without Numba.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glcb.bandit.bandit import Bandit
    from glcb.bandit.config import BanditConfig
    from glcb.bandit.decision import BanditDecision
    from glcb.bandit.encoding.schema import FeatureReport, Schema
    from glcb.bandit.logs.replay import LogReport
    from glcb.bandit.ranking import Ranking

__all__ = ["Bandit", "BanditConfig", "BanditDecision", "FeatureReport", "LogReport", "Ranking", "Schema"]

_MODULES = {
    "Bandit": "bandit",
    "BanditConfig": "config",
    "BanditDecision": "decision",
    "FeatureReport": "encoding.schema",
    "LogReport": "logs.replay",
    "Ranking": "ranking",
    "Schema": "encoding.schema",
}


def __getattr__(name: str) -> object:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
