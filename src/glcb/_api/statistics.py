"""Response bodies of the HTTP API with statistics of an experiment: now, over time, and by segment."""

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from glcb._api.guardrails import ControlLift, GuardrailStatus, MetricStats, ShadowStats
from glcb._api.responses import Check, Counts, Lift


class ArmStats(Struct, frozen=True, kw_only=True):
    """Statistics of one arm."""

    arm: str
    """Name of the arm."""
    decisions: int
    """Decisions for this arm."""
    share: float
    """Share of all decisions."""
    reward_mean: float | None
    """Mean observed reward of this arm."""
    low: float | None
    """Lower end of the confidence interval of ``reward_mean``, valid at any time. None without rewards."""
    high: float | None
    """Upper end of the confidence interval."""
    fixed_low: float | None
    """Lower end of the fixed-horizon interval, valid only at one time chosen in advance."""
    fixed_high: float | None
    """Upper end of the fixed-horizon interval."""
    predicted: float | None
    """Mean predicted reward over all recent contexts, regardless of the chosen arm; if arms have features,
    over the recent decisions for this arm."""
    rewards: int
    """Rewards learned."""


class OtherArms(Struct, frozen=True, kw_only=True):
    """Statistics of all unlisted arms together."""

    arms: int
    """Number of these arms whose names are known."""
    decisions: int
    """Decisions for these arms."""
    share: float
    """Share of all decisions."""
    reward_mean: float | None
    """Mean observed reward."""


class ArmRow(Struct, frozen=True, kw_only=True):
    """One arm in a list of arms, with its features and statistics."""

    arm: str
    """Name of the arm."""
    features: dict[str, Any] | None
    """Its features in the catalog; None if it has none, or is not in the catalog."""
    in_catalog: bool
    """Whether it is an arm of the experiment. Other arms were candidates of requests."""
    decisions: int
    """Decisions for this arm."""
    share: float
    """Share of all decisions."""
    reward_mean: float | None
    """Mean observed reward of this arm."""
    low: float | None
    """Lower end of the confidence interval of ``reward_mean``, valid at any time. None without rewards."""
    high: float | None
    """Upper end of the confidence interval."""
    fixed_low: float | None
    """Lower end of the fixed-horizon interval, valid only at one time chosen in advance."""
    fixed_high: float | None
    """Upper end of the fixed-horizon interval."""
    predicted: float | None
    """Mean predicted reward, as in the statistics."""
    rewards: int
    """Rewards learned."""


class ArmPage(Struct, frozen=True, kw_only=True):
    """A part of the list of arms."""

    arms: tuple[ArmRow, ...]
    """The arms from ``offset`` on."""
    total: int
    """Number of arms that match the search."""
    offset: int
    """Number of arms before the first one."""


class Block(Struct, frozen=True, kw_only=True, rename={"start": "from", "end": "to"}):
    """Statistics of one time interval."""

    start: datetime
    """Start of the interval."""
    end: datetime
    """End of the interval."""
    decisions: int
    """Number of decisions."""
    rewards: int
    """Number of rewards."""
    bandit_n: int
    """Number of rewards of decisions made by the bandit."""
    bandit_mean: float | None
    """Mean reward of decisions made by the bandit."""
    holdout_n: int
    """Number of rewards of decisions in the holdout."""
    holdout_mean: float | None
    """Mean reward of decisions in the holdout."""
    shares: dict[str, float]
    """Share of decisions, for the arms with the most decisions."""


class FeatureStats(Struct, frozen=True, kw_only=True):
    """A feature as inferred from contexts, and how often its value could not be used as sent."""

    name: str
    """Name of the feature."""
    kind: Literal["number", "category", "boolean"] | None
    """Kind of the feature; None until it has had a value."""
    range: tuple[float, float] | None
    """Lowest and highest value of a number."""
    values: tuple[str, ...]
    """Values of a category."""
    problems: dict[str, int]
    """Number of values with each problem."""


