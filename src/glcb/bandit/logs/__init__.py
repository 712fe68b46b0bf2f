"""Logs of decisions and rewards, written by bandits or other systems."""

from glcb.bandit.logs.format import LogColumns
from glcb.bandit.logs.replay import LogReplay, LogReport, arms_in
from glcb.bandit.logs.writer import LogWriter

__all__ = ["LogColumns", "LogReplay", "LogReport", "LogWriter", "arms_in"]
