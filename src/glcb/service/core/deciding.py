"""Decisions and rankings: the group, the draw, the answer and the record, and how the record is counted.

``draw`` chooses, and ``register`` counts what was chosen. Recovery does without the first. All requests take
the same way: a decision is a ranking with one slot, and who is served what (``steering.py``) is a step before
the draw and one after it.
"""

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import UNSET

from glcb._api.requests import DecisionRequest, RankingRequest, encode, named_features
from glcb._api.responses import Decision, Ranking
from glcb.bandit import recorded
from glcb.bandit.slots import slot_id
from glcb.explore import choice
from glcb.service.core import presentations
from glcb.service.core.administration import Result
from glcb.service.core.idempotency import StoredAnswer, digest
from glcb.service.core.open_decisions import OpenDecision
from glcb.service.core.rankings import all_probabilities, most_likely
from glcb.service.core.records import DecisionRecord, SlotRecord, encode_record
from glcb.service.core.steering import Assignment, SteeredSlot, steered_slots

if TYPE_CHECKING:
    from glcb.service.core.experiment import Experiment

Request = DecisionRequest | RankingRequest


def decide(experiment: "Experiment", request: Request) -> Result:
    """Make a decision, or choose the arms of several slots."""
    own_digest = _digest(request)  # before anything changes: it fails if the request is nested too deeply
    repeated = experiment.state.idempotency_keys.find(request.idempotency_key, own_digest)
    if repeated is not None:
        return Result(None, repeated)
    answer, record = draw(experiment, request)
    encoded = encode_record(record)
    register(experiment, request, record, own_digest)
    return Result(answer, answer, encoded)


def recover(experiment: "Experiment", request: Request, record: DecisionRecord) -> None:
    """Count a decision that was made before."""
    recorded.add_decision(
        experiment.bandit,
        request.context,
        [(slot.arm, slot.propensity) for slot in record.slots],
        arms=named_features(request.arms),
        eligible=experiment.steering.eligible(request),
        id=record.id,
    )
    register(experiment, request, record, _digest(request))


def draw(experiment: "Experiment", request: Request) -> tuple[bytes, DecisionRecord]:
    """Let the bandit decide; return the answer, and the record that is to be registered."""
    experiment.reject_if("archived", "paused")
    steering, is_ranking = experiment.steering, isinstance(request, RankingRequest)
    if isinstance(request, RankingRequest):
        presentations.check_request(request, experiment.state.settings.max_pending)
    steering.check_schedule(experiment.now)
    count = request.k if isinstance(request, RankingRequest) else 1
    assignment = steering.assign(request, experiment.group_fraction, count)
    drawn = _draw_slots(experiment, request, assignment, count)
    records: list[SlotRecord] = []
    overall: list[float] = []
    shadow: list[str] = []
    for record, shares in steering.records(drawn.slots, drawn.arms, assignment):
        records.append(record)
        if steering.serves_control:
            overall.append(float(shares.overall[shares.chosen]))
        if steering.is_shadow:
            arm = choice.draw(shares.own, experiment.fraction(b"shadow%d" % len(shadow)))
            shadow.append(str(drawn.arms[arm]))
    bounded = (
        steering.has_shares
        and not assignment.serve
        and steering.is_bounded(drawn.arms, drawn.slots[0].probabilities, assignment.eligible)
    )
    answer: Decision | Ranking
    if is_ranking:
        answer = Ranking(
            id=drawn.id,
            arms=tuple(slot.arm for slot in drawn.slots),
            propensities=tuple(record.propensity for record in records),
            holdout=assignment.held_out,
            candidates=len(drawn.arms if assignment.eligible is None else set(assignment.eligible)),
            control=assignment.control,
            overall_propensities=tuple(overall),
            shadow=tuple(shadow),
            bounded=bounded,
        )
    else:
        answer = Decision(
            id=drawn.id,
            arm=drawn.slots[0].arm,
            propensity=records[0].propensity,
            probabilities=drawn.listed,
            holdout=assignment.held_out,
            candidates=len(drawn.arms) if experiment.has_catalog else None,
            control=assignment.control[0] if assignment.control else None,
            overall_propensity=overall[0] if overall else None,
            shadow=shadow[0] if shadow else None,
            bounded=bounded,
        )
    agrees = shadow[0] == drawn.slots[0].arm if shadow else None
    return encode(answer), DecisionRecord(drawn.id, assignment.held_out, records, agrees)


class _Drawn(NamedTuple):
    """What the bandit has chosen."""

    id: str
    arms: tuple[Any, ...]
    """All candidates."""
    slots: list[SteeredSlot]
    listed: dict[str, float]
    """The probabilities in the answer to a decision."""


def _draw_slots(experiment: "Experiment", request: Request, assignment: Assignment, count: int) -> _Drawn:
    """Let the bandit rank; a decision is a ranking with one slot."""
    ranking = experiment.bandit.rank(
        request.context,
        k=count,
        arms=named_features(request.arms),
        eligible=assignment.eligible,
        uniform=assignment.uniform,
        serve=assignment.serve,
        id=request.id,
    )
    listed: dict[str, float] = {}
    if not isinstance(request, RankingRequest):
        listed = most_likely(ranking) if experiment.has_catalog else all_probabilities(ranking)
    return _Drawn(ranking.id, ranking.candidates, steered_slots(ranking), listed)


def _digest(request: Request) -> bytes:
    """Return the digest of a request with an idempotency key, otherwise nothing."""
    return b"" if request.idempotency_key is None else digest(request)


def register(
    experiment: "Experiment", request: Request, record: DecisionRecord, request_digest: bytes
) -> None:
    """Count a decision that the bandit has made, or has added."""
    state, now = experiment.state, experiment.now
    predicts, arms = state.tally.predicts, experiment.bandit.arms
    segments = state.tally.add_decision(now, record.slots, record.held_out, arms, request.context)  # type: ignore[arg-type]
    for number, (slot, places) in enumerate(zip(record.slots, segments, strict=True)):
        is_listed = number == 0 and not experiment.has_catalog
        predicted = slot.values[arms.index(slot.arm) if is_listed else 0] if predicts else None
        opened = OpenDecision(slot.arm, record.held_out, now, predicted, slot.weights, segments=places)
        experiment.open.add(slot_id(record.id, number) if number else record.id, opened, slot.guarded)
        if slot.guarded is not None:
            experiment.guard()
    if record.agrees is not None:
        guard = experiment.guard()
        guard.shadow_decisions += 1
        guard.agreements += record.agrees
    state.decisions += 1
    if request.id is not None and state.presentations is not UNSET:
        state.presentations.forget(request.id)  # it may be that of a decision that is long over
    if len(record.slots) > 1:
        state.extra_slots = (0 if state.extra_slots is UNSET else state.extra_slots) + len(record.slots) - 1
    if state.settings.reward_timeout is not None or experiment.open.count > state.settings.max_pending:
        experiment.count_rewards()  # the decision has settled others that were due, or evicted one
    if request.idempotency_key is not None:
        stored = StoredAnswer(request_digest, record.id, state.sequence + 1)
        is_pending = partial(recorded.is_pending, experiment.bandit)
        state.idempotency_keys.add(request.idempotency_key, stored, is_pending)
    if request.deferred:
        experiment.defer(record.id, len(record.slots))
    if isinstance(request, RankingRequest) and request.slot_names is not None:
        names, most = request.slot_names, state.settings.max_pending
        experiment.presentations().name_slots(record.id, names, most)
