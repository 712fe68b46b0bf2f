"""What the service answers and its client reads: frozen objects that travel as JSON.

The client passes over fields that a newer service adds.
"""

import re
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

EXPERIMENT_NAME = re.compile("[a-z0-9][a-z0-9_-]{0,63}")
"""What an experiment can be called, from beginning to end."""

State = Literal["running", "paused", "archived"]
"""What an experiment can be told to be."""


class Decision(Struct, frozen=True, kw_only=True):
    """An arm to play, and how likely each was."""

    id: str
    """What the reward is to be sent to."""
    arm: str
    propensity: float
    """The probability with which this arm was played."""
    probabilities: dict[str, float]
    """The probability with which each arm would have been played."""
    holdout: bool
    """Whether chance decided, for comparison, and not the bandit."""

    @property
    def arms(self) -> tuple[str, ...]:
        """All arms of the experiment at that moment."""
        return tuple(self.probabilities)


class Counts(Struct, frozen=True):
    """Decisions: decisions = rewarded + timed_out + evicted + removed + pending."""

    decisions: int
    rewarded: int
    timed_out: int
    evicted: int
    removed: int
    pending: int


class GroupMean(Struct, frozen=True):
    """Rewards of the bandit's own decisions, or of the hold-out."""

    n: int
    mean: float | None


class Lift(Struct, frozen=True, kw_only=True):
    """What the bandit brings more than chance, with an interval that holds however often one looks."""

    bandit: GroupMean
    holdout: GroupMean
    difference: float | None
    low: float | None
    high: float | None
    confidence: float


class Check(Struct, frozen=True):
    """Something that should be so, whether it is, and what that means."""

    check: str
    ok: bool | None
    """None: it is too early to tell."""
    text: str


class ExperimentInfo(Struct, frozen=True, kw_only=True):
    """An experiment: how it was made and where it stands."""

    name: str
    state: State | Literal["broken"]
    """Broken: it cannot be loaded, its health tells why, and all else is as it was when it was last saved."""
    created: datetime
    arms: tuple[str, ...]
    policy: str
    rewards: Literal["binary"] | tuple[float, float]
    exploration: float
    exploration_mode: str
    holdout: float
    """The share of decisions that are left to chance, as a yardstick."""
    schema: dict[str, Any] | None
    spare_slots: int | None
    max_pending: int
    reward_timeout: float | None
    default_reward: float | None
    reward_aggregation: str
    half_life: int | None
    seed: int
    policy_settings: dict[str, Any] | None
    counts: Counts
    reward_counts: dict[str, int]
    """Number of rewards learned so far, for each arm."""
    lift: Lift
    health: tuple[Check, ...]
    sequence: int
    """Number of the last event."""


class Contribution(Struct, frozen=True):
    """What one feature adds to the value of an arm."""

    feature: str
    value: str
    """What the feature was in this context, in words."""
    contribution: float


class ArmExplanation(Struct, frozen=True, kw_only=True):
    """Where the value of an arm comes from: base plus contributions."""

    arm: str
    value: float
    """The reward that is expected."""
    base: float
    """What it would be before any feature is looked at."""
    bonus: float | None
    """What is added for the sake of exploration; None stands for infinite: the arm is to be tried first."""
    pseudocount: float
    """How often the arm was tried on contexts like this one."""
    probability: float
    """With which it would be played."""
    contributions: tuple[Contribution, ...]


class Explanation(Struct, frozen=True):
    """Why an arm would be played; print it to read it."""

    arms: tuple[ArmExplanation, ...]
    text: str

    def __str__(self) -> str:
        return self.text


class ArmStats(Struct, frozen=True, kw_only=True):
    """How an arm fares."""

    arm: str
    decisions: int
    share: float
    """Of all decisions."""
    reward_mean: float | None
    """Where it was played."""
    predicted: float | None
    """On all contexts of late."""
    rewards: int


class Block(Struct, frozen=True, kw_only=True, rename={"start": "from", "end": "to"}):
    """A stretch of time."""

    start: datetime
    end: datetime
    decisions: int
    rewards: int
    bandit_n: int
    bandit_mean: float | None
    holdout_n: int
    holdout_mean: float | None
    shares: dict[str, float]
    """Of the most played arms."""


class FeatureStats(Struct, frozen=True, kw_only=True):
    """What is known of a feature, and how often its value could not be used as it came."""

    name: str
    kind: Literal["number", "category", "boolean"] | None
    range: tuple[float, float] | None
    values: tuple[str, ...]
    problems: dict[str, int]


class Latency(Struct, frozen=True):
    """Microseconds from a request for a decision to its answer, since the service started."""

    p50: float | None
    p99: float | None


class Stats(Struct, frozen=True, kw_only=True):
    """How an experiment fares."""

    counts: Counts
    match_rate: float | None
    """The share of decisions that have got their reward so far."""
    lift: Lift
    arms: tuple[ArmStats, ...]
    blocks: tuple[Block, ...]
    features: tuple[FeatureStats, ...]
    unmapped: int
    """Values of features that have no place in the model."""
    refused: dict[str, int]
    """Refusals since the service started, by their code."""
    latency_us: Latency
    health: tuple[Check, ...]


class Experiments(Struct, frozen=True):
    """All experiments that the key may see."""

    experiments: tuple[ExperimentInfo, ...]


class Refusal(Struct, frozen=True):
    """Why something was refused."""

    code: str
    message: str


class Refused(Struct, frozen=True):
    """The shape of every refusal."""

    error: Refusal


class Taken(Struct, frozen=True):
    """A reward that was taken, or had been before."""

    id: str
    status: Literal["taken", "repeated"]


class Results(Struct, frozen=True):
    """What became of each item of a request, in its order: what was asked for, or a refusal."""

    results: list[dict[str, Any]]
