"""Request bodies of the HTTP API.

The service decodes JSON directly into these types and rejects a body that does not match. The client, which
must not load NumPy, encodes them.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from glcb._api.guardrails import STEERING, MetricName, Reason, SteeringArguments, SteeringSettings
from glcb.bandit.config import DECISION_ID, BanditConfig

EXPERIMENT_NAME = re.compile("[a-z0-9][a-z0-9_-]{0,63}")
"""Matches a whole experiment name."""

State = Literal["running", "paused", "archived"]
"""The states an experiment can be set to."""

ArmName = Annotated[str, Meta(min_length=1, max_length=200)]
IdempotencyKey = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        description="Makes retries safe: a repeated request with the same key has no further effect.",
    ),
]
DecisionId = Annotated[
    str,
    Meta(
        pattern=f"^{DECISION_ID}$",
        description="The id of the decision, 1 to 100 characters, unique among all decisions. If it is "
        "omitted, the service chooses one.",
    ),
]
Context = Annotated[
    dict[str, Any] | list[Any],
    Meta(
        description="Feature values by name or by position: numbers, strings, booleans or null; by name also "
        'vectors of numbers, lists of tags, dates such as {"date": "2026-11-17T09:30:00"}, and objects of '
        "these, whose features are named by their path, such as user.country."
    ),
]
Features = Annotated[
    dict[str, Any] | None, Meta(description="The features of an arm, like context features.")
]
Eligible = Annotated[
    list[ArmName], Meta(description="The arms to choose from, among the candidates; null for all of them.")
]


class Candidate(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An arm with its features."""

    arm: ArmName
    features: Features = None


Candidates = Annotated[
    dict[ArmName, Features] | list[Candidate],
    Meta(
        description="The candidates of this request: the features of each arm by name, or a list of arms "
        "with features. New names are fine. null for the catalog of the experiment. Only for experiments "
        "whose arms have features."
    ),
]
SlotNumber = Annotated[int, Meta(ge=0)]
SlotName = Annotated[str, Meta(min_length=1, max_length=256)]
Slot = Annotated[
    SlotNumber | SlotName,
    Meta(
        description="The slot of a ranking, from 0, or its name if the ranking has `slot_names`; null if the "
        "reward is for the whole ranking."
    ),
]
Deferred = Annotated[
    bool,
    Meta(
        description="True if the decision might never be shown. It receives no reward and no default reward "
        "until it is activated, and its timeout begins at that time."
    ),
]
Unit = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        description="Who or what the decision is for, such as a user. Either all decisions for a unit are in "
        "the holdout, or none.",
    ),
]
Metrics = Annotated[dict[MetricName, float], Meta(description="Further metrics of the decision, by name.")]
Examined = Annotated[
    int,
    Meta(
        ge=0,
        description="Number of slots that the user saw. It completes a ranking: seen slots without a reward "
        "learn the default or the lowest reward; nothing is learned from unseen slots.",
    ),
]
Holdout = Annotated[
    float,
    Meta(
        ge=0,
        le=1,
        description="Share of decisions that are served the baseline. By default, these are uniformly "
        "random, as a control group for the lift.",
    ),
]


class ExperimentSettings(SteeringSettings, kw_only=True, forbid_unknown_fields=True):
    """The settings of an experiment: the arguments of ``glcb.Bandit`` and the steering settings.

    ``glcb.bandit.config.BanditConfig`` documents each argument; the OpenAPI document takes descriptions and
    bounds from it, and a test compares names and types. Settings are stored in full, defaults
    included, so that changing a default does not affect existing experiments.
    """

    arms: Annotated[list[ArmName], Meta(min_length=1)] | dict[ArmName, Features]
    policy: str = BanditConfig.policy
    policy_settings: Mapping[str, Any] | None = BanditConfig.policy_settings
    rewards: Literal["binary"] | tuple[float, float] = BanditConfig.rewards
    exploration: float = BanditConfig.exploration
    exploration_mode: Literal["gap", "uniform"] = BanditConfig.exploration_mode
    schema: Mapping[str, Any] | None = BanditConfig.schema
    spare_slots: int | None = BanditConfig.spare_slots
    arm_schema: Mapping[str, Any] | None = BanditConfig.arm_schema
    slots: int = BanditConfig.slots
    max_pending: int = BanditConfig.max_pending
    reward_timeout: float | None = BanditConfig.reward_timeout
    default_reward: float | None = BanditConfig.default_reward
    reward_aggregation: Literal["first", "last", "max", "sum"] = BanditConfig.reward_aggregation
    half_life: int | None = BanditConfig.half_life
    seed: int = BanditConfig.seed
    holdout: Holdout = 0.05
    paused_arms: Annotated[list[ArmName], Meta(description="Arms that decisions skip.")] | UnsetType = UNSET

    def __post_init__(self) -> None:
        for name in STEERING:
            if getattr(self, name) is None:
                setattr(self, name, UNSET)


