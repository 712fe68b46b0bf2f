"""Decisions and rankings: the group, the draw, the answer, and how they are counted.

Experiments without control, ramp, shares, metrics, guardrails and paused arms take a short path. ``decide``
and ``rank`` are the handlers of events.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import UNSET

from glcb._api.requests import DecisionRequest, RankingRequest, encode, named_features
from glcb._api.responses import Decision, Ranking
from glcb.bandit import ranking as bandit_ranking
from glcb.bandit.decision import BanditDecision
from glcb.service.core import presentations
from glcb.service.core.administration import Result
from glcb.service.core.idempotency import StoredAnswer, digest
from glcb.service.core.rankings import count_decision, count_slots, most_likely
from glcb.service.core.steering import Assignment, Shown, Slot, steered_slots

if TYPE_CHECKING:
    from glcb.service.core.experiment import Experiment


def decide(experiment: "Experiment", request: DecisionRequest) -> Result:
    """Make a decision."""
    state = experiment.state
    repeated = state.idempotency_keys.find(request.idempotency_key, request)
    if repeated is not None:
        return None, repeated
    experiment.reject_if("archived", "paused")
    if _is_steered(experiment, request):
        return _decide_steered(experiment, request)
    if experiment.has_catalog or request.arms is not None:
        return _decide_among(experiment, request)
    held_out = _is_held_out(experiment)
    decision = experiment.bandit.decide(
        request.context, eligible=request.eligible, uniform=held_out, id=request.id
    )
    arm = str(decision.arm)
    answer = encode(
        Decision(
            id=decision.id,
            arm=arm,
            propensity=decision.propensity,
            probabilities=decision.probabilities,  # type: ignore[arg-type]  # arms are strings here
            holdout=held_out,
        )
    )
    _count_request(experiment, request)
    _count_decision(experiment, decision, request, held_out)
    if request.idempotency_key is not None:
        stored = StoredAnswer(digest(request), decision.id, state.sequence + 1)
        state.idempotency_keys.add(request.idempotency_key, stored, experiment.bandit.is_pending)
    if request.deferred:
        experiment.defer(decision.id)
    return answer, answer


def _decide_steered(experiment: "Experiment", request: DecisionRequest) -> Result:
    """Decide if the settings, or the request, say who is served what."""
    assignment = experiment.steering.assign(request, lambda unit: _group_draw(experiment, unit))
    if experiment.has_catalog or request.arms is not None:
        ranking = _draw_steered(experiment, request, 1, assignment)
        arms, slots = ranking.candidates, steered_slots(ranking)
        candidates: int | None = len(arms)
        listed: Any = most_likely(ranking)
    else:
        decision = experiment.bandit.decide(
            request.context,
            eligible=assignment.eligible,
            uniform=assignment.uniform,
            serve=assignment.serve[0] if assignment.serve else None,
            id=request.id,
        )
        arms, candidates, listed = decision.arms, None, decision.probabilities
        slots = [Slot(decision.id, str(decision.arm), decision.arm_probabilities, decision.estimates)]
    shown = _count_steered(experiment, slots, arms, assignment, request)
    answer = encode(
        Decision(
            id=slots[0].id,
            arm=slots[0].arm,
            propensity=float(slots[0].probabilities[arms.index(slots[0].arm)]),
            probabilities=listed,
            holdout=assignment.held_out,
            candidates=candidates,
            control=assignment.control[0] if assignment.control else None,
            overall_propensity=shown.propensities[0] if shown.propensities else None,
            shadow=shown.shadow[0] if shown.shadow else None,
            bounded=shown.bounded,
        )
    )
    return answer, answer


def _rank_steered(experiment: "Experiment", request: RankingRequest) -> Ranking:
    """Rank if the settings, or the request, say who is served what."""
    assignment = experiment.steering.assign(request, lambda unit: _group_draw(experiment, unit), request.k)
    ranking = _draw_steered(experiment, request, request.k, assignment)
    shown = _count_steered(experiment, steered_slots(ranking), ranking.candidates, assignment, request)
    asked = ranking.candidates if assignment.eligible is None else set(assignment.eligible)
    return Ranking(
        id=ranking.id,
        arms=tuple(map(str, ranking.arms)),
        propensities=ranking.propensities,
        holdout=assignment.held_out,
        candidates=len(asked),
        control=assignment.control,
        overall_propensities=shown.propensities,
        shadow=shown.shadow,
        bounded=shown.bounded,
    )


def _draw_steered(
    experiment: "Experiment", request: DecisionRequest | RankingRequest, slots: int, assignment: Assignment
) -> bandit_ranking.Ranking:
    return experiment.bandit.rank(
        request.context,
        k=slots,
        arms=named_features(request.arms),
        eligible=assignment.eligible,
        uniform=assignment.uniform,
        serve=assignment.serve,
        id=request.id,
    )


def _count_steered(
    experiment: "Experiment",
    slots: list[Slot],
    arms: tuple[Any, ...],
    assignment: Assignment,
    request: DecisionRequest | RankingRequest,
) -> Shown:
    """Count the slots; return what the answer says about them."""
    state, steering = experiment.state, experiment.steering
    bounded = steering.is_bounded(arms, slots[0].probabilities) if not assignment.serve else False
    propensities: list[float] = []
    shadow: list[str] = []
    for counted, guarded, shares in steering.count(
        slots, arms, assignment, request.context, experiment.now, state.tally.predicts
    ):
        state.tally.add_decision(experiment.now, counted.record, counted.opened)
        experiment.open.add(counted.id, counted.opened, guarded)
        if guarded is not None:
            experiment.guard()
        if steering.serves_control:
            propensities.append(float(shares.overall[shares.chosen]))
        if steering.is_shadow:
            cumulative = np.cumsum(shares.own)
            point = experiment.fraction(b"shadow%d" % len(shadow)) * cumulative[-1]
            shadow.append(str(arms[int(np.searchsorted(cumulative, point, side="right"))]))
    if steering.is_shadow:
        guard = experiment.guard()
        guard.shadow_decisions += 1
        guard.agreements += shadow[0] == slots[0].arm
    _count_request(experiment, request)
    if len(slots) > 1:
        state.extra_slots = (0 if state.extra_slots is UNSET else state.extra_slots) + len(slots) - 1
    experiment.count_rewards()
    if request.idempotency_key is not None:
        stored = StoredAnswer(digest(request), slots[0].id, state.sequence + 1)
        state.idempotency_keys.add(request.idempotency_key, stored, experiment.bandit.is_pending)
    if request.deferred:
        experiment.defer(slots[0].id, len(slots))
    return Shown(tuple(propensities), tuple(shadow), bounded)


def _decide_among(experiment: "Experiment", request: DecisionRequest) -> Result:
    """Decide among arms with features: a ranking with one slot."""
    ranking, held_out = _draw(experiment, request, 1)
    answer = encode(
        Decision(
            id=ranking.id,
            arm=str(ranking.arms[0]),
            propensity=ranking.propensities[0],
            probabilities=most_likely(ranking),
            holdout=held_out,
            candidates=len(ranking.candidates),
        )
    )
    return answer, answer


def rank(experiment: "Experiment", request: RankingRequest) -> Result:
    """Choose the arms of several slots."""
    repeated = experiment.state.idempotency_keys.find(request.idempotency_key, request)
    if repeated is not None:
        return None, repeated
    experiment.reject_if("archived", "paused")
    presentations.check_request(request, experiment.state.settings.max_pending)
    if _is_steered(experiment, request):
        response = _rank_steered(experiment, request)
    else:
        ranking, held_out = _draw(experiment, request, request.k)
        response = Ranking(
            id=ranking.id,
            arms=tuple(map(str, ranking.arms)),
            propensities=ranking.propensities,
            holdout=held_out,
            candidates=len(ranking.candidates if request.eligible is None else set(request.eligible)),
        )
    if request.slot_names is not None:
        experiment.presentations().name_slots(
            response.id, request.slot_names, experiment.state.settings.max_pending
        )
    answer = encode(response)
    return answer, answer


def _draw(
    experiment: "Experiment", request: DecisionRequest | RankingRequest, slots: int
) -> tuple[bandit_ranking.Ranking, bool]:
    """Draw the arms of all slots and count them; return the ranking and whether it is held out."""
    state = experiment.state
    held_out = _is_held_out(experiment)
    ranking = experiment.bandit.rank(
        request.context,
        k=slots,
        arms=named_features(request.arms),
        eligible=request.eligible,
        uniform=held_out,
        id=request.id,
    )
    _count_request(experiment, request)
    if slots > 1:
        state.extra_slots = (0 if state.extra_slots is UNSET else state.extra_slots) + slots - 1
    predicts = state.tally.predicts
    for slot in count_slots(
        ranking, state.settings, request.context, request.eligible, held_out, experiment.now, predicts
    ):
        state.tally.add_decision(experiment.now, slot.record, slot.opened)
        experiment.open.add(slot.id, slot.opened)
    experiment.count_rewards()
    if request.idempotency_key is not None:
        stored = StoredAnswer(digest(request), ranking.id, state.sequence + 1)
        state.idempotency_keys.add(request.idempotency_key, stored, experiment.bandit.is_pending)
    if request.deferred:
        experiment.defer(ranking.id, slots)
    return ranking, held_out


def _count_decision(
    experiment: "Experiment", decision: BanditDecision, request: DecisionRequest, held_out: bool
) -> None:
    state = experiment.state
    counted = count_decision(
        decision, state.settings, request, held_out, experiment.now, predicts=state.tally.predicts
    )
    state.tally.add_decision(experiment.now, counted.record, counted.opened)
    experiment.open.add(counted.id, counted.opened)
    experiment.count_rewards()


def _is_steered(experiment: "Experiment", request: DecisionRequest | RankingRequest) -> bool:
    """Return whether the settings or the request say who is served what; check the schedule."""
    experiment.steering.check_schedule(experiment.now)
    return experiment.steering.is_needed or request.control is not None or request.unit is not None


def _is_held_out(experiment: "Experiment") -> bool:
    """Return whether the next decision is held out, which only depends on the salt and its number."""
    holdout = experiment.state.settings.holdout
    return holdout > 0 and experiment.fraction(b"") < holdout


def _group_draw(experiment: "Experiment", unit: str | None) -> float:
    """Return the number that decides on the holdout: always the same for a unit."""
    return (
        experiment.fraction(b"")
        if unit is None
        else experiment.fraction(b"unit" + unit.encode(), constant=True)
    )


def _count_request(experiment: "Experiment", request: DecisionRequest | RankingRequest) -> None:
    """Count a request for a decision that was made; its id may be that of one that is long over."""
    state = experiment.state
    state.decisions += 1
    if request.id is not None and state.presentations is not UNSET:
        state.presentations.forget(request.id)
