"""What the bandit brings more than chance, with an interval that stays valid however often one looks.

Each group's mean reward gets a confidence sequence: the empirical Bernstein bound of Howard, Ramdas,
McAuliffe and Sekhon (*Time-uniform, nonparametric, nonasymptotic confidence sequences*, Annals of Statistics
2021, theorem 4) with their stitched boundary. At all times together, with the given confidence, it covers the
mean of what the rewards so far were expected to be. That may change from reward to reward, as it does while a
bandit learns; bounds for a constant mean would not do. Each group takes half of the error that is allowed.
"""

import math

from msgspec import Struct

CONFIDENCE = 0.95

_BEGIN = 10.0
"""The bound is tightest from this sum of squares on (m in the paper)."""
_GROWTH = 2.0
"""Pieces of the boundary end at powers of this (η)."""
_POWER = 1.4
"""How fast the error allowed to each piece falls (s)."""
_ZETA = 3.105547
"""Riemann's ζ of that power: the errors of all pieces add up to what is allowed."""
_K1 = (_GROWTH**0.25 + _GROWTH**-0.25) / math.sqrt(2)
_K2 = (math.sqrt(_GROWTH) + 1) / 2


class Group(Struct):
    """The rewards of a group, on a scale from 0 to 1."""

    n: int = 0
    total: float = 0.0
    squares: float = 0.0
    """Sum of the squared differences between each reward and the mean of those before it."""

    def add(self, reward: float) -> None:
        """Take one more reward."""
        self.squares += (reward - (0.5 + self.total) / (1 + self.n)) ** 2
        self.n += 1
        self.total += reward

    @property
    def mean(self) -> float | None:
        """The mean reward."""
        return self.total / self.n if self.n else None

    def radius(self, error: float) -> float:
        """Return how far the mean may be off: at no time ever further, but with this probability."""
        return _boundary(self.squares, error / 2) / self.n if self.n else math.inf


def _boundary(squares: float, error: float) -> float:
    """Return what a sum of differences with these squares stays below, but with this probability."""
    v = max(squares, _BEGIN)
    pieces = math.log(v / _BEGIN) / math.log(_GROWTH)
    level = _POWER * math.log(pieces + 1) + math.log(_ZETA) - math.log(error)
    return math.sqrt(_K1**2 * v * level + (_K2 * level) ** 2) + _K2 * level


def interval(bandit: Group, holdout: Group, confidence: float = CONFIDENCE) -> tuple[float, float] | None:
    """Return what the difference of the two means lies within; nothing if a group has no reward yet."""
    if not bandit.n or not holdout.n:
        return None
    ends = []
    for group in (bandit, holdout):
        radius, mean = group.radius((1 - confidence) / 2), group.total / group.n
        ends.append((max(mean - radius, 0.0), min(mean + radius, 1.0)))
    return ends[0][0] - ends[1][1], ends[0][1] - ends[1][0]
