"""Sums over the decisions and rewards of an experiment: what its statistics are made of.

They grow with the number of arms and with nothing else.
"""

from typing import NamedTuple

from msgspec import Struct, field

from glcb._types import Float64
from glcb.service.core.outlook import Outlook
from glcb.service.lift import Group

MOST_BLOCKS = 200


class Decided(NamedTuple):
    """A decision as it counts: which arm was played, how likely each was, what each was expected to bring."""

    arms: tuple[str, ...]
    played: int
    chances: Float64
    values: Float64
    held_out: bool


class ArmTally(Struct):
    """How often an arm was played, and what it brought."""

    decisions: int = 0
    rewards: int = 0
    total: float = 0.0


class Block(Struct):
    """A stretch of time in which so many decisions were made."""

    start: float
    end: float
    decisions: int = 0
    arms: dict[str, int] = field(default_factory=dict)
    rewards: list[int] = field(default_factory=lambda: [0, 0])
    """Number of rewards that came meanwhile: of the bandit's own decisions, and of the hold-out."""
    totals: list[float] = field(default_factory=lambda: [0.0, 0.0])
    """Their sums."""
    predicted: float = 0.0
    """Sum of what the arms that were played were predicted to bring."""
    own: int = 0
    """Decisions that were not left to chance."""
    doubt: float = 0.0
    """Sum, over these, of the probability of any other arm than the likeliest."""

    def join(self, later: "Block") -> None:
        """Take over what the next block has."""
        self.end = later.end
        self.decisions += later.decisions
        self.predicted += later.predicted
        self.own += later.own
        self.doubt += later.doubt
        for arm, plays in later.arms.items():
            self.arms[arm] = self.arms.get(arm, 0) + plays
        for group in (0, 1):
            self.rewards[group] += later.rewards[group]
            self.totals[group] += later.totals[group]


class Tally(Struct):
    """Sums over everything so far, and over blocks of equal length that get longer as time goes."""

    bandit: Group = field(default_factory=Group)
    holdout: Group = field(default_factory=Group)
    arms: dict[str, ArmTally] = field(default_factory=dict)
    gone: int = 0
    """Decisions for arms that were removed."""
    outlook: Outlook = field(default_factory=Outlook)
    blocks: list[Block] = field(default_factory=list)
    length: int = 10
    """Decisions of a block."""

    def decided(self, at: float, decision: Decided) -> None:
        """Count a decision."""
        if not self.blocks or self.blocks[-1].decisions >= self.length:
            self._begin_block(at)
        arms, played, chances, values, held_out = decision
        arm, block = arms[played], self.blocks[-1]
        block.end = at
        block.decisions += 1
        block.arms[arm] = block.arms.get(arm, 0) + 1
        block.predicted += float(values[played])
        if not held_out:
            block.own += 1
            block.doubt += 1.0 - float(chances.max())
        self.arms.setdefault(arm, ArmTally()).decisions += 1
        self.outlook.decided(arms, played, chances, values)

    def learned(self, at: float, arm: str, value: float, scaled: float, held_out: bool) -> None:
        """Count a reward; ``scaled`` is what it is on a scale from 0 to 1."""
        (self.holdout if held_out else self.bandit).add(scaled)
        if not self.blocks:
            self._begin_block(at)
        block = self.blocks[-1]
        block.end = at
        block.rewards[held_out] += 1
        block.totals[held_out] += value
        tally = self.arms.setdefault(arm, ArmTally())
        tally.rewards += 1
        tally.total += value

    def removed(self, arm: str) -> None:
        """Keep of an arm only how often it was played; if it comes back, it begins anew."""
        self.gone += self.arms.pop(arm, ArmTally()).decisions
        for block in self.blocks:
            block.arms.pop(arm, None)

    def _begin_block(self, at: float) -> None:
        if len(self.blocks) >= MOST_BLOCKS:
            pairs = zip(self.blocks[::2], self.blocks[1::2], strict=True)
            self.blocks = []
            for first, second in pairs:
                first.join(second)
                self.blocks.append(first)
            self.length *= 2
        self.blocks.append(Block(at, at))
