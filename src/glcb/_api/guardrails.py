"""Guardrails, control, shadow mode and the change history in requests and responses."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, TypedDict, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType

METRIC_NAME = "[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
"""The pattern of the name of a metric."""
REWARD = "reward"
"""The name by which a guardrail refers to the reward itself."""

LOCAL, GUARDRAIL = "local", "guardrail"
"""Names for changes without an API key and by guardrails."""
RESERVED_NAMES = (LOCAL, GUARDRAIL)
"""Names reserved for the change history, which neither a person nor an API key can have."""

Baseline = Literal["random", "control"]
"""What the holdout is served, and the baseline of guardrails."""
Pauses = Literal["arm", "experiment", "nothing"]
"""What a guardrail does when it breaks."""
MetricName = Annotated[str, Meta(pattern=f"^{METRIC_NAME}$")]
Reason = Annotated[str, Meta(max_length=500, description="The reason, for the change history.")]

# ---- requests -----------------------------------------------------------------------------------


class Metric(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A number that is reported with rewards, besides the reward itself."""

    range: tuple[float, float]
    """The lowest and the highest value."""
    default: float | None = None
    """The value of decisions that have a reward but no value of this metric. If null, they are left out."""
    unit: Annotated[str, Meta(max_length=20)] | None = None
    """The unit, such as €."""


