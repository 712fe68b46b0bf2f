"""Lift over random assignment, from all decisions, with a confidence interval that is valid at all times.

The lift of a decision is the expected reward of the bandit's choice probabilities minus that of uniformly
random assignment, in the same context. Every decision estimates its own lift: if the arm was chosen with
probability b (the holdout included), would have been chosen with probability p by the bandit and u by random
assignment, then (p − u) / b × (reward − center) is unbiased for it, for any center known before the arm was
drawn. The center, a running mean of the rewards, only reduces the variance. So does the model: its recorded
predictions q of all arms give the lift that it predicts, Σ (p − u) q, and (p − u) / b × q of the chosen arm
estimates the same number, so that their difference, times any factor known before, can be added. The factor
is that of a regression on the past, between 0 (the predictions are useless) and 1 (a doubly robust estimate).

The interval is an asymptotic confidence sequence (Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, *Time-
uniform central limit theory and asymptotic confidence sequences*, Annals of Statistics 2024), with a discrete
mixture as its boundary. For large numbers of decisions, and at all times simultaneously, it covers the mean
lift of the decisions so far with the stated confidence. The lift may change from decision to decision, as it
does while a bandit learns; bounds for a constant mean would not be valid. The variance is that of the
observed residuals, and not of the declared range of rewards. Few residuals with large weights determine it,
those of rare arms, and they may be missing by chance; while they are few, the variance that the residuals of
all arms predict is mixed in.

As long as fewer than two residuals determine the variance, the interval is an empirical Bernstein
confidence sequence (Howard, Ramdas, McAuliffe and Sekhon, *Time-uniform, nonparametric, nonasymptotic
confidence sequences*, Annals of Statistics 2021, theorem 4) of the importance-weighted terms (Waudby-Smith,
Wu, Ramdas, Karampatziakis and Mineiro, *Anytime-valid off-policy inference for contextual bandits*, 2022),
which is valid for any number of decisions, and wide.
"""

import math
from collections.abc import Sequence
from functools import cache
from statistics import NormalDist

import numpy as np
from msgspec import Struct

from glcb.evaluate.sequences import boundaries, boundary

CONFIDENCE = 0.95
MAX_WEIGHT = 100.0
"""Decisions with a larger weight on any arm are left out. A holdout of 1 % already prevents them."""


_PRIOR = 50.0
"""The variance that the residuals of all arms predict counts as much as this many residuals."""
_MIN_INFORMATIVE = 2.0
"""With fewer residuals that determine the variance, the interval is one that does not depend on it alone."""
_TYPICAL = 10_000
_MAX_MISSING = 1e9


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
    spread: float = 0.0
    """Sum of (p − u)² / b of all arms: the expected square of the weight."""
    modeled: float = 0.0
    """Sum of (p − u) q of all arms: the lift that the model predicts."""
    predicted: float = 0.0
    """The predicted reward q of the chosen arm."""


