"""What a made-up world consists of."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from glcb._api.requests import Settings

Context = dict[str, Any]


@dataclass(frozen=True)
class World:
    """Visitors, and what they make of the arm that they get.

    The world changes every ``era`` visitors, so that what was best is no longer: from era 0 to era 1, and
    back again.
    """

    name: str
    settings: Settings
    visitor: Callable[[Random], Context]
    """Makes up somebody who comes."""
    outcome: Callable[[Random, Context, str, int], float]
    """The reward, if this visitor gets this arm in this era. Arms that nobody foresaw are so-so."""
    era: int
    delay: float
    """Seconds until the reward is known, on average."""
    lost: float
    """The share of rewards that nobody ever hears of."""

    def era_of(self, visitor: int) -> int:
        """Return the era in which the visitor with this number comes, 0 or 1."""
        return visitor // self.era % 2


def chance(logit: float) -> float:
    """Return a probability from a sum of reasons for and against.

    >>> chance(0), round(chance(2), 2)
    (0.5, 0.88)
    """
    return 1 / (1 + math.exp(-logit))
