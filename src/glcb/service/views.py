"""What answers show of an experiment."""

import contextlib
from datetime import UTC, datetime

import msgspec

from glcb import _validation
from glcb._api import requests
from glcb._api import requests as messages
from glcb._api.requests import ExplainRequest
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
from glcb.service.core.tally import Tally
from glcb.service.lift import CONFIDENCE, Group, interval
from glcb.service.storage.storage import Known


def timestamp(seconds: float) -> str:
    """Return a time as RFC 3339 writes it.

    >>> timestamp(0.25)
    '1970-01-01T00:00:00.250000Z'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def experiment(seen: Experiment) -> ExperimentInfo:
    """Return an experiment and where it stands."""
    around, bandit = seen.around, seen.bandit
    return ExperimentInfo(
        name=around.creation.name,
        state=around.state,
        created=datetime.fromtimestamp(around.created, UTC),
        counts=Counts(**bandit.counts),
        reward_counts={str(arm): plays for arm, plays in bandit.reward_counts.items()},
        lift=lift(seen),
        health=health.checks(seen),
        sequence=around.sequence,
        **msgspec.structs.asdict(around.settings),
    )


def broken(known: Known, why: str) -> ExperimentInfo:
    """Return an experiment that cannot be loaded, as it was when last saved if that is known."""
    last = parsed(known.summary) or ExperimentInfo(
        name=known.name,
        state="broken",
        created=datetime.fromtimestamp(0, UTC),
        counts=Counts(0, 0, 0, 0, 0, 0),
        reward_counts={},
        lift=_lift(Tally(), 0.0, 1.0),
        health=(),
        sequence=known.last,
        **msgspec.structs.asdict(requests.Settings(arms=[])),
    )
    told = Check("loaded", False, f"It cannot be loaded: {why}.")
    return msgspec.structs.replace(last, state="broken", health=(told,))


def lift(seen: Experiment) -> Lift:
    """Return what the bandit brings more than chance."""
    return _lift(seen.around.tally, *seen.reward_range)


def _lift(tally: Tally, low: float, high: float) -> Lift:

    def group(own: Group) -> GroupMean:
        return GroupMean(own.n, None if own.mean is None else low + (high - low) * own.mean)

    bandit, holdout = group(tally.bandit), group(tally.holdout)
    ends = interval(tally.bandit, tally.holdout)
    difference = None if bandit.mean is None or holdout.mean is None else bandit.mean - holdout.mean
    return Lift(
        bandit=bandit,
        holdout=holdout,
        difference=difference,
        low=None if ends is None else ends[0] * (high - low),
        high=None if ends is None else ends[1] * (high - low),
        confidence=CONFIDENCE,
    )


def mean(total: float, n: int) -> float | None:
    """Return a mean, if there is one."""
    return total / n if n else None


def encoded(view: ExperimentInfo) -> bytes:
    """Return a view as it is answered and kept with a snapshot."""
    return messages.encode(view)


def parsed(content: bytes) -> ExperimentInfo | None:
    """Return a view that was kept, if it is there and can be read."""
    with contextlib.suppress(msgspec.DecodeError):
        return msgspec.json.decode(content, type=ExperimentInfo)
    return None


def explanation(seen: Experiment, request: ExplainRequest) -> Explanation:
    """Return where the value of every arm comes from, and how likely each would be played."""
    found = seen.bandit.explain(request.context)
    settings = seen.around.settings
    allowed = None
    if request.eligible is not None:
        allowed = _validation.eligible(
            request.eligible, {arm: number for number, arm in enumerate(found.arms)}
        )
    chances = probabilities(found.scores, allowed, settings.exploration, settings.exploration_mode)
    given = dict(zip(found.features, found.given, strict=True))
    told = found.as_dict()["arms"]
    arms = tuple(
        ArmExplanation(
            arm=str(arm["arm"]),
            value=arm["value"],
            base=arm["base"],
            bonus=arm["bonus"],
            pseudocount=arm["pseudocount"],
            probability=float(chance),
            contributions=tuple(
                Contribution(feature, given[feature], amount)
                for feature, amount in arm["contributions"].items()
            ),
        )
        for arm, chance in zip(told, chances, strict=True)
    )
    return Explanation(arms, str(found))