class ExperimentChanges(SteeringSettings, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Changes to an existing experiment; omitted fields are left unchanged. null removes a setting."""

    state: State | UnsetType = UNSET
    exploration: float | UnsetType = UNSET
    exploration_mode: Literal["gap", "uniform"] | UnsetType = UNSET
    schema: Mapping[str, Any] | UnsetType = UNSET
    reward_timeout: float | UnsetType | None = UNSET
    default_reward: float | UnsetType | None = UNSET
    reward_aggregation: Literal["first", "last", "max", "sum"] | UnsetType = UNSET
    half_life: int | UnsetType | None = UNSET
    holdout: Holdout | UnsetType = UNSET
    reason: Reason | None = None


class ChangeArguments(SteeringArguments, total=False):
    """The mutable settings, as arguments of the client."""

    exploration: float
    exploration_mode: Literal["gap", "uniform"]
    schema: Mapping[str, Any] | None
    reward_timeout: float | None
    default_reward: float | None
    reward_aggregation: Literal["first", "last", "max", "sum"]
    half_life: int | None
    holdout: float


class CreationArguments(ChangeArguments, total=False):
    """All settings except the arms, as arguments of the client."""

    policy: str
    policy_settings: Mapping[str, Any] | None
    rewards: Literal["binary"] | tuple[float, float]
    spare_slots: int | None
    arm_schema: Mapping[str, Any] | None
    slots: int
    max_pending: int
    seed: int


class Creation(Struct, kw_only=True):
    """The first event of an experiment."""

    name: str
    salt: str
    """The key of all random numbers, which makes them unpredictable."""
    id_prefix: str
    """Random prefix of its decision ids."""
    settings: ExperimentSettings
    writer: dict[str, str] = {}
    """The versions and the processor of the process that decides."""


class Takeover(Struct, kw_only=True):
    """A process has loaded an experiment and now decides for it."""

    id_prefix: str
    """Random prefix of its decision ids. Ids lost with their events are not issued again, and rewards for
    them are rejected as unknown."""
    writer: dict[str, str] = {}
    """The versions and the processor of the process."""


class SetAside(Takeover, kw_only=True):
    """A damaged experiment continues from its last good state, without the events after it."""

    reason: str
    """The damaged part."""
    last: int
    """Sequence number of the last event that was set aside or lost."""
    events: int
    """Number of events that were set aside. Other missing events are lost."""
    digest: str
    """Digest of the events that were set aside."""


class NewArm(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """An arm to add."""

    name: ArmName
    like: Annotated[ArmName | None, Meta(description="An arm to copy, with little of its evidence.")] = None
    features: Features = None


class Catalog(Struct, kw_only=True, forbid_unknown_fields=True):
    """All arms of an experiment whose arms have features."""

    arms: dict[ArmName, Features]


class CatalogChanges(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Changes to the arms of an experiment whose arms have features."""

    arms: Annotated[
        dict[ArmName, Features], Meta(description="Arms to add, or to give other features, by name.")
    ] = msgspec.field(default_factory=dict)
    remove: Annotated[list[ArmName], Meta(description="Arms to remove.")] = msgspec.field(
        default_factory=list
    )


class DecisionRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A request for one decision."""

    context: Context
    eligible: Eligible | None = None
    id: DecisionId | None = None
    idempotency_key: IdempotencyKey | None = None
    arms: Candidates | None = None
    deferred: Deferred = False
    control: Annotated[ArmName | None, Meta(description="The choice of the existing system.")] = None
    unit: Unit | None = None


class DecisionBatch(Struct, kw_only=True, forbid_unknown_fields=True):
    """A request for many decisions, made in order."""

    decisions: list[DecisionRequest]


class RankingRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A request for several different arms, in order."""

    context: Context
    k: Annotated[int, Meta(ge=1, description="Number of slots.")]
    eligible: Eligible | None = None
    id: DecisionId | None = None
    idempotency_key: IdempotencyKey | None = None
    arms: Candidates | None = None
    deferred: Deferred = False
    slot_names: Annotated[
        list[SlotName] | None, Meta(description="The names of the slots, for their rewards.")
    ] = None
    control: Annotated[
        ArmName | list[ArmName] | None,
        Meta(description="The choice of the existing system: the arms of the first slots, from the top."),
    ] = None
    unit: Unit | None = None


class RankingBatch(Struct, kw_only=True, forbid_unknown_fields=True):
    """A request for many rankings, made in order."""

    rankings: list[RankingRequest]


class ExplanationRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """A request to explain the decision for a context without making it."""

    context: Context
    eligible: Eligible | None = None
    arms: Candidates | None = None


class RewardRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """The reward of one decision, or of a ranking."""

    value: float | bool
    idempotency_key: IdempotencyKey | None = None
    slot: Slot | None = None
    examined: Examined | None = None
    metrics: Metrics | None = None


class RewardItem(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The reward of the decision or ranking with this id."""

    id: Annotated[str, Meta(min_length=1, max_length=100)]
    value: float | bool
    idempotency_key: IdempotencyKey | None = None
    slot: Slot | None = None
    examined: Examined | None = None
    metrics: Metrics | None = None


class Activation(Struct, kw_only=True):
    """A deferred decision or ranking that has now been shown."""

    id: str


class RewardBatch(Struct, kw_only=True, forbid_unknown_fields=True):
    """The rewards of many decisions."""

    rewards: list[RewardItem]


def named_features(candidates: Candidates | None) -> Any:
    """Return candidates in a form that ``glcb.Bandit`` accepts.

    >>> named_features([Candidate(arm="m17", features={"price": 3.0}), Candidate(arm="m4")])
    [('m17', {'price': 3.0}), ('m4', None)]
    """
    if isinstance(candidates, list):
        return [(candidate.arm, candidate.features) for candidate in candidates]
    return candidates


EstimatorName = Literal["dr", "snips", "ips", "dm", "clipped-ips", "switch-dr", "shrunk-dr"]
"""The estimators of ``glcb.evaluate``."""
DEFAULT_ESTIMATORS: tuple[EstimatorName, ...] = ("dr", "snips", "ips", "dm")

PolicyName = Annotated[str, Meta(min_length=1, max_length=300)]
_Natural = Annotated[int, Meta(ge=0, le=2**63 - 1)]
EventBound = _Natural | Annotated[datetime, Meta(tz=True)]
"""A sequence number, or a time."""


class PolicyChanges(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A policy to evaluate: the experiment with other settings. Omitted settings are unchanged."""

    policy: str | UnsetType = UNSET
    policy_settings: Mapping[str, Any] | UnsetType | None = UNSET
    """If ``policy`` changes, the default is null."""
    exploration: float | UnsetType = UNSET
    exploration_mode: Literal["gap", "uniform"] | UnsetType = UNSET
    schema: Mapping[str, Any] | UnsetType | None = UNSET
    spare_slots: int | UnsetType | None = UNSET
    half_life: int | UnsetType | None = UNSET
    seed: int | UnsetType = UNSET
    """By default, the seed of the evaluation."""
    without: Annotated[list[ArmName], Meta(description="Arms to leave out.")] = []


class EvaluationRequest(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What to evaluate on the log of an experiment."""

    policies: (
        Annotated[list[PolicyName], Meta(min_length=1)]
        | Annotated[dict[PolicyName, PolicyName | PolicyChanges], Meta(min_length=1)]
    )
    """The policies, as a list of names or as an object. A name is ``uniform``, ``best-fixed-arm``,
    ``arm=NAME``, or a policy that replaces the policy of the experiment. In an object, keys are free names,
    and values are one of these names or changes of settings."""
    after: EventBound | None = None
    """Evaluate only decisions after this event (a sequence number) or from this time on."""
    before: EventBound | None = None
    """Evaluate only decisions before this event (a sequence number) or before this time."""
    estimators: Annotated[tuple[EstimatorName, ...], Meta(min_length=1)] = DEFAULT_ESTIMATORS
    """The estimators. The curves plot the first one."""
    reference: PolicyName = "logged"
    """The policy that differences are relative to; ``logged`` is the experiment itself."""
    default_reward: float | None = None
    """Reward to assume where the log has none. By default, the default reward of the experiment."""
    replay: bool = True
    """Whether to replay the policies that learn as well."""
    max_ratio: Annotated[float, Meta(ge=1)] | None = None
    """The bound of π / p for replay. By default, 1 / the smallest propensity."""
    constant_values: bool = False
    """Whether to add a confidence sequence that assumes constant values."""
    seed: _Natural = 0
    """Seed of all random numbers."""


encode = msgspec.json.Encoder().encode
