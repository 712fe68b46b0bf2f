"""What requests and answers hold. Bodies are decoded straight into these; what does not fit is refused."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

Arm = Annotated[str, Meta(min_length=1, max_length=200)]
Key = Annotated[str, Meta(min_length=1, max_length=200, description="Makes a repeated request harmless.")]
Name = Annotated[str, Meta(pattern="^[a-z0-9][a-z0-9_-]{0,63}$")]
Share = Annotated[float, Meta(ge=0, le=1)]
State = Literal["running", "paused", "archived"]
Context = Annotated[
    dict[str, Any] | list[Any],
    Meta(description="Values by name, or by position: numbers, texts, booleans, null."),
]


class Settings(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What an experiment is made with: the arguments of ``glcb.Bandit``, and the share of the hold-out."""

    arms: Annotated[list[Arm], Meta(min_length=1)]
    policy: str = "glcb"
    rewards: Literal["binary"] | tuple[float, float] = "binary"
    exploration: float = 0.05
    spread: Literal["gap", "uniform"] = "gap"
    schema: dict[str, Any] | None = None
    reserve: int | None = None
    most_waiting: int = 10_000
    patience: float | None = None
    default_reward: float | None = None
    combine: Literal["first", "last", "sum", "max"] = "first"
    memory: int | None = None
    seed: int = 0
    settings: dict[str, Any] | None = None
    holdout: Share = 0.05


class Creation(Struct, kw_only=True):
    """The first event of an experiment."""

    name: str
    salt: str
    """Keeps others from knowing beforehand who will be part of the hold-out."""
    settings: Settings


class Changes(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What can change while an experiment runs."""

    state: State | UnsetType = UNSET
    exploration: float | UnsetType = UNSET
    spread: Literal["gap", "uniform"] | UnsetType = UNSET
    holdout: Share | UnsetType = UNSET


class NewArm(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An arm that joins the others, fresh or like one of them."""

    name: Arm
    like: Arm | None = None


class DecisionRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A context that needs an arm."""

    context: Context
    eligible: list[Arm] | None = None
    key: Key | None = None


class DecisionRequests(Struct, kw_only=True, forbid_unknown_fields=True):
    """Many contexts at once."""

    decisions: list[DecisionRequest]


class ExplainRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """A context whose decision is to be explained, not made."""

    context: Context
    eligible: list[Arm] | None = None


class RewardRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """What a decision brought."""

    value: float
    key: Key | None = None


class RewardOf(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the decision with this id brought."""

    id: Annotated[str, Meta(min_length=1, max_length=100)]
    value: float
    key: Key | None = None


class RewardRequests(Struct, kw_only=True, forbid_unknown_fields=True):
    """What many decisions brought."""

    rewards: list[RewardOf]


class Error(Struct):
    """Why a request was refused."""

    code: str
    message: str


class ErrorAnswer(Struct):
    """The shape of every refusal."""

    error: Error


class Decision(Struct, kw_only=True):
    """An arm to play."""

    id: str
    arm: str
    propensity: float
    probabilities: dict[str, float]
    holdout: bool


class Taken(Struct):
    """A reward that was taken, or had been before."""

    id: str
    status: Literal["taken", "repeated"]


class Counts(Struct):
    """Decisions: issued = rewarded + expired + waiting."""

    issued: int
    rewarded: int
    expired: int
    waiting: int


class GroupMean(Struct):
    """Rewards of the bandit's own decisions, or of the hold-out."""

    n: int
    mean: float | None


class Lift(Struct, kw_only=True):
    """What the bandit brings more than chance, with an interval that is valid at all times together."""

    bandit: GroupMean
    holdout: GroupMean
    difference: float | None
    low: float | None
    high: float | None
    confidence: float


class Check(Struct):
    """Something that should be so; ``ok`` is null while it is too early to tell."""

    check: str
    ok: bool | None
    text: str


class ExperimentView(Struct, kw_only=True):
    """An experiment and where it stands."""

    name: str
    state: State
    created: str
    arms: list[str]
    policy: str
    rewards: Literal["binary"] | tuple[float, float]
    exploration: float
    spread: str
    holdout: float
    schema: dict[str, Any] | None
    reserve: int | None
    most_waiting: int
    patience: float | None
    default_reward: float | None
    combine: str
    memory: int | None
    seed: int
    settings: dict[str, Any] | None
    counts: Counts
    plays: dict[str, int]
    lift: Lift
    health: list[Check]
    sequence: int


class Experiments(Struct):
    """All experiments that the key may see."""

    experiments: list[ExperimentView]


class Contribution(Struct):
    """What one feature adds to the value of an arm."""

    feature: str
    value: str
    contribution: float


class ArmExplanation(Struct, kw_only=True):
    """Where the value of an arm comes from; a bonus of null is infinite: the arm was never tried."""

    arm: str
    value: float
    base: float
    bonus: float | None
    pseudocount: float
    probability: float
    contributions: list[Contribution]


class Explanation(Struct):
    """Why an arm would be played, and how likely each is."""

    arms: list[ArmExplanation]
    text: str


class ArmStats(Struct, kw_only=True):
    """What an arm brought where it was played, and is predicted to bring on the contexts of late."""

    arm: str
    plays: int
    share: float
    reward_mean: float | None
    predicted: float | None
    evidence: int


class BlockStats(Struct, kw_only=True, rename={"start": "from", "end": "to"}):
    """A stretch of time; of many arms, only the most played ones have their shares told."""

    start: datetime
    end: datetime
    decisions: int
    rewards: int
    bandit_n: int
    bandit_mean: float | None
    holdout_n: int
    holdout_mean: float | None
    shares: dict[str, float]


class Latency(Struct):
    """Time from a request for a decision to its answer, in microseconds, since the service started."""

    p50: float | None
    p99: float | None


class FeatureStats(Struct, kw_only=True):
    """What is known of a feature, and how often its value could not be used as it came."""

    name: str
    kind: Literal["number", "category", "boolean"] | None
    range: tuple[float, float] | None
    values: tuple[str, ...]
    problems: dict[str, int]


class Stats(Struct, kw_only=True):
    """How an experiment fares."""

    counts: Counts
    join_rate: float | None
    lift: Lift
    arms: list[ArmStats]
    blocks: list[BlockStats]
    features: list[FeatureStats]
    strangers: int
    """Values of features that have no place in the model."""
    refused: dict[str, int]
    """Refusals since the service started, by their code."""
    latency_us: Latency
    health: list[Check]


class Status(Struct):
    """Whether the service is alive, or ready."""

    status: str


encode = msgspec.json.Encoder().encode
