"""Logged decisions: one at a time as they are read, and many at once as they are evaluated."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from glcb._arrays import Bool, Float64, Int64
from glcb._errors import LogError
from glcb._types import Arm, Rewards
from glcb.bandit.encoding.schema import MAX_WITHOUT_SLOT
from glcb.bandit.encoding.values import to_row

CHUNK_ROWS = 1000
MIN_PROPENSITY = 1e-60
"""The smallest propensity. Sums of fourth powers of the weights of smaller ones would overflow."""
_SAMPLE = 2000
"""Number of rows per file in which texts are counted to find identifiers."""
_FREQUENT = 50
"""Values of a category that are frequent enough to learn from."""
_MIN_VALUES = 100
MAX_ARMS = 1000
"""A log with more distinct arms than this is unlikely to name the right column."""


class LoggedDecision(NamedTuple):
    """A decision of a log, with its reward."""

    context: Any
    arm: Arm
    reward: float
    propensity: float
    """The probability of the arm; 0 if the log does not have it."""
    eligible: tuple[Arm, ...] | None = None
    """The arms to choose from, if the log has them."""
    features: Mapping[Arm, Mapping[str, Any]] | None = None
    """The features of these arms, if the log has them."""
    above: tuple[Arm, ...] = ()
    """In a ranking, the arms of higher slots, which cannot be chosen again."""
    examined: bool = True
    """Whether the slot was examined; if not, its reward is 0 and nothing is learned from it."""
    time: float | None = None
    """The time of the decision, in seconds since the epoch, if the log has it."""


class LogRow(NamedTuple):
    """A decision of a log, or the reason why a row was rejected, and the share of the log read so far.

    The slots of a ranking are consecutive rows.
    """

    decision: LoggedDecision | None
    share: float
    reason: str = ""
    message: str = ""


@dataclass
class Survey:
    """The results of a first pass over a log."""

    rows: int = 0
    """Number of decisions; a ranking counts once."""
    slots: int = 1
    """The largest number of slots of a ranking; 1 if there are only single decisions."""
    featured: int = 0
    """Number of decisions among arms with features."""
    arms: dict[Arm, int] = field(default_factory=dict)
    """The number of decisions for each arm."""
    lowest: float = np.inf
    highest: float = -np.inf
    binary: bool = True
    nonzero: int = 0
    """Rewards that differ from the most common bound: for 0/1 rewards, the number of ones."""
    smallest_propensity: float = 1.0
    without_propensity: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)
    sampled: int = 0
    texts: dict[str, Counter[str]] = field(default_factory=dict)
    """How often each text occurs in the sampled rows, by feature."""

    def add(self, row: LogRow, number: int, prefix: str = "") -> None:
        """Count a row; the prefix names its file."""
        decision = row.decision
        if decision is None:
            self.refused[row.reason] += 1
            self.examples.setdefault(row.reason, f"{prefix}row {number:,}: {row.message}")
            return
        if not decision.above:
            self.rows += 1
            self.featured += decision.features is not None
            self.without_propensity += not decision.propensity
            self._sample(decision.context)
        self.slots = max(self.slots, len(decision.above) + 1)
        for arm in decision.eligible or ():
            self.arms.setdefault(arm, 0)
        self.arms[decision.arm] = self.arms.get(decision.arm, 0) + 1
        self._check_arms()
        reward = decision.reward
        self.lowest, self.highest = min(self.lowest, reward), max(self.highest, reward)
        self.binary = self.binary and reward in (0.0, 1.0)
        self.nonzero += reward != 0
        if decision.propensity:
            self.smallest_propensity = min(self.smallest_propensity, decision.propensity)

    def _sample(self, context: Any) -> None:
        if self.sampled < _SAMPLE:
            self.sampled += 1
            for name, value in to_row(context)[0].items():
                if isinstance(value, str):
                    self.texts.setdefault(str(name), Counter())[value] += 1

    @property
    def identifiers(self) -> list[str]:
        """The features with a different text in almost every row, such as ids and times."""
        return [
            name
            for name, counts in self.texts.items()
            if (total := counts.total()) >= _MIN_VALUES
            and sum(count for _, count in counts.most_common(_FREQUENT)) < (1 - MAX_WITHOUT_SLOT) * total
        ]

    def merge(self, other: "Survey") -> None:
        """Add the survey of the rest of the log."""
        self.rows += other.rows
        self.slots = max(self.slots, other.slots)
        self.featured += other.featured
        for arm, count in other.arms.items():
            self.arms[arm] = self.arms.get(arm, 0) + count
        self._check_arms()
        self.lowest, self.highest = min(self.lowest, other.lowest), max(self.highest, other.highest)
        self.binary = self.binary and other.binary
        self.nonzero += other.nonzero
        self.smallest_propensity = min(self.smallest_propensity, other.smallest_propensity)
        self.without_propensity += other.without_propensity
        self.refused.update(other.refused)
        self.sampled += other.sampled
        for name, counts in other.texts.items():
            self.texts.setdefault(name, Counter()).update(counts)
        self.examples = {**other.examples, **self.examples}

    def _check_arms(self) -> None:
        if len(self.arms) > MAX_ARMS:
            raise LogError(f"the log has more than {MAX_ARMS:,} arms; is the column of the arms right?")

    @property
    def shares_arms(self) -> bool:
        """Whether arms have features in every decision, so that policies can share evidence between arms."""
        return 0 < self.featured == self.rows

    @property
    def rewards(self) -> Rewards:
        """The range of the rewards: "binary", or the smallest and the largest reward."""
        if self.binary or self.lowest == self.highest:
            return "binary" if self.binary else (min(self.lowest, 0.0), max(self.highest, self.lowest + 1.0))
        return self.lowest, self.highest


@dataclass(frozen=True, eq=False)
class Chunk:
    """Consecutive decisions of a log. Rewards are scaled to [0, 1]."""

    contexts: Sequence[Any]
    arm: Int64
    """The index of the logged arm."""
    reward: Float64
    raw_reward: Float64
    propensity: Float64
    eligible: Bool
    """Which arms could be chosen: one column per arm."""
    all_eligible: bool
    """Whether every arm could be chosen in every row."""
    features: Sequence[Mapping[Arm, Mapping[str, Any]] | None]
    """The features of the arms to choose from."""
    slot: Int64
    """The position in a ranking, from 0 at the top. All slots of a ranking are in the same chunk."""
    examined: Bool

    def __len__(self) -> int:
        return len(self.arm)

    @property
    def decisions(self) -> int:
        """Number of decisions; a ranking counts once."""
        return int((self.slot == 0).sum())

    def rankings(self) -> Iterator[range]:
        """Yield the rows of each ranking; a single decision is a ranking with one slot."""
        starts = np.flatnonzero(self.slot == 0).tolist()
        for start, stop in zip(starts, [*starts[1:], len(self)], strict=True):
            yield range(start, stop)

    def eligible_arms(self, row: int, arms: Sequence[Arm]) -> list[Arm] | None:
        """Return the arms that could be chosen in a row, or None for all."""
        return None if self.all_eligible else [arms[int(i)] for i in np.flatnonzero(self.eligible[row])]


def chunks(
    decisions: Iterable[LoggedDecision], arms: Mapping[Arm, int], reward_range: tuple[float, float]
) -> Iterator[Chunk]:
    """Yield chunks of a log. ``arms`` has the position of each arm, under all its spellings."""
    batch: list[LoggedDecision] = []
    for decision in decisions:
        if len(batch) >= CHUNK_ROWS and not decision.above:
            yield _chunk(batch, arms, reward_range)
            batch = []
        batch.append(decision)
    if batch:
        yield _chunk(batch, arms, reward_range)


def _chunk(batch: list[LoggedDecision], arms: Mapping[Arm, int], reward_range: tuple[float, float]) -> Chunk:
    low, high = reward_range
    raw = np.array([decision.reward for decision in batch])
    eligible = np.ones((len(batch), len(set(arms.values()))), np.bool_)
    for row, decision in enumerate(batch):
        if decision.eligible is not None:
            eligible[row] = False
            eligible[row, [arms[arm] for arm in decision.eligible]] = True
        if decision.above:
            eligible[row, [arms[arm] for arm in decision.above]] = False
    return Chunk(
        contexts=[decision.context for decision in batch],
        arm=np.array([arms[decision.arm] for decision in batch]),
        reward=(raw - low) / (high - low),
        raw_reward=raw,
        propensity=np.array([decision.propensity for decision in batch]),
        eligible=eligible,
        all_eligible=bool(eligible.all()),
        features=[decision.features for decision in batch],
        slot=np.array([len(decision.above) for decision in batch]),
        examined=np.array([decision.examined for decision in batch]),
    )
