"""A bandit for the outside world: contexts as they come, named arms, exact propensities."""

from glcb.bandit.bandit import Bandit
from glcb.bandit.decision import BanditDecision
from glcb.bandit.logs import LogReport
from glcb.bandit.schema import FeatureReport, Schema

__all__ = ["Bandit", "BanditDecision", "FeatureReport", "LogReport", "Schema"]