class Latency(Struct, frozen=True):
    """Microseconds per decision request, measured since the service started."""

    p50: float | None
    """Median."""
    p99: float | None
    """99th percentile."""


class Stats(Struct, frozen=True, kw_only=True):
    """Statistics of an experiment."""

    counts: Counts
    """Number of decisions, by outcome."""
    match_rate: float | None
    """Share of decisions that received a reward."""
    lift: Lift
    """Lift over random assignment."""
    arms: tuple[ArmStats, ...]
    """Statistics of each arm; if arms have features, of the 100 arms with the most decisions."""
    arm_count: int
    """Number of arms."""
    other_arms: OtherArms | None
    """All arms that are not in ``arms``; None if there are none."""
    blocks: tuple[Block, ...]
    """The history of the experiment, oldest first."""
    features: tuple[FeatureStats, ...]
    """Statistics of each feature."""
    arm_features: tuple[FeatureStats, ...]
    """Statistics of each feature of arms."""
    unmapped: int
    """Number of feature values for which the model has no slot."""
    errors: dict[str, int]
    """Rejected requests since the service started, by error code."""
    latency_us: Latency
    """Latency of decisions."""
    health: tuple[Check, ...]
    """Results of the health checks."""
    control_lift: ControlLift | None = None
    """Lift over the control, if decisions have one."""
    guardrails: tuple[GuardrailStatus, ...] = ()
    """The guardrails and their current estimates."""
    metrics: dict[str, MetricStats] = {}
    """The metrics that are reported with rewards, by name."""
    shadow: ShadowStats | None = None
    """The bandit's choices in shadow mode."""


class LiftEstimate(Struct, frozen=True, kw_only=True):
    """A lift: the expected reward of the bandit minus the expected reward of the baseline."""

    n: int
    """Number of decisions from which it is estimated."""
    since: datetime | None
    """Time of the first of these decisions; None without any."""
    baseline: float
    """The estimated mean reward of random assignment, or of the control."""
    difference: float
    """The lift, in units of the reward."""
    low: float | None
    """Lower end of the confidence interval, valid at any time; in curves, if ``anytime_valid``. None if a
    segment is not final yet."""
    high: float | None
    """Upper end of the confidence interval."""
    fixed_low: float | None
    """Lower end of the fixed-horizon interval, valid only at one time chosen in advance."""
    fixed_high: float | None
    """Upper end of the fixed-horizon interval."""
    confidence: float
    """Confidence level of the intervals. In segments, it is corrected for the number of segments."""
    relative: float | None
    """The lift as a share of ``baseline``; None if rewards can be negative."""
    extra_rewards: float
    """The estimated sum of rewards that the bandit has gained, in the decisions from which the lift is
    estimated."""
    decisions_missing: int | None
    """About how many more of these decisions the interval needs to exclude zero, if the lift and the variance
    stay as they are; 0 if it does. None without an interval, or without a lift."""


class ArmMean(Struct, frozen=True, kw_only=True):
    """Decisions and rewards of an arm in a range of time or in a segment."""

    arm: str
    """Name of the arm."""
    decisions: int
    """Decisions for this arm."""
    share: float
    """Share of all decisions."""
    rewards: int
    """Rewards counted."""
    reward_mean: float | None
    """Mean reward; None without rewards, like the intervals."""
    low: float | None
    """Lower end of the confidence interval of the mean, valid at any time; in curves if ``anytime_valid``."""
    high: float | None
    """Upper end of the confidence interval."""
    fixed_low: float | None
    """Lower end of the fixed-horizon interval, valid only at one time chosen in advance."""
    fixed_high: float | None
    """Upper end of the fixed-horizon interval."""


