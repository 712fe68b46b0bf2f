"""Lift over random assignment, from all decisions, with a confidence interval that is valid at all times.

The lift of a decision is the expected reward of the bandit's choice probabilities minus that of uniformly
random assignment, in the same context. Every decision estimates its own lift: if the arm was chosen with
probability b (the holdout included), would have been chosen with probability p by the bandit and u by random
assignment, then (p − u) / b × (reward − center) is unbiased for it, for any center known before the arm was
drawn. The center, a running mean of the rewards, only reduces the variance.

The interval is an empirical Bernstein confidence sequence (Howard, Ramdas, McAuliffe and Sekhon,
*Time-uniform, nonparametric, nonasymptotic confidence sequences*, Annals of Statistics 2021, theorem 4) of
these importance-weighted terms (Waudby-Smith, Wu, Ramdas, Karampatziakis and Mineiro, *Anytime-valid
off-policy inference for contextual bandits*, 2022), with a discrete mixture as its boundary. With the stated
confidence, and at all times simultaneously, it covers the mean lift of the decisions so far. The lift may
change from decision to decision, as it does while a bandit learns; bounds for a constant mean would not be
valid.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from msgspec import Struct

from glcb.evaluate.sequences import boundaries

CONFIDENCE = 0.95
MAX_WEIGHT = 100.0
"""Decisions with a larger weight on any arm are left out. A holdout of 1 % already prevents them."""


class Weights(Struct, array_like=True):
    """The importance weights of a decision."""

    lift: float
    """(p − u) / b of the chosen arm."""
    random: float
    """u / b of the chosen arm."""
    lowest: float
    """The smallest (p − u) / b of all arms."""
    highest: float
    """The largest (p − u) / b of all arms."""


class LiftSums(Struct, array_like=True, gc=False):
    """Sums over the decisions whose reward is known, on a scale of rewards from 0 to 1."""

    n: int = 0
    rewards: float = 0.0
    lift: float = 0.0
    """Sum of the estimates of the lift."""
    squares: float = 0.0
    """Sum of their squares."""
    random: float = 0.0
    """Sum of the estimates of the reward of random assignment."""
    below: float = 0.0
    """No estimate could have been lower than minus this."""
    above: float = 0.0
    """No estimate could have been higher than this."""
    held_out: int = 0
    """Decisions of the holdout among these."""

    @property
    def center(self) -> float:
        """The running mean of the rewards."""
        return (0.5 + self.rewards) / (1 + self.n)

    def add(
        self, reward: float, weights: Weights, center: float | None = None, held_out: bool = False
    ) -> None:
        """Add a decision with its reward.

        Parameters
        ----------
        reward
            The reward, on a scale from 0 to 1.
        weights
            The weights of the decision.
        center
            The center of the estimate, known before the arm was drawn. By default, the running mean.
        held_out
            Whether the decision belongs to the holdout.
        """
        if center is None:
            center = (0.5 + self.rewards) / (1 + self.n)
        deviation = reward - center
        estimate = weights.lift * deviation
        lowest, highest, rest = -weights.lowest, weights.highest, 1 - center
        # Comparisons are faster than max, and this runs for every segment of a reward.
        if lowest * rest > self.below:
            self.below = lowest * rest
        if highest * center > self.below:
            self.below = highest * center
        if highest * rest > self.above:
            self.above = highest * rest
        if lowest * center > self.above:
            self.above = lowest * center
        self.n += 1
        self.held_out += held_out
        self.rewards += reward
        self.lift += estimate
        self.squares += estimate * estimate
        self.random += center + weights.random * deviation

    def merge(self, other: "LiftSums") -> None:
        """Add the decisions of other sums."""
        self.n += other.n
        self.held_out += other.held_out
        self.rewards += other.rewards
        self.lift += other.lift
        self.squares += other.squares
        self.random += other.random
        self.below = max(self.below, other.below)
        self.above = max(self.above, other.above)

    def gained(self) -> float:
        """Return the rewards gained: the mean lift times the decisions of the bandit that inform it."""
        return self.lift / self.n * (self.n - self.held_out) if self.n else 0.0

    def fixed_interval(self, confidence: float = CONFIDENCE) -> tuple[float, float] | None:
        """Return the usual normal interval, valid only at one time that was chosen in advance."""
        if not self.n:
            return None
        radius = NormalDist().inv_cdf((1 + confidence) / 2) * math.sqrt(self.squares)
        return max((self.lift - radius) / self.n, -1.0), min((self.lift + radius) / self.n, 1.0)


def intervals(sums: Sequence[LiftSums], confidence: float = CONFIDENCE) -> list[tuple[float, float] | None]:
    """Return the interval of the mean lift of each of several sums, valid at all times."""
    error = (1 - confidence) / 2
    squares = np.array([one.squares for one in sums])
    below = boundaries(squares, np.array([one.below for one in sums]), error).tolist()
    above = boundaries(squares, np.array([one.above for one in sums]), error).tolist()
    return [
        (max((one.lift - down) / one.n, -1.0), min((one.lift + up) / one.n, 1.0)) if one.n else None
        for one, down, up in zip(sums, below, above, strict=True)
    ]
