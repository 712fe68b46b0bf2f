"""Response bodies of the HTTP API, as immutable objects.

The client ignores unknown fields, so that newer versions of the service can add fields.
"""

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

from glcb._api.decisions import Decision as Decision
from glcb._api.decisions import PublicDecision as PublicDecision
from glcb._api.decisions import PublicRanking as PublicRanking
from glcb._api.decisions import Ranking as Ranking
from glcb._api.guardrails import ControlLift
from glcb._api.requests import EvaluationRequest, ExperimentSettings
from glcb._api.requests import State as State
from glcb._html import Bar, table, view


class Counts(Struct, frozen=True):
    """Decisions by outcome: decisions = rewarded + timed_out + evicted + removed + pending."""

    decisions: int
    """All decisions."""
    rewarded: int
    """Decisions that received a reward."""
    timed_out: int
    """Decisions whose ``reward_timeout`` passed without a reward."""
    evicted: int
    """Decisions dropped because more than ``max_pending`` were pending."""
    removed: int
    """Decisions whose arm was removed while they were pending, slots that were not examined, and deferred
    decisions that are not activated."""
    pending: int
    """Decisions that can still receive a reward."""


class GroupMean(Struct, frozen=True):
    """Number and mean of the rewards of one group."""

    n: int
    """Number of rewards."""
    mean: float | None
    """Mean reward; None without rewards."""


class Lift(Struct, frozen=True, kw_only=True):
    """Lift over random assignment: the expected reward of the bandit minus its expectation at random.

    It is the mean over the decisions so far whose reward is known, and is estimated from all of them by their
    propensities, not from the holdout alone. The confidence interval is valid at any time, approximately
    for large numbers of decisions: looking at it repeatedly does not invalidate it.
    """

    bandit: GroupMean
    """Rewards of decisions made by the bandit."""
    holdout: GroupMean
    """Rewards of decisions in the holdout."""
    n: int
    """Number of decisions from which the lift is estimated."""
    since: datetime | None
    """Time of the first of these decisions; None without any."""
    random: float | None
    """The estimated mean reward of random assignment; None without rewards, like all fields below."""
    difference: float | None
    """The lift, in units of the reward."""
    low: float | None
    """Lower end of the confidence interval."""
    high: float | None
    """Upper end of the confidence interval."""
    confidence: float
    """Confidence level of the intervals."""
    fixed_low: float | None
    """Lower end of the fixed-horizon interval, which is valid only at one time chosen in advance."""
    fixed_high: float | None
    """Upper end of the fixed-horizon interval."""
    relative: float | None
    """The lift as a share of ``random``; None if rewards can be negative."""
    extra_rewards: float | None
    """The estimated sum of rewards that the bandit has gained over random assignment, in the decisions from
    which the lift is estimated."""
    decisions_missing: int | None
    """About how many more of these decisions the interval needs to exclude zero, if the lift and the variance
    stay as they are; 0 if it does. None without an interval, or without a lift."""


class Check(Struct, frozen=True):
    """The result of a health check."""

    check: str
    """Name of the check."""
    ok: bool | None
    """Whether it passes; None while there is not enough data."""
    text: str
    """The result in a sentence."""


class ExperimentInfo(Struct, frozen=True, kw_only=True):
    """An experiment: its settings, state, counts and health."""

    name: str
    """Name of the experiment."""
    state: State | Literal["broken", "opening"]
    """``"broken"``: the experiment cannot be loaded; ``health`` says why. ``"opening"``: after a restart, its
    last events are being replayed; ``health`` says how many. Other fields are then as last saved."""
    created_at: datetime
    """Time of creation."""
    settings: ExperimentSettings
    """The current settings, including arms added or removed since the experiment was created; for arms with
    features, only the first 100."""
    arm_count: int
    """Number of arms."""
    counts: Counts
    """Number of decisions, by outcome."""
    reward_counts: dict[str, int]
    """Number of rewards learned, for each arm in ``settings``."""
    lift: Lift
    """Lift over random assignment."""
    health: tuple[Check, ...]
    """Results of the health checks."""
    sequence: int
    """Sequence number of the last event."""
    control_lift: ControlLift | None = None
    """Lift over the control, if decisions have one."""


