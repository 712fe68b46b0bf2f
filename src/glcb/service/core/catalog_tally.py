"""Sums over the decisions of an experiment whose arms have features.

Names of arms come and go by the thousand, so the sums of those that were chosen least recently are merged
after a while. Whether arms are chosen as often as their propensities say cannot be checked for each name; it
is checked for the most likely candidates of all decisions together.
"""

import numpy as np
from msgspec import Struct, field

from glcb._arrays import Float64

MAX_NAMES = 20_000
"""If there are more names, the half that was chosen least recently is merged."""
_WINDOW = 1000
"""Predictions are averaged over about this many recent decisions; older ones fade."""
_MAX_BLOCK_NAMES = 100
"""If a block has more names, it keeps the half with the most decisions."""


class ArmTally(Struct):
    """Decisions and rewards of an arm."""

    decisions: int = 0
    rewards: int = 0
    total: float = 0.0
    """Sum of the rewards."""

    @property
    def mean(self) -> float | None:
        """The mean reward, or None without any."""
        return self.total / self.rewards if self.rewards else None


class NamedArm(ArmTally):
    """Decisions and rewards of an arm with features, and what was predicted for them."""

    predicted: float = 0.0
    """Recent mean of the predicted reward, over the decisions for this arm."""


class CatalogTally(Struct):
    """Sums by name, and the draws of all decisions."""

    names: dict[str, NamedArm] = field(default_factory=dict)
    """The least recently chosen first."""
    merged: ArmTally = field(default_factory=ArmTally)
    """Sums over the names that are not kept."""
    chosen: int = 0
    """Decisions in which a most likely candidate was chosen."""
    expected: float = 0.0
    """The sum of their probabilities."""
    variance: float = 0.0
    """The variance of their number."""

    def add_decision(self, arm: str, predicted: float, chosen: int, probabilities: Float64) -> None:
        """Count a decision.

        Parameters
        ----------
        arm
            The chosen arm.
        predicted
            Its predicted reward.
        chosen
            Its index among the candidates.
        probabilities
            The probability of each candidate.
        """
        tally = self.names.pop(arm, None) or NamedArm()
        self.names[arm] = tally
        tally.decisions += 1
        tally.predicted += (predicted - tally.predicted) / min(tally.decisions, _WINDOW)
        if len(self.names) > MAX_NAMES:
            self._merge()
        highest = float(probabilities.max())
        share = min(highest * int(np.count_nonzero(probabilities == highest)), 1.0)
        self.chosen += int(probabilities[chosen] == highest)
        self.expected += share
        self.variance += share * (1 - share)

    def of_reward(self, arm: str) -> ArmTally:
        """Return the sums to which a reward of an arm is added."""
        return self.names.get(arm, self.merged)

    def _merge(self) -> None:
        for name in list(self.names)[: MAX_NAMES // 2]:
            tally = self.names.pop(name)
            self.merged.decisions += tally.decisions
            self.merged.rewards += tally.rewards
            self.merged.total += tally.total


def trim(decisions: dict[str, int]) -> dict[str, int]:
    """Return the decisions by name, without rare names if there are too many.

    >>> names = {f"m{number}": number for number in range(200)}
    >>> len(trim(names)), min(trim(names).values())
    (50, 150)
    """
    if len(decisions) <= _MAX_BLOCK_NAMES:
        return decisions
    common = sorted(decisions.items(), key=lambda item: -item[1])
    return dict(common[: _MAX_BLOCK_NAMES // 2])
