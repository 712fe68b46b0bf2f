"""Bandits whose time somebody else tells."""

from typing import Any

from glcb import Bandit

CONTEXT = {"country": "FR", "age": 31}


class Watch:
    """A clock that somebody else turns."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def counts(bandit: Bandit) -> tuple[int, int, int, int]:
    told = bandit.counts
    closed = told["timed_out"] + told["evicted"] + told["removed"]
    assert told["decisions"] == told["rewarded"] + closed + told["pending"]
    return told["decisions"], told["rewarded"], closed, told["pending"]


def one_arm(watch: Watch, **arguments: Any) -> Bandit:
    return Bandit(["only"], policy="ucb1", rewards=(0.0, 10.0), clock=watch, reward_timeout=60, **arguments)
