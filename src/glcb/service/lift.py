"""Lift over random assignment, with a confidence interval that is valid at all times.

Each group's mean reward gets a confidence sequence: the empirical Bernstein bound of Howard, Ramdas,
McAuliffe and Sekhon (*Time-uniform, nonparametric, nonasymptotic confidence sequences*, Annals of Statistics
2021, theorem 4) with their stitched boundary. With the stated confidence, and at all times simultaneously, it
covers the mean of the expected rewards so far. The expected reward may change from decision to decision, as
it does while a bandit learns; bounds for a constant mean would not be valid. Each group uses half of the
error probability.
"""

import math

from msgspec import Struct

CONFIDENCE = 0.95

_START = 10.0
"""The bound is tight above this sum of squares (m in the paper)."""
_GROWTH = 2.0
"""Ratio of consecutive epochs of the boundary (η)."""
_POWER = 1.4
"""How fast the error probability of the epochs decreases (s)."""
_ZETA = 3.105547
"""Riemann's ζ(s): it makes the error probabilities of all epochs add up to the total."""
_K1 = (_GROWTH**0.25 + _GROWTH**-0.25) / math.sqrt(2)
_K2 = (math.sqrt(_GROWTH) + 1) / 2


class Group(Struct):
    """The rewards of the bandit or of the holdout, on a scale from 0 to 1."""

    n: int = 0
    total: float = 0.0
    squares: float = 0.0
    """Sum of the squared differences between each reward and the mean of those before it."""

    def add(self, reward: float) -> None:
        """Add a reward."""
        self.squares += (reward - (0.5 + self.total) / (1 + self.n)) ** 2
        self.n += 1
        self.total += reward

    @property
    def mean(self) -> float | None:
        """The mean reward, or None without any."""
        return self.total / self.n if self.n else None

    def radius(self, error: float) -> float:
        """Return a bound of the error of the mean, exceeded at any time with at most this probability."""
        return _boundary(self.squares, error / 2) / self.n if self.n else math.inf


def _boundary(squares: float, error: float) -> float:
    """Return a bound of the sum of deviations, exceeded at any time with at most this probability."""
    v = max(squares, _START)
    epochs = math.log(v / _START) / math.log(_GROWTH)
    level = _POWER * math.log(epochs + 1) + math.log(_ZETA) - math.log(error)
    return math.sqrt(_K1**2 * v * level + (_K2 * level) ** 2) + _K2 * level


def interval(bandit: Group, holdout: Group, confidence: float = CONFIDENCE) -> tuple[float, float] | None:
    """Return the confidence interval of the difference of the means; None if a group has no reward yet."""
    if not bandit.n or not holdout.n:
        return None
    ends = []
    for group in (bandit, holdout):
        radius, mean = group.radius((1 - confidence) / 2), group.total / group.n
        ends.append((max(mean - radius, 0.0), min(mean + radius, 1.0)))
    return ends[0][0] - ends[1][1], ends[0][1] - ends[1][0]