class ExperimentList(Struct, frozen=True):
    """All experiments accessible to the API key."""

    experiments: tuple[ExperimentInfo, ...]
    """The experiments, sorted by name."""
    missing: tuple[str, ...] = ()
    """The names of experiments whose workers do not respond, if the service has several."""


class Contribution(Struct, frozen=True):
    """The contribution of one feature to the value of an arm."""

    feature: str
    """Name of the feature."""
    value: str
    """The value of the feature in this context, as text."""
    contribution: float
    """Its contribution, in units of the reward."""


class ArmExplanation(Struct, frozen=True, kw_only=True):
    """The value of one arm: its base plus the contributions of the features."""

    arm: str
    """Name of the arm."""
    value: float
    """The predicted reward."""
    base: float
    """The predicted reward before any feature is considered."""
    bonus: float | None
    """The exploration bonus; None means infinity: the arm is chosen first."""
    pseudocount: float
    """The effective number of earlier decisions for this arm in similar contexts."""
    probability: float
    """The probability with which the arm would be chosen."""
    contributions: tuple[Contribution, ...]
    """The contribution of each feature."""


class Explanation(Struct, frozen=True):
    """The explanation of a decision for a context. ``print`` shows it as text."""

    arms: tuple[ArmExplanation, ...]
    """The explanation of each arm."""
    text: str
    """The explanation as text."""

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        amounts = [abs(each.contribution) for arm in self.arms for each in arm.contributions]
        largest = max(amounts, default=0.0) or 1.0
        parts = []
        for arm in self.arms:
            rows = [
                (
                    f"{each.feature} = {each.value}",
                    Bar(f"{each.contribution:+.4g}", each.contribution / largest),
                )
                for each in arm.contributions
            ]
            title = (
                f"{arm.arm}: value {arm.value:.4g}, base {arm.base:.4g}, probability {arm.probability:.4g}"
            )
            parts.append(view(title, table(("feature", "contribution"), rows)))
        return "".join(parts)


class RewardAccepted(Struct, frozen=True):
    """The result of reporting a reward."""

    id: str
    """The id of the decision."""
    status: Literal["accepted", "duplicate"]
    """``"duplicate"``: a reward with the same idempotency key was already accepted."""


class Estimate(Struct, frozen=True, kw_only=True):
    """An estimated value, or an estimated difference between two policies.

    The standard error and the interval are valid only if neither the experiment nor the policy learns.
    """

    value: float
    """The estimate."""
    error: float | None
    """Standard error; None if there is too little data, like the interval."""
    low: float | None
    """Lower end of the normal 95% interval."""
    high: float | None
    """Upper end of the normal 95% interval."""


class Interval(Struct, frozen=True):
    """A confidence sequence: a 95% interval that is valid at every row, even if policies learn."""

    low: float
    """Lower end."""
    high: float
    """Upper end."""


class CurvePoint(Struct, frozen=True, kw_only=True):
    """The estimate of a policy after some of the decisions."""

    rows: int
    """Number of decisions so far."""
    at: datetime
    """Time of the last decision."""
    value: float
    """The estimate so far, by the first estimator."""
    low: float
    """Lower end of its confidence sequence."""
    high: float
    """Upper end of its confidence sequence."""


Level = Literal["ok", "warning", "error"]


class Diagnostic(Struct, frozen=True):
    """A check that says whether an estimate can be trusted."""

    name: str
    """Name of the check."""
    level: Level
    """``"error"``: do not use the numbers."""
    message: str
    """The result in words."""