class LiftSums(Struct, array_like=True, gc=False):
    """Sums over the decisions whose reward is known, on a scale of rewards from 0 to 1."""

    n: int = 0
    rewards: float = 0.0
    lift: float = 0.0
    """Sum of the estimates of the lift."""
    squares: float = 0.0
    """Sum of the squared deviations of these estimates from what was expected before the draw."""
    random: float = 0.0
    """Sum of the estimates of the reward of random assignment."""
    below: float = 0.0
    """No deviation could have been lower than minus this."""
    above: float = 0.0
    """No deviation could have been higher than this."""
    held_out: int = 0
    """Decisions of the holdout among these."""
    fourth_powers: float = 0.0
    """Sum of the fourth powers of the deviations."""
    spread: float = 0.0
    """Sum of the expected squares of the weights."""
    residuals: float = 0.0
    """Sum of the squared residuals: rewards minus what was expected of them."""
    judged: int = 0
    """Decisions with a prediction that is used."""
    predicted: float = 0.0
    """Sum of these predictions."""
    products: float = 0.0
    """Sum of the products of weighted rewards and weighted predictions, both centered."""
    model_squares: float = 0.0
    """Sum of the squared weighted predictions, centered."""
    since: float | None = None
    """Time of the first of these decisions."""

    @property
    def center(self) -> float:
        """The running mean of the rewards, with one reward of 0 before them."""
        return self.rewards / (1 + self.n)

    def add(
        self,
        reward: float,
        weights: Weights,
        *,
        at: float = 0.0,
        means: "LiftSums | None" = None,
        held_out: bool = False,
        judged: bool = False,
    ) -> None:
        """Add a decision with its reward.

        Parameters
        ----------
        reward
            The reward, on a scale from 0 to 1.
        weights
            The weights of the decision.
        at
            The time of the decision.
        means
            The sums, of decisions before, that say what was expected of the reward. By default, these.
        held_out
            Whether the decision belongs to the holdout.
        judged
            Whether the prediction of the model is used.
        """
        past = self if means is None else means
        center = past.rewards / (1 + past.n)
        weight, expected = weights.lift, center
        modeled = factor = 0.0
        if judged:
            difference = weights.predicted - past.predicted / past.judged if past.judged else 0.0
            if past.products > 0:
                factor = min(past.products / past.model_squares, 1.0)
                expected += factor * difference
                modeled = factor * weights.modeled
            weighted = weight * difference
            self.judged += 1
            self.predicted += weights.predicted
            self.products += weight * (reward - center) * weighted
            self.model_squares += weighted * weighted
        lowest, highest = -weights.lowest, weights.highest
        least = 0.0 if factor else center
        most = 1.0 if factor else center  # with a factor, other arms have other predictions
        # Comparisons are faster than max, and this runs for every segment of a reward.
        if lowest * (1 - least) > self.below:
            self.below = lowest * (1 - least)
        if highest * most > self.below:
            self.below = highest * most
        if highest * (1 - least) > self.above:
            self.above = highest * (1 - least)
        if lowest * most > self.above:
            self.above = lowest * most
        residual = reward - expected
        deviation = weight * residual
        square = deviation * deviation
        self.n += 1
        self.held_out += held_out
        self.rewards += reward
        self.lift += modeled + deviation
        self.squares += square
        self.fourth_powers += square * square
        self.spread += weights.spread
        self.residuals += residual * residual
        self.random += center + weights.random * (reward - center)
        if self.since is None or at < self.since:
            self.since = at

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
        self.fourth_powers += other.fourth_powers
        self.spread += other.spread
        self.residuals += other.residuals
        self.judged += other.judged
        self.predicted += other.predicted
        self.products += other.products
        self.model_squares += other.model_squares
        if other.since is not None and (self.since is None or other.since < self.since):
            self.since = other.since

    @property
    def informative(self) -> float:
        """The effective number of deviations that determine their variance."""
        return self.squares**2 / self.fourth_powers if self.fourth_powers else 0.0

    @property
    def variance(self) -> float:
        """The estimated variance of the sum of the estimates."""
        if not self.n:
            return 0.0
        predicted = self.spread * self.residuals / self.n  # as if all arms had the same residuals
        share = _PRIOR / (_PRIOR + self.informative)
        return self.squares + share * max(predicted - self.squares, 0.0)

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
    squares, counts = np.array([one.squares for one in sums]), np.array([float(one.n) for one in sums])
    below = boundaries(squares, np.array([one.below for one in sums]), error).tolist()
    above = boundaries(squares, np.array([one.above for one in sums]), error).tolist()
    normal = boundaries(counts, np.zeros(len(sums)), error).tolist()
    return [_interval(*each) for each in zip(sums, below, above, normal, strict=True)]


def _interval(sums: LiftSums, below: float, above: float, normal: float) -> tuple[float, float] | None:
    if not sums.n:
        return None
    if sums.informative >= _MIN_INFORMATIVE:
        below = above = normal * math.sqrt(sums.variance / sums.n)
    return max((sums.lift - below) / sums.n, -1.0), min((sums.lift + above) / sums.n, 1.0)


def missing_decisions(
    sums: LiftSums, interval: tuple[float, float] | None, confidence: float = CONFIDENCE
) -> int | None:
    """Return about how many more decisions the interval of a lift needs to exclude zero.

    Parameters
    ----------
    sums
        The sums.
    interval
        The interval now.
    confidence
        The confidence level.

    Returns
    -------
    int or None
        The number if the lift and the variance stay as they are, rounded up to two significant digits; None
        without an interval, or if there is no lift.
    """
    if interval is None:
        return None
    if not interval[0] <= 0 <= interval[1]:
        return 0
    needed = _standard_errors((1 - confidence) / 2) ** 2 * sums.variance
    if needed >= _MAX_MISSING * sums.lift**2 / sums.n:
        return None
    total = needed / sums.lift**2 * sums.n
    if sums.informative < _MIN_INFORMATIVE:  # then the interval does not yet follow the variance
        total = max(total, sums.n * _MIN_INFORMATIVE / max(sums.informative, 1.0))
    missing = max(math.ceil(total) - sums.n, 1)
    unit: int = 10 ** max(len(str(missing)) - 2, 0)
    return -(-missing // unit) * unit


@cache
def _standard_errors(error: float) -> float:
    """Return the width of an interval in standard errors; it hardly depends on the number of decisions."""
    return boundary(_TYPICAL, 0.0, error) / math.sqrt(_TYPICAL)
