"""A bandit for the outside world: contexts as they come, named arms, exact propensities."""

from glcb.bandit.bandit import Bandit
from glcb.bandit.decision import BanditDecision
from glcb.bandit.encoding.schema import FeatureReport, Schema
from glcb.bandit.logs import LogReport

__all__ = ["Bandit", "BanditDecision", "FeatureReport", "LogReport", "Schema"]
