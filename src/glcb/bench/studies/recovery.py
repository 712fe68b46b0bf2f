"""How rewards fall when the world changes, and when they are back."""

from dataclasses import dataclass

import numpy as np

from glcb._types import Float64

WINDOW = 200
"""Rewards are looked at in means of this many steps."""
ENOUGH = 0.9
"""Rewards are back when they are this share of what they were."""
_LEVEL = 0.1
"""What they were is measured over this share of all steps."""


@dataclass(frozen=True, eq=False)
class Course:
    """Rewards step by step, on a task that changes halfway."""

    earned: Float64
    best: Float64
    """What the best arm of every step brings."""

    @property
    def change(self) -> int:
        """The first step that is different."""
        return self.earned.size // 2

    @property
    def before(self) -> Float64:
        """The rewards of the last steps before the change."""
        return self.earned[self._level]

    @property
    def after(self) -> Float64:
        """The rewards from the change to the end."""
        return self.earned[self.change :]

    @property
    def share_before(self) -> float:
        """The rewards of the last steps before the change, as a share of the best possible."""
        return float(self.earned[self._level].sum() / self.best[self._level].sum())

    @property
    def _level(self) -> slice:
        return slice(self.change - max(1, round(_LEVEL * self.earned.size)), self.change)


def steps_until_back(course: Course) -> int | None:
    """Return how long after the change the share of the best possible is 90 % of what it was.

    That is the end of the first ``WINDOW`` steps in a row, all of them after the change, whose mean is so
    high; None if there are none. Where nothing was ever lost, it is the first of all.

    >>> ones = np.ones(2000)
    >>> steps_until_back(Course(np.repeat([1.0, 0.0, 1.0], [1000, 300, 700]), ones))
    480
    >>> steps_until_back(Course(np.repeat([1.0, 0.5], 1000), ones)) is None
    True
    """
    earned, best = (_sums_of_windows(part[course.change :]) for part in (course.earned, course.best))
    back = np.flatnonzero(earned >= ENOUGH * course.share_before * best - 1e-9)
    return int(back[0]) + WINDOW if back.size else None


def in_windows(course: Course) -> Float64:
    """Return the share of the best possible in each ``WINDOW`` steps; a rest at the end is left out."""
    whole = course.earned.size // WINDOW * WINDOW
    earned, best = (part[:whole].reshape(-1, WINDOW).sum(axis=1) for part in (course.earned, course.best))
    shares: Float64 = earned / best
    return shares


def _sums_of_windows(course: Float64) -> Float64:
    return np.convolve(course, np.ones(min(WINDOW, course.size)), "valid")
