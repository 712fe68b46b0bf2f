"""Statistics over time: sums over periods, which become longer as they age.

The last two minutes are kept by the second, then minutes, hours, days and weeks follow. So a chart of the
first minutes and one of the last years have enough points, and the number of periods is bounded. A reward
belongs to the period of its decision, however late it arrives: a range of dates is a set of decisions.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import attrgetter
from statistics import NormalDist

import numpy as np
from msgspec import UNSET, Struct, UnsetType, field

from glcb.evaluate.sequences import boundaries
from glcb.service.core.open_decisions import OpenDecision
from glcb.service.lift import CONFIDENCE, LiftSums, Weights

MAX_ARMS = 100
"""If a period or a segment has more arms, it keeps the half with the most decisions."""
_MAX_TOTALS = 2000
"""As many arms have sums over all periods."""
_TIERS = ((1.0, 120), (60.0, 90), (3600.0, 336), (86_400.0, 400), (604_800.0, 260))
"""Seconds of the periods of each age, and how many of them are kept before the oldest ones are merged."""
_MONDAY = 345_600.0
"""Weeks begin on Mondays; the epoch was a Thursday."""
_start = attrgetter("start")


class ArmSums(Struct, array_like=True):
    """Decisions and rewards of an arm; rewards are on a scale from 0 to 1."""

    decisions: int = 0
    rewards: int = 0
    total: float = 0.0
    """Sum of the rewards."""
    squares: float = 0.0
    """Sum of their squared deviations, each from a center that was known before."""

    @property
    def center(self) -> float:
        """The running mean of the rewards."""
        return (0.5 + self.total) / (1 + self.rewards)

    def add(self, scaled: float, center: float) -> None:
        """Add a reward."""
        self.rewards += 1
        self.total += scaled
        self.squares += (scaled - center) ** 2

    def merge(self, other: "ArmSums") -> None:
        """Add other sums of the same arm."""
        self.decisions += other.decisions
        self.rewards += other.rewards
        self.total += other.total
        self.squares += other.squares


class MeanInterval(Struct, frozen=True):
    """A mean reward on a scale from 0 to 1, with its intervals."""

    mean: float
    low: float
    high: float
    """Ends of the interval that is valid at all times."""
    fixed_low: float
    fixed_high: float
    """Ends of the usual one, valid at a single time that was chosen in advance."""


def mean_intervals(sums: Sequence[ArmSums], confidence: float = CONFIDENCE) -> list[MeanInterval | None]:
    """Return the mean reward of each arm over its decisions, with its intervals; None without rewards.

    The interval is that of :mod:`glcb.evaluate.sequences`: valid at all times, even if the mean changes.
    """
    squares = np.array([one.squares for one in sums])
    radii = boundaries(squares, np.ones(len(sums)), (1 - confidence) / 2).tolist()
    normal = NormalDist().inv_cdf((1 + confidence) / 2)
    found: list[MeanInterval | None] = []
    for one, radius in zip(sums, radii, strict=True):
        if not one.rewards:
            found.append(None)
            continue
        mean, fixed = one.total / one.rewards, normal * one.squares**0.5 / one.rewards
        radius /= one.rewards
        found.append(
            MeanInterval(
                mean,
                max(mean - radius, 0.0),
                min(mean + radius, 1.0),
                max(mean - fixed, 0.0),
                min(mean + fixed, 1.0),
            )
        )
    return found


def most_chosen(arms: dict[str, ArmSums], count: int) -> dict[str, ArmSums]:
    """Return the sums of the arms with the most decisions."""
    return dict(sorted(arms.items(), key=lambda item: -item[1].decisions)[:count])


def count_choice(arms: dict[str, ArmSums], arm: str, limit: int = MAX_ARMS) -> dict[str, ArmSums]:
    """Count a decision for an arm; return the sums to keep, without rare arms if there are too many.

    >>> arms = {f"m{number}": ArmSums(decisions=number) for number in range(100)}
    >>> kept = count_choice(arms, "m7")
    >>> kept is arms, arms["m7"].decisions, len(count_choice(arms, "new"))
    (True, 8, 50)
    """
    sums = arms.get(arm)
    if sums is not None:
        sums.decisions += 1
        return arms
    arms[arm] = ArmSums(decisions=1)
    return arms if len(arms) <= limit else most_chosen(arms, limit // 2)


class Period(Struct):
    """The decisions of a period of time, and their rewards."""

    start: float
    end: float
    decisions: int = 0
    rewards: list[int] = field(default_factory=lambda: [0, 0])
    """Number of rewards: of the bandit's decisions and of the holdout."""
    totals: list[float] = field(default_factory=lambda: [0.0, 0.0])
    """Sums of these rewards."""
    lift: LiftSums = field(default_factory=LiftSums)
    control: LiftSums | UnsetType = UNSET
    """Lift over the control, if there is one."""
    arms: dict[str, ArmSums] = field(default_factory=dict)

    def merge(self, later: "Period") -> None:
        """Add a later period to this one, but not its arms."""
        self.end = later.end
        self.decisions += later.decisions
        for group in (0, 1):
            self.rewards[group] += later.rewards[group]
            self.totals[group] += later.totals[group]
        self.lift.merge(later.lift)
        if later.control is not UNSET:
            self.control = LiftSums() if self.control is UNSET else self.control
            self.control.merge(later.control)


