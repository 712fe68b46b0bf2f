"""A clock that tests advance, and bandits that use it."""

from typing import Any

from glcb import Bandit

CONTEXT = {"country": "FR", "age": 31}


class ManualClock:
    """A clock whose time is set by the test."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def summary(bandit: Bandit) -> tuple[int, int, int, int]:
    """Return the numbers of decisions: all, rewarded, closed without a reward, pending."""
    counts = bandit.counts
    closed = counts["timed_out"] + counts["evicted"] + counts["removed"]
    assert counts["decisions"] == counts["rewarded"] + closed + counts["pending"]
    return counts["decisions"], counts["rewarded"], closed, counts["pending"]


def one_arm(clock: ManualClock, **arguments: Any) -> Bandit:
    """Return a bandit with one arm and a timeout of 60 seconds."""
    return Bandit(["only"], policy="ucb1", rewards=(0.0, 10.0), clock=clock, reward_timeout=60, **arguments)
