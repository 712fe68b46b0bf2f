"""Sums over decisions and their rewards, from which statistics are computed.

The whole experiment has such sums, and so does each period of its history and each of its segments. In lifts
and for arms, rewards are on a scale from 0 to 1; those of the two groups are as they were sent.

Structs that only have numbers are not tracked by the garbage collector: there can be a hundred thousand.
"""

from collections.abc import Iterable
from typing import Self

from msgspec import Struct, field

from glcb.service.core.lift import LiftSums, Weights
from glcb.service.core.open_decisions import OpenDecision

MAX_ARMS = 100
"""If a period or a segment has more arms, it keeps the half with the most decisions."""


class GroupRewards(Struct, array_like=True, gc=False):
    """The rewards of the bandit or of the holdout."""

    n: int = 0
    total: float = 0.0

    @property
    def mean(self) -> float | None:
        """The mean reward, or None without any."""
        return self.total / self.n if self.n else None

    def add(self, value: float) -> None:
        """Add a reward."""
        self.n += 1
        self.total += value

    def merge(self, other: "GroupRewards") -> None:
        """Add the rewards of other decisions of the group."""
        self.n += other.n
        self.total += other.total


class ArmSums(Struct, array_like=True, gc=False):
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

    @property
    def mean(self) -> float | None:
        """The mean reward, or None without any."""
        return self.total / self.rewards if self.rewards else None

    def add(self, scaled: float, center: float | None = None) -> None:
        """Add a reward. By default, the center is the running mean."""
        if center is None:
            center = (0.5 + self.total) / (1 + self.rewards)
        self.rewards += 1
        self.total += scaled
        self.squares += (scaled - center) * (scaled - center)

    def merge(self, other: "ArmSums") -> None:
        """Add other sums."""
        self.decisions += other.decisions
        self.rewards += other.rewards
        self.total += other.total
        self.squares += other.squares


class Sums(Struct, array_like=True):
    """Sums over some decisions and their rewards."""

    decisions: int = 0
    bandit: GroupRewards = field(default_factory=GroupRewards)
    holdout: GroupRewards = field(default_factory=GroupRewards)
    lift: LiftSums = field(default_factory=LiftSums)
    """Lift over random assignment."""
    control: LiftSums = field(default_factory=LiftSums)
    """Lift over the control, of the decisions that have one."""
    arms: dict[str, ArmSums] = field(default_factory=dict)
    others: ArmSums = field(default_factory=ArmSums)
    """The sums of all arms that have none of their own, because they are rare or were removed."""

    @classmethod
    def of(cls, parts: Iterable["Sums"], arms: Iterable[str] | None = None) -> Self:
        """Return the sums over several parts: of these arms, by default of all but rare ones."""
        whole = cls()
        for part in parts:
            whole.merge(part, part.arms if arms is None else arms)
        whole._limit_arms(MAX_ARMS)
        return whole

    def add_decision(self, arm: str, max_arms: int | None = None) -> None:
        """Count a decision for an arm; merge the rare half of the arms if there are more than this many.

        >>> sums = Sums()
        >>> for number in range(7):
        ...     sums.add_decision(f"m{min(number, 4)}", max_arms=4)
        >>> list(sums.arms), sums.others.decisions, sums.decisions
        (['m0', 'm1', 'm4'], 3, 7)
        """
        self.decisions += 1
        try:
            self.arms[arm].decisions += 1
        except KeyError:
            self.arms[arm] = ArmSums(1)
            if max_arms is not None:
                self._limit_arms(max_arms)

    def add_reward(
        self,
        decision: OpenDecision,
        value: float,
        scaled: float,
        control: Weights | None = None,
        means: "Sums | None" = None,
    ) -> None:
        """Count the reward of a decision.

        Parameters
        ----------
        decision
            The decision.
        value, scaled
            Its reward, as sent and on a scale from 0 to 1.
        control
            The weights for the lift over the control, if it can be estimated from this decision.
        means
            The sums that say what was expected of a reward, by default these. A period uses those of the
            whole experiment, so that the periods add up to it.
        """
        arm, held_out = decision.arm, decision.held_out
        (self.holdout if held_out else self.bandit).add(value)
        for sums, weights, own in (
            (self.lift, decision.weights, None if means is None else means.lift),
            (self.control, control, None if means is None else means.control),
        ):
            if weights is not None:
                judged = decision.predicted is not None
                at = decision.decided_at
                sums.add(scaled, weights, at=at, means=own, held_out=held_out, judged=judged)
        center = None if means is None else means.arms.get(arm, means.others).center
        self.arms.get(arm, self.others).add(scaled, center)

    def merge(self, other: "Sums", arms: Iterable[str]) -> None:
        """Add the sums of other decisions, but only of these arms."""
        self.decisions += other.decisions
        self.bandit.merge(other.bandit)
        self.holdout.merge(other.holdout)
        self.lift.merge(other.lift)
        self.control.merge(other.control)
        self.others.merge(other.others)
        for arm in arms:
            sums = other.arms.get(arm)
            if sums is not None:
                if arm not in self.arms:
                    self.arms[arm] = ArmSums()
                self.arms[arm].merge(sums)

    def remove_arm(self, arm: str) -> None:
        """Merge the sums of an arm with those of all others that have none of their own."""
        sums = self.arms.pop(arm, None)
        if sums is not None:
            self.others.merge(sums)

    def _limit_arms(self, most: int) -> None:
        """Keep only the half of the arms with the most decisions if there are more than this many."""
        if len(self.arms) > most:
            kept = most_chosen(self.arms, most // 2)
            for arm in list(self.arms):
                if arm not in kept:
                    self.remove_arm(arm)
            self.arms = kept


def most_chosen(arms: dict[str, ArmSums], count: int) -> dict[str, ArmSums]:
    """Return the sums of the arms with the most decisions."""
    return dict(sorted(arms.items(), key=lambda item: -item[1].decisions)[:count])
