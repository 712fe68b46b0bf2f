"""Logs of decisions and rewards: what a bandit writes, and what it can learn from."""

from glcb.bandit.logs.reader import Layout
from glcb.bandit.logs.replay import Learner, arms_in
from glcb.bandit.logs.report import LogReport
from glcb.bandit.logs.writer import LogFile

__all__ = ["Layout", "Learner", "LogFile", "LogReport", "arms_in"]