class Point(Struct, frozen=True, kw_only=True, rename={"start": "from", "end": "to"}):
    """One point of the curves: a period of time, and the lift until its end.

    A reward belongs to the period of its decision, even if it arrives later.
    """

    start: datetime
    """Start of the period."""
    end: datetime
    """End of the period, or the time of the last event."""
    complete: bool
    """Whether the period is over and all of its decisions have their rewards. Other periods can still change
    much: draw them as preliminary."""
    decisions: int
    """Number of decisions."""
    rewards: int
    """Number of rewards."""
    bandit_n: int
    """Number of rewards of decisions made by the bandit."""
    bandit_mean: float | None
    """Mean reward of decisions made by the bandit."""
    holdout_n: int
    """Number of rewards of decisions in the holdout."""
    holdout_mean: float | None
    """Mean reward of decisions in the holdout."""
    shares: dict[str, float]
    """Share of decisions, for the 12 arms with the most decisions in the range."""
    lift: LiftEstimate | None
    """Lift over random assignment, of all decisions from the start of the range to the end of this period."""
    control: LiftEstimate | None
    """Lift over the control in the same range; None without a control."""
    arm: ArmMean | None
    """The requested arm in this period alone."""


class Curves(Struct, frozen=True, kw_only=True, rename={"start": "from", "end": "to"}):
    """An experiment over time, in a range of dates.

    Recent periods are seconds and minutes; the last two weeks use hours, and older history uses days and
    weeks.
    """

    since: datetime
    """Start of the history: the creation of the experiment, the upload of its model, or the update of a
    service that kept no history."""
    start: datetime
    """Start of the range, at the beginning of a period."""
    end: datetime
    """End of the range, at the end of a period."""
    anytime_valid: bool
    """Whether the intervals are valid at any time, which holds if the range starts with the history. With a
    later start, they are valid only if the start was chosen in advance, without knowing rewards. The end can
    be any time."""
    lift: Lift
    """Lift over random assignment, of the decisions in the range."""
    control: LiftEstimate | None
    """Lift over the control, of the decisions in the range; None without a control."""
    arms: tuple[ArmMean, ...]
    """The arms in the range, at most the 100 with the most decisions."""
    points: tuple[Point, ...]
    """The points, oldest first."""


class SegmentStats(Struct, frozen=True, kw_only=True):
    """The decisions with one value of a feature, or with a number in a range."""

    value: str
    """The value, or the range in words."""
    kind: Literal["value", "range", "other", "missing"]
    """``"other"``: all values without their own segment. ``"missing"``: no value."""
    range: tuple[float | None, float | None] | None
    """Start and end (exclusive) of the range of a number. None for a category."""
    decisions: int
    """Number of decisions."""
    share: float
    """Share of the decisions of this feature."""
    lift: LiftEstimate | None
    """Lift over random assignment in this segment; None without rewards."""
    control: LiftEstimate | None
    """Lift over the control in this segment; None without a control."""
    most_chosen: str | None
    """The arm with the most decisions."""
    best_arm: str | None
    """The arm with the highest mean reward among the arms with at least 30 rewards."""
    arms: tuple[ArmMean, ...]
    """The five arms with the most decisions, and the best arm."""


class FeatureSegments(Struct, frozen=True, kw_only=True):
    """The segments of one feature."""

    feature: str
    """Name of the feature."""
    kind: Literal["category", "number"]
    """Kind of the feature."""
    since: datetime
    """Time from which its decisions are counted."""
    final: bool
    """Whether its values or ranges are final. Ranges are fixed after 200 values, and the values of a category
    after 1,000 decisions."""
    comparisons: int
    """The 5% error rate is divided by this number, the maximum number of segments, for each segment."""
    segments: tuple[SegmentStats, ...]
    """The segments: ranges in their order, or frequent values first."""


class SegmentList(Struct, frozen=True, kw_only=True):
    """Lift and best arms by segment."""

    since: datetime
    """Time from which decisions are counted."""
    confidence: float
    """The probability with which all intervals of all segments are right at all times, at least."""
    features: tuple[FeatureSegments, ...]
    """The features whose values are segments, at most eight."""