def merged(parts: Iterable[dict[str, ArmSums]]) -> dict[str, ArmSums]:
    """Return the sums of each arm over several parts, without rare arms if there are too many."""
    arms: dict[str, ArmSums] = {}
    for part in parts:
        for name, sums in part.items():
            total = arms.get(name)
            if total is None:
                total = arms[name] = ArmSums()
            total.merge(sums)
    return arms if len(arms) <= MAX_ARMS else most_chosen(arms, MAX_ARMS // 2)


class History(Struct):
    """Periods, the oldest and longest first."""

    since: float
    """Time from which decisions are counted."""
    periods: list[Period] = field(default_factory=list)
    arms: dict[str, ArmSums] = field(default_factory=dict)
    """Sums of each arm over all periods."""
    sizes: list[int] = field(default_factory=lambda: [0] * len(_TIERS))
    """Number of periods of each length, the shortest first."""

    def add_decision(self, at: float, arm: str) -> None:
        """Count a decision."""
        if not self.periods or at >= self.periods[-1].end:
            self._start_period(at)
        period = self.periods[-1]
        period.decisions += 1
        period.arms = count_choice(period.arms, arm)
        self.arms = count_choice(self.arms, arm, _MAX_TOTALS)

    def add_reward(self, decision: OpenDecision, value: float, scaled: float, center: float) -> None:
        """Count a reward in the period of its decision.

        Parameters
        ----------
        decision
            The decision.
        value, scaled
            Its reward, as sent and on a scale from 0 to 1.
        center
            The center of the estimate of its lift, so that the periods add up to the lift of all decisions.
        """
        period = self._period_of(decision)
        period.rewards[decision.held_out] += 1
        period.totals[decision.held_out] += value
        if decision.weights is not None:
            period.lift.add(scaled, decision.weights, center, decision.held_out)
        sums, own = self.arms.get(decision.arm), period.arms.get(decision.arm)
        if sums is not None:
            mean = sums.center
            sums.add(scaled, mean)
            if own is not None:
                own.add(scaled, mean)

    def add_control(self, decision: OpenDecision, scaled: float, weights: Weights, center: float) -> None:
        """Count a reward for the lift over the control; the arguments are those of :meth:`add_reward`."""
        period = self._period_of(decision)
        if period.control is UNSET:
            period.control = LiftSums()
        period.control.add(scaled, weights, center, decision.held_out)

    def _period_of(self, decision: OpenDecision) -> Period:
        if not self.periods:
            self._start_period(max(decision.decided_at, self.since))
        period = self.periods[-1]
        if decision.decided_at < period.start:
            place = bisect_right(self.periods, decision.decided_at, key=_start) - 1
            period = self.periods[max(place, 0)]
        return period

    def remove_arm(self, arm: str) -> None:
        """Drop the sums of an arm over all periods. Its past stays."""
        self.arms.pop(arm, None)

    def within(self, start: float | None, end: float | None) -> list[Period]:
        """Return the periods that have a part between two times."""
        return [
            period
            for period in self.periods
            if (start is None or period.end > start) and (end is None or period.start < end)
        ]

    def _start_period(self, at: float) -> None:
        width = _TIERS[0][0]
        start = floor_time(at, width)
        self.periods.append(Period(start, start + width))
        self.sizes[0] += 1
        first = len(self.periods)
        for tier, (longer, _) in enumerate(_TIERS[1:]):
            if self.sizes[tier] <= _TIERS[tier][1]:
                return  # so no longer period is added
            first -= self.sizes[tier]
            self.sizes[tier] -= self._merge(first, longer)
            self.sizes[tier + 1] += 1
            first += 1
        if self.sizes[-1] > _TIERS[-1][1]:
            self._merge_into(0, 2, self.periods[0].start, self.periods[1].end)
            self.sizes[-1] -= 1

    def _merge(self, first: int, width: float) -> int:
        """Merge the periods in the same longer period as the first of them; return how many they were."""
        start = floor_time(self.periods[first].start, width)
        last = first
        while last < len(self.periods) and self.periods[last].start < start + width:
            last += 1
        self._merge_into(first, last, start, start + width)
        return last - first

    def _merge_into(self, first: int, last: int, start: float, end: float) -> None:
        """Replace the periods from ``first`` to before ``last`` by one."""
        parts = self.periods[first:last]
        whole = Period(start, end)
        for part in parts:
            whole.merge(part)
        whole.end = end
        whole.arms = merged(part.arms for part in parts)
        self.periods[first:last] = [whole]


def floor_time(at: float, width: float) -> float:
    """Return the beginning of the second, hour, day or week of a time; weeks begin on Mondays.

    >>> floor_time(7_300.5, 3600.0), floor_time(4 * 86_400.0, 604_800.0)
    (7200.0, 345600.0)
    """
    offset = _MONDAY if width >= 604_800 else 0.0
    return (at - offset) // width * width + offset
