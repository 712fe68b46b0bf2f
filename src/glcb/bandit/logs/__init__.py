"""Logs of decisions and rewards: what a bandit writes, and what it can learn from."""

from glcb.bandit.logs.file import LogFile
from glcb.bandit.logs.learning import Learner, arms_in
from glcb.bandit.logs.records import Layout
from glcb.bandit.logs.report import LogReport

__all__ = ["Layout", "Learner", "LogFile", "LogReport", "arms_in"]
