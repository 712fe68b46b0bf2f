"""Build the responses that describe an experiment."""

import contextlib
from datetime import UTC, datetime

import msgspec

from glcb import _validation
from glcb._api.requests import ExperimentSettings, ExplanationRequest
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
from glcb.explore.probabilities import probabilities
from glcb.service import health
from glcb.service.core.experiment import Experiment
from glcb.service.core.tally import Group, Tally
from glcb.service.lift import CONFIDENCE
from glcb.service.storage.database import ExperimentRow


def timestamp(seconds: float) -> str:
    """Return a time in RFC 3339 format.

    >>> timestamp(0.25)
    '1970-01-01T00:00:00.250000Z'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def experiment_info(experiment: Experiment) -> ExperimentInfo:
    """Return the settings, counts, lift and health of an experiment."""
    state, bandit = experiment.state, experiment.bandit
    return ExperimentInfo(
        name=state.creation.name,
        state=state.status,
        created_at=datetime.fromtimestamp(state.created, UTC),
        counts=Counts(**bandit.counts),
        reward_counts={str(arm): rewards for arm, rewards in bandit.reward_counts.items()},
        lift=lift(experiment),
        health=health.checks(experiment),
        sequence=state.sequence,
        settings=state.settings,
    )


def broken_experiment_info(row: ExperimentRow, reason: str) -> ExperimentInfo:
    """Return an experiment that cannot be loaded, with the numbers of its newest snapshot if it has one."""
    last = parse_experiment_info(row.summary) or ExperimentInfo(
        name=row.name,
        state="broken",
        created_at=datetime.fromtimestamp(0, UTC),
        counts=Counts(0, 0, 0, 0, 0, 0),
        reward_counts={},
        lift=_lift(Tally(), 0.0, 1.0),
        health=(),
        sequence=row.last_sequence,
        settings=ExperimentSettings(arms=[]),
    )
    check = Check("loaded", False, f"The experiment cannot be loaded: {reason}.")
    return msgspec.structs.replace(last, state="broken", health=(check,))


def parse_experiment_info(content: bytes) -> ExperimentInfo | None:
    """Return an encoded ``ExperimentInfo``, or None if it is missing or unreadable."""
    with contextlib.suppress(msgspec.DecodeError):
        return msgspec.json.decode(content, type=ExperimentInfo)
    return None


def lift(experiment: Experiment) -> Lift:
    """Return the lift over random assignment, in units of the reward."""
    return _lift(experiment.state.tally, *experiment.reward_range)


def _lift(tally: Tally, low: float, high: float) -> Lift:
    sums, unit = tally.lift, high - low
    difference = sums.lift / sums.n * unit if sums.n else None
    random = low + unit * min(max(sums.random / sums.n, 0.0), 1.0) if sums.n else None
    at_all_times, fixed = (
        (None, None) if ends is None else (ends[0] * unit, ends[1] * unit)
        for ends in (sums.interval(), sums.fixed_interval())
    )
    relative = difference / random if difference is not None and random and low >= 0 else None
    return Lift(
        bandit=_group_mean(tally.bandit),
        holdout=_group_mean(tally.holdout),
        n=sums.n,
        random=random,
        difference=difference,
        low=at_all_times[0],
        high=at_all_times[1],
        confidence=CONFIDENCE,
        fixed_low=fixed[0],
        fixed_high=fixed[1],
        relative=relative,
        extra_rewards=None if difference is None else difference * tally.bandit.n,
    )


def _group_mean(group: Group) -> GroupMean:
    return GroupMean(group.n, group.mean)


def explanation(experiment: Experiment, request: ExplanationRequest) -> Explanation:
    """Return the value, bonus, contributions and probability of every arm for a context."""
    explained = experiment.bandit.explain(request.context)
    settings = experiment.state.settings
    eligible = None
    if request.eligible is not None:
        eligible = _validation.eligible(
            request.eligible, {arm: number for number, arm in enumerate(explained.arms)}
        )
    arm_probabilities = probabilities(
        explained.scores, eligible, settings.exploration, settings.exploration_mode
    )
    values = dict(zip(explained.features, explained.feature_values, strict=True))
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
        for arm, probability in zip(explained.as_dict()["arms"], arm_probabilities, strict=True)
    )
    return Explanation(arms, str(explained))