class Guardrail(Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """A metric that must not fall, or must not rise, by more than a tolerated amount."""

    metric: MetricName = REWARD
    """The metric; `reward` is the reward itself."""
    max_fall: Annotated[float, Meta(ge=0)] | None = None
    """The tolerated fall: a share of the value of `against`, or units of the metric. A guardrail has either
    `max_fall` or `max_rise`."""
    max_rise: Annotated[float, Meta(ge=0)] | None = None
    """The tolerated rise, in the same way, for a metric that must not rise."""
    relative: bool = True
    """Whether `max_fall` or `max_rise` is a share."""
    against: Baseline = "control"
    """The baseline of the comparison."""
    pauses: Pauses = "arm"
    """What is paused when the guardrail breaks."""

    @property
    def rises(self) -> bool:
        """Whether the metric must not rise."""
        return self.max_rise is not None

    @property
    def tolerated(self) -> float:
        """The tolerated fall or rise."""
        return self.max_rise if self.max_rise is not None else self.max_fall or 0.0


class ArmChanges(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Changes to one arm."""

    paused: Annotated[bool, Meta(description="Whether decisions skip the arm. What was learned is kept.")]
    reason: Reason | None = None


class ArmPause(Struct, kw_only=True, omit_defaults=True):
    """The event that pauses or resumes an arm."""

    name: str
    paused: bool
    reason: str | None = None


class Breach(Struct, kw_only=True, omit_defaults=True):
    """The event that a guardrail broke."""

    guardrail: Guardrail
    arm: str | None = None
    """The arm that is paused."""
    reason: str


# ---- responses ----------------------------------------------------------------------------------


class ControlLift(Struct, frozen=True, kw_only=True):
    """Lift over the control: the expected reward of the bandit minus the expected reward of the control.

    It is estimated from the decisions that have a control, like the lift over random assignment.
    """

    n: int
    """Number of decisions from which the lift is estimated."""
    since: datetime | None
    """Time of the first of these decisions; None without any."""
    control: float | None
    """The estimated mean reward of the control; None without rewards, like all fields below."""
    difference: float | None
    """The lift, in units of the reward."""
    low: float | None
    """Lower end of the confidence interval, which is valid at any time."""
    high: float | None
    """Upper end of the confidence interval."""
    confidence: float
    """Confidence level of the intervals."""
    fixed_low: float | None
    """Lower end of the fixed-horizon interval, which is valid only at one time chosen in advance."""
    fixed_high: float | None
    """Upper end of the fixed-horizon interval."""
    relative: float | None
    """The lift as a share of ``control``; None if rewards can be negative."""
    extra_rewards: float | None
    """The estimated sum of rewards that the bandit has gained over the control, in the decisions from which
    the lift is estimated: those since there is a control."""
    decisions_missing: int | None
    """About how many more of these decisions the interval needs to exclude zero, if the lift and the variance
    stay as they are; 0 if it does. None without an interval, or without a lift."""


class GuardrailStatus(Struct, frozen=True, kw_only=True):
    """A guardrail and its current estimate, for an arm or for the whole experiment."""

    metric: str
    """The metric."""
    against: Baseline
    """What it is compared with."""
    max_fall: float | None
    """The tolerated fall; None if the metric must not rise."""
    max_rise: float | None
    """The tolerated rise; None if the metric must not fall."""
    relative: bool
    """Whether it is a share."""
    pauses: Pauses
    """What is paused when the guardrail breaks."""
    arm: str | None
    """The arm; None for the whole experiment."""
    n: int
    """Number of decisions in the estimate."""
    value: float | None
    """The estimated mean of the metric; for an arm, in the bandit's decisions for it. None without data, like
    all numbers below."""
    reference: float | None
    """The estimated mean of the metric under ``against``, in the same decisions."""
    margin: float | None
    """By how much the value is above the tolerated minimum, or below the tolerated maximum; negative if it is
    not."""
    low: float | None
    """Lower bound of the margin, valid at any time."""
    high: float | None
    """Upper bound of the margin, valid at any time. The guardrail breaks if it is negative."""
    broken: bool
    """Whether the guardrail has broken."""


class MetricStats(Struct, frozen=True, kw_only=True):
    """The values of a metric."""

    n: int
    """Number of values."""
    mean: float | None
    """Their mean."""
    unit: str | None
    """Their unit."""


class ShadowStats(Struct, frozen=True, kw_only=True):
    """The bandit's choices in shadow mode."""

    decisions: int
    """Number of decisions in shadow mode."""
    agreements: int
    """Number of these decisions in which the bandit would have chosen the control."""


Action = Literal[
    "created",
    "settings_changed",
    "arm_added",
    "arm_removed",
    "arm_paused",
    "arm_resumed",
    "arms_changed",
    "model_uploaded",
    "guardrail_broken",
    "recovered",
]


class SettingChange(
    Struct, frozen=True, kw_only=True, omit_defaults=True, rename={"before": "from", "after": "to"}
):
    """A setting before and after a change."""

    setting: str
    """Name of the setting."""
    before: Any = None
    """The value before the change."""
    after: Any = None
    """The value after the change."""
    shortened: bool = False
    """Whether the values are too long to be kept; they are only in the events."""


class Change(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change of an experiment, other than a decision or a reward."""

    sequence: int
    """Sequence number of its event."""
    at: datetime
    """Time of the change."""
    by: str
    """Name of the API key; ``local`` without keys, ``guardrail`` for an automatic pause."""
    action: Action
    """The kind of change."""
    arm: str | None = None
    """The arm that was added, removed, paused or resumed."""
    reason: str | None = None
    """Why."""
    changes: tuple[SettingChange, ...] = ()
    """The settings that changed."""


class ChangeList(Struct, frozen=True):
    """Changes of an experiment."""

    changes: tuple[Change, ...]
    """The changes, newest first."""


# ---- settings of an experiment ------------------------------------------------------------------

Text = Annotated[str, Meta(max_length=2000)]
Share = Annotated[float, Meta(ge=0, le=1)]
Time = Annotated[datetime, Meta(tz=True)]


SegmentNames = Annotated[list[Annotated[str, Meta(min_length=1, max_length=100)]], Meta(max_length=8)]


class SteeringSettings(Struct, kw_only=True, forbid_unknown_fields=True):
    """The settings of an experiment for traffic, guardrails and documentation. All are optional.

    Settings that are not set are not stored, so that an experiment without them equals an experiment of an
    earlier version, bit for bit.
    """

    shares: dict[str, tuple[float, float]] | UnsetType | None = UNSET
    control: Annotated[str, Meta(min_length=1, max_length=200)] | UnsetType | None = UNSET
    """The control arm. A decision can have its own."""
    baseline: Baseline | UnsetType | None = UNSET
    """What the holdout, and traffic outside `ramp`, are served."""
    traffic: Share | UnsetType | None = UNSET
    """Share of the traffic that the bandit decides. The rest is part of the holdout."""
    shadow: bool | UnsetType | None = UNSET
    """Whether all traffic is served the control. The bandit's choice is logged."""
    start_at: Time | UnsetType | None = UNSET
    """When the experiment starts making decisions."""
    end_at: Time | UnsetType | None = UNSET
    """When the experiment stops making decisions."""
    metrics: dict[MetricName, Metric] | UnsetType | None = UNSET
    """Metrics reported with rewards, by name."""
    guardrails: list[Guardrail] | UnsetType | None = UNSET
    """Metrics that must not fall, or must not rise."""
    trust_publishable: bool | UnsetType | None = UNSET
    """Whether guardrails count reports from publishable API keys. The default is no, because visitors could
    break guardrails."""
    description: Text | UnsetType | None = UNSET
    """A description of the experiment."""
    owner: Annotated[str, Meta(max_length=200)] | UnsetType | None = UNSET
    """The person or team responsible."""
    hypothesis: Text | UnsetType | None = UNSET
    """The hypothesis being tested."""
    reward_unit: Annotated[str, Meta(max_length=20)] | UnsetType | None = UNSET
    """The unit of the reward, such as €, % or s."""
    segments: SegmentNames | UnsetType | None = UNSET
    """The features whose values are segments in the statistics. By default, the service chooses them. A
    change starts the statistics of segments anew."""


class SteeringArguments(TypedDict, total=False):
    """The settings of :class:`SteeringSettings` as arguments of the client."""

    shares: Mapping[str, tuple[float, float]] | None
    control: str | None
    baseline: Baseline | None
    traffic: float | None
    shadow: bool | None
    start_at: datetime | None
    end_at: datetime | None
    metrics: Mapping[str, Metric] | None
    guardrails: Sequence[Guardrail] | None
    trust_publishable: bool | None
    description: str | None
    owner: str | None
    hypothesis: str | None
    reward_unit: str | None
    segments: Sequence[str] | None


STEERING = SteeringSettings.__struct_fields__
"""The names of the steering settings."""

T = TypeVar("T")


def or_default(value: T | UnsetType | None, default: T) -> T:
    """Return the value of a setting, or a default if it is not set.

    >>> or_default(UNSET, 1.0), or_default(0.25, 1.0)
    (1.0, 0.25)
    """
    return default if value is UNSET or value is None else value