class PolicyEvaluation(Struct, frozen=True, kw_only=True):
    """The estimated value of one policy."""

    name: str
    """Name of the policy; ``logged`` is the experiment itself."""
    level: Level
    """The worst level of its diagnostics. ``"error"``: do not use the numbers."""
    estimates: dict[str, Estimate]
    """The value by estimator; for a replay, the mean reward of the accepted rows as ``replay``."""
    differences: dict[str, Estimate]
    """The difference from the reference by estimator; empty for a replay."""
    interval: Interval | None
    """Confidence sequence of the value; None for a replay, like all fields below but ``rows``."""
    difference_interval: Interval | None
    """Confidence sequence of the difference from the reference; None for the reference."""
    betting_interval: Interval | None
    """A narrower confidence sequence that assumes a constant value; only on request."""
    rows: int
    """Number of decisions; for a replay, of accepted rows."""
    effective_rows: float | None
    """Effective sample size."""
    largest_weight: float | None
    """Largest importance weight."""
    match_rate: float | None
    """Mean probability that the policy gives to the chosen arms."""
    shares: dict[str, float]
    """Share of each arm in the decisions of the policy."""
    curve: tuple[CurvePoint, ...]
    """The value over time, at most 200 points."""
    diagnostics: tuple[Diagnostic, ...]
    """The checks and their results."""


class EvaluationResult(Struct, frozen=True, kw_only=True):
    """The estimated values of policies on the log of an experiment."""

    conclusion: str
    """Whether any policy is better than the reference, and the worst problem of this comparison."""
    level: Level
    """``"error"``: the log itself should not be used."""
    rows: int
    """Number of decisions that were evaluated."""
    first_at: datetime
    """Time of the first decision."""
    last_at: datetime
    """Time of the last decision."""
    arms: dict[str, int]
    """Number of decisions for each arm."""
    reference: str
    """The policy that differences are relative to."""
    policies: tuple[PolicyEvaluation, ...]
    """The results, the experiment itself (``logged``) first. Policies that learn are trained on the log."""
    replays: tuple[PolicyEvaluation, ...]
    """The results of replaying the policies that learn."""
    diagnostics: tuple[Diagnostic, ...]
    """Checks of the log."""
    refused: dict[str, int]
    """Number of rejected decisions, by reason."""
    examples: dict[str, str]
    """The first rejected decision for each reason."""
    notes: tuple[str, ...]
    """Further remarks for the reader."""


class EvaluationProgress(Struct, frozen=True):
    """The progress of an evaluation. The log is read twice."""

    stage: Literal["reading", "evaluating"]
    """The current stage."""
    done: int
    """Number of events read, or of decisions evaluated."""
    total: int
    """Total number of events or decisions."""


EvaluationState = Literal["queued", "running", "finished", "failed", "canceled"]


class EvaluationInfo(Struct, frozen=True, kw_only=True):
    """An evaluation of policies on the log of an experiment."""

    id: int
    """The id of the evaluation."""
    state: EvaluationState
    """Evaluations run one at a time; the others are queued."""
    created_at: datetime
    """Time of the request."""
    started_at: datetime | None = None
    """Time at which it started; None while it is queued."""
    finished_at: datetime | None = None
    """Time at which it finished, failed or was canceled."""
    request: EvaluationRequest
    """What to evaluate."""
    progress: EvaluationProgress | None = None
    """The progress; None unless the evaluation is running."""
    reason: str | None = None
    """Why the evaluation failed or was canceled."""
    conclusion: str | None = None
    """The conclusion of the result; None unless it is finished."""
    level: Level | None = None
    """The level of the result; None unless it is finished."""
    result: EvaluationResult | None = None
    """The result; None unless it is finished, and in lists."""


class EvaluationList(Struct, frozen=True):
    """Evaluations of an experiment, without their results."""

    evaluations: tuple[EvaluationInfo, ...]
    """The evaluations, newest first."""
    next: int | None
    """The value of ``before`` for the next page; None on the last page."""


class BatchResponse(Struct, frozen=True):
    """The results of a batch in request order: a response or an error for each item."""

    results: list[dict[str, Any]]
    """One response or error per item."""


class Status(Struct, frozen=True):
    """The state of the service."""

    status: str


class ErrorDetail(Struct, frozen=True, omit_defaults=True):
    """Why a request was rejected."""

    code: str
    """A stable code; the HTTP reference lists all codes."""
    message: str
    """What was expected, what was received and what to do."""
    field: str | None = None
    """The setting at fault, if there is one."""


class ErrorResponse(Struct, frozen=True):
    """The body of every error response."""

    error: ErrorDetail
    """The code and the message of the error."""
