"""Build the responses that describe an experiment."""

import contextlib
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import msgspec
from msgspec import UNSET

from glcb import _validation
from glcb._api.guardrails import ChangeList, ControlLift, MetricStats, ShadowStats, or_default
from glcb._api.requests import ExperimentSettings, ExplanationRequest, named_features
from glcb._api.responses import (
    ArmExplanation,
    Check,
    Contribution,
    Counts,
    ExperimentInfo,
    Explanation,
    GroupMean,
    Lift,
)
from glcb._errors import InvalidInput
from glcb.service import health
from glcb.service.arms import MAX_LISTED
from glcb.service.core.experiment import Experiment
from glcb.service.core.guard import MetricSums
from glcb.service.core.rankings import has_catalog
from glcb.service.core.tally import Group
from glcb.service.lift import CONFIDENCE, LiftSums
from glcb.service.storage.rows import ExperimentRow


def timestamp(seconds: float) -> str:
    """Return a time in RFC 3339 format.

    >>> timestamp(0.25)
    '1970-01-01T00:00:00.250000Z'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def experiment_info(experiment: Experiment) -> ExperimentInfo:
    """Return the settings, counts, lift and health of an experiment."""
    state, bandit = experiment.state, experiment.bandit
    settings, rewards = state.settings, bandit.reward_counts
    if isinstance(settings.arms, dict):
        shown = dict(islice(settings.arms.items(), MAX_LISTED))
        settings = msgspec.structs.replace(settings, arms=shown)
    return ExperimentInfo(
        name=state.creation.name,
        state=state.status,
        created_at=datetime.fromtimestamp(state.created, UTC),
        counts=Counts(**bandit.counts),
        arm_count=len(bandit.arms),
        reward_counts={arm: rewards.get(arm, 0) for arm in settings.arms},
        lift=lift(experiment),
        health=health.checks(experiment),
        sequence=state.sequence,
        settings=settings,
        control_lift=control_lift(experiment),
    )


def broken_experiment_info(row: ExperimentRow, reason: str) -> ExperimentInfo:
    """Return an experiment that cannot be loaded, with the numbers of its newest snapshot if it has one."""
    last = stored_experiment_info(row) or ExperimentInfo(
        name=row.name,
        state="broken",
        created_at=datetime.fromtimestamp(0, UTC),
        counts=Counts(0, 0, 0, 0, 0, 0),
        arm_count=0,
        reward_counts={},
        lift=lift_of(LiftSums(), Group(), Group(), 0.0, 1.0),
        health=(),
        sequence=row.last_sequence,
        settings=ExperimentSettings(arms=[]),
    )
    check = Check("loaded", False, f"The experiment cannot be loaded: {reason}.")
    return msgspec.structs.replace(last, state="broken", health=(check,))


_decode_info = msgspec.json.Decoder(ExperimentInfo).decode


def stored_experiment_info(row: ExperimentRow) -> ExperimentInfo | None:
    """Return the summary of the newest snapshot, or None if it is missing or damaged."""
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
        info = _decode_info(row.summary)
        return info if info.name == row.name else None
    return None


def lift(experiment: Experiment) -> Lift:
    """Return the lift over random assignment, in units of the reward."""
    tally = experiment.state.tally
    return lift_of(tally.lift, tally.bandit, tally.holdout, *experiment.reward_range)


def lift_of(sums: LiftSums, bandit: Group, holdout: Group, low: float, high: float) -> Lift:
    """Return the lift of some decisions.

    Parameters
    ----------
    sums
        Their sums.
    bandit, holdout
        The rewards of both groups.
    low, high
        The lowest and the highest reward.
    """
    unit = high - low
    difference = sums.lift / sums.n * unit if sums.n else None
    random = low + unit * min(max(sums.random / sums.n, 0.0), 1.0) if sums.n else None
    at_all_times, fixed = (
        (None, None) if ends is None else (ends[0] * unit, ends[1] * unit)
        for ends in (sums.interval(), sums.fixed_interval())
    )
    relative = difference / random if difference is not None and random and low >= 0 else None
    return Lift(
        bandit=_group_mean(bandit),
        holdout=_group_mean(holdout),
        n=sums.n,
        random=random,
        difference=difference,
        low=at_all_times[0],
        high=at_all_times[1],
        confidence=CONFIDENCE,
        fixed_low=fixed[0],
        fixed_high=fixed[1],
        relative=relative,
        extra_rewards=None if difference is None else sums.gained() * unit,
    )


def control_lift(experiment: Experiment) -> ControlLift | None:
    """Return the lift over the control, in units of the reward; None if decisions have no control."""
    state, (low, high) = experiment.state, experiment.reward_range
    if state.guard is UNSET or (state.settings.control is UNSET and not state.guard.lift.n):
        return None
    sums, unit = state.guard.lift, high - low
    difference = sums.lift / sums.n * unit if sums.n else None
    control = low + unit * min(max(sums.random / sums.n, 0.0), 1.0) if sums.n else None
    at_all_times, fixed = (
        (None, None) if ends is None else (ends[0] * unit, ends[1] * unit)
        for ends in (sums.interval(), sums.fixed_interval())
    )
    return ControlLift(
        n=sums.n,
        control=control,
        difference=difference,
        low=at_all_times[0],
        high=at_all_times[1],
        confidence=CONFIDENCE,
        fixed_low=fixed[0],
        fixed_high=fixed[1],
        relative=difference / control if difference is not None and control and low >= 0 else None,
        extra_rewards=None if difference is None else sums.gained() * unit,
    )


def guard_stats(experiment: Experiment) -> dict[str, Any]:
    """Return the statistics of control, metrics, guardrails and shadow mode, by field."""
    state = experiment.state
    if state.guard is UNSET:
        return {}
    guard, arms = state.guard, tuple(map(str, experiment.bandit.arms))
    metrics = or_default(state.settings.metrics, {})
    sums = {name: guard.metrics.get(name, MetricSums()) for name in metrics}
    return {
        "control_lift": control_lift(experiment),
        "guardrails": guard.statuses(experiment.ranges, arms),
        "metrics": {
            name: MetricStats(n=one.n, mean=one.total / one.n if one.n else None, unit=metrics[name].unit)
            for name, one in sums.items()
        },
        "shadow": ShadowStats(decisions=guard.shadow_decisions, agreements=guard.agreements)
        if guard.shadow_decisions
        else None,
    }


def changes(experiment: Experiment, limit: int, before: int) -> ChangeList:
    """Return the newest changes of an experiment before an event; 0 for the newest."""
    state = experiment.state
    found = () if state.trail is UNSET else state.trail.page(limit, before)
    return ChangeList(found)


def _group_mean(group: Group) -> GroupMean:
    return GroupMean(group.n, group.mean)


def explanation(experiment: Experiment, request: ExplanationRequest) -> Explanation:
    """Return the value, bonus, contributions and probability of every arm for a context."""
    settings = experiment.state.settings
    if has_catalog(settings):
        candidates, eligible = named_features(request.arms), request.eligible
        explained = experiment.bandit.explain(request.context, arms=candidates, eligible=eligible)
        arm_probabilities = explained.probabilities
        assert arm_probabilities is not None  # arms have features
    else:
        if request.arms is not None:
            raise InvalidInput("the arms of this experiment have no features: pass eligible to restrict them")
        explained = experiment.bandit.explain(request.context)
        allowed = None
        if request.eligible is not None:
            allowed = _validation.eligible(
                request.eligible, {arm: number for number, arm in enumerate(explained.arms)}
            )
        arm_probabilities = experiment.steering.explained(explained.arms, explained.scores, allowed)
    own_values = explained.own_values or (explained.feature_values,) * len(explained.arms)
    arms = tuple(
        ArmExplanation(
            arm=str(arm["arm"]),
            value=arm["value"],
            base=arm["base"],
            bonus=arm["bonus"],
            pseudocount=arm["pseudocount"],
            probability=float(probability),
            contributions=tuple(
                Contribution(feature, values[feature], amount)
                for feature, amount in arm["contributions"].items()
            ),
        )
        for arm, probability, values in zip(
            explained.as_dict()["arms"],
            arm_probabilities,
            (dict(zip(explained.features, own, strict=True)) for own in own_values),
            strict=True,
        )
    )
    return Explanation(arms, str(explained))
