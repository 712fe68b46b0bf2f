"""Build the responses that describe an experiment."""

from datetime import UTC, datetime
from itertools import islice

import msgspec
from msgspec import UNSET

from glcb._api.guardrails import ChangeList
from glcb._api.requests import ExplanationRequest, named_features
from glcb._api.responses import ArmExplanation, Contribution, Counts, ExperimentInfo, Explanation
from glcb._errors import InvalidInput
from glcb.bandit import recorded
from glcb.service.core.experiment import Experiment
from glcb.service.core.rankings import MAX_LISTED, has_catalog
from glcb.service.views import health
from glcb.service.views.lift import control_lift, lift


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


def changes(experiment: Experiment, limit: int, before: int) -> ChangeList:
    """Return the newest changes of an experiment before an event; 0 for the newest."""
    state = experiment.state
    found = () if state.trail is UNSET else state.trail.page(limit, before)
    return ChangeList(found)


def explanation(experiment: Experiment, request: ExplanationRequest) -> Explanation:
    """Return the value, bonus, contributions and probability of every arm for a context."""
    settings, eligible = experiment.state.settings, experiment.steering.eligible(request)
    if has_catalog(settings):
        candidates, everything = named_features(request.arms), request.eligible is not None
        explained = recorded.explain(experiment.bandit, request.context, candidates, eligible, everything)
        arm_probabilities = explained.probabilities
        assert arm_probabilities is not None  # arms have features
    else:
        if request.arms is not None:
            raise InvalidInput("the arms of this experiment have no features: pass eligible to restrict them")
        explained = experiment.bandit.explain(request.context)
        arm_probabilities = experiment.steering.explained(explained.arms, explained.scores, eligible)
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
