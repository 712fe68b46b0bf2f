"""What is exported of an event, as lines of a log.

The lines have the format that ``Bandit.log_to`` writes and ``Bandit.learn_from`` reads, without its outcome
lines: default rewards of timed-out decisions are not stored as events; they follow from a replay. Decisions
among arms with features are rankings with one slot. The reward of a ranking becomes one line per
slot. If arms have features, the catalog and its changes are exported as well.
"""

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec.json import Decoder

from glcb._api.requests import (
    Candidates,
    Catalog,
    CatalogChanges,
    DecisionRequest,
    NewArm,
    RankingRequest,
    named_features,
)
from glcb._api.responses import Decision, Ranking
from glcb.bandit.candidates import arms_as_json
from glcb.bandit.logs.format import arms_event, unexamined_event
from glcb.bandit.slots import slot_id
from glcb.service.core.guard import RecordedReward
from glcb.service.core.rankings import NO_OUTCOME, SlotRewards
from glcb.service.events import Event

_CATALOG = Decoder(Catalog)
_CATALOG_CHANGES = Decoder(CatalogChanges)
_DECISION = Decoder(Decision)
_DECISION_REQUEST = Decoder(DecisionRequest)
_NEW_ARM = Decoder(NewArm)
_RANKING = Decoder(Ranking)
_RANKING_REQUEST = Decoder(RankingRequest)
_REWARD = Decoder(RecordedReward)
_SLOT_REWARDS = Decoder(SlotRewards)

Row = dict[str, Any]


def rows(event: Event) -> Iterator[Row]:
    """Yield what is exported of an event: a decision, a ranking, rewards, or changes of the catalog."""
    if event.kind == "decide":
        yield _decision(event)
    elif event.kind == "rank":
        request = _RANKING_REQUEST.decode(event.request)
        ranking = _RANKING.decode(event.outcome)
        slots = list(zip(ranking.arms, ranking.overall_propensities or ranking.propensities, strict=True))
        yield {**_ranking(event, request, ranking.id, slots), "holdout": ranking.holdout}
    elif event.kind == "reward":
        yield from _rewards(event)
    else:
        yield from _changes_of_arms(event)


def _decision(event: Event) -> Row:
    request = _DECISION_REQUEST.decode(event.request)
    decision = _DECISION.decode(event.outcome)
    overall = decision.overall_propensity
    propensity = decision.propensity if overall is None else overall
    if decision.candidates is not None:
        slots = [(decision.arm, propensity)]
        return {**_ranking(event, request, decision.id, slots), "holdout": decision.holdout}
    return {
        "event": "decision",
        "id": decision.id,
        "time": event.at,
        "sequence": event.sequence,
        "arm": decision.arm,
        "propensity": propensity,
        "probabilities": decision.probabilities,
        "holdout": decision.holdout,
        "control": decision.control,
        "unit": request.unit,
        "context": request.context,
        "eligible": request.eligible,
        "idempotency_key": request.idempotency_key,
    }


def _ranking(
    event: Event, request: DecisionRequest | RankingRequest, ranking_id: str, slots: list[tuple[str, float]]
) -> Row:
    return {
        "event": "ranking",
        "id": ranking_id,
        "time": event.at,
        "sequence": event.sequence,
        "slots": [{"arm": arm, "propensity": propensity} for arm, propensity in slots],
        "arms": None if request.arms is None else _arms(request.arms),
        "context": request.context,
        "eligible": request.eligible,
        "idempotency_key": request.idempotency_key,
    }


def _arms(candidates: Candidates) -> list[Row]:
    """Return arms with features as in a log."""
    return arms_as_json({arm: features or {} for arm, features in dict(named_features(candidates)).items()})


def _rewards(event: Event) -> Iterator[Row]:
    request = _REWARD.decode(event.request)
    outcome = SlotRewards([(0, float(request.value))], 1, [])
    if event.outcome != NO_OUTCOME:
        outcome = _SLOT_REWARDS.decode(event.outcome)
    for number, (slot, value) in enumerate(outcome.rewards):
        yield {
            "event": "reward",
            "id": slot_id(request.id, slot),
            "time": event.at,
            "sequence": event.sequence,
            "reward": value,
            "metrics": request.metrics if number < outcome.reported else None,
            "idempotency_key": request.idempotency_key if number < outcome.reported else None,
        }
    for slot in outcome.unexamined:
        yield {**unexamined_event(slot_id(request.id, slot), event.at), "sequence": event.sequence}


def _changes_of_arms(event: Event) -> Iterator[Row]:
    """Yield the arms of a new catalog, or those that were added, changed and removed."""
    all_arms: Candidates | None = None
    added: Candidates = {}
    removed: list[str] = []
    if event.kind == "create":
        arms = msgspec.json.decode(event.request).get("settings", {}).get("arms")
        all_arms = arms if isinstance(arms, dict) else None
    elif event.kind == "set_arms":
        all_arms = _CATALOG.decode(event.request).arms
    elif event.kind == "replace_model":
        all_arms = msgspec.json.decode(event.outcome).get("arms")
    elif event.kind == "change_arms":
        changes = _CATALOG_CHANGES.decode(event.request)
        added, removed = changes.arms, changes.remove
    elif event.kind in ("add_arm", "remove_arm") and event.outcome.startswith(b"{"):  # of a catalog
        arm = _NEW_ARM.decode(event.request)
        added, removed = ({arm.name: arm.features}, []) if event.kind == "add_arm" else ({}, [arm.name])
    if all_arms is not None:
        yield {**arms_event(event.at, _arms(all_arms)), "sequence": event.sequence}
    elif added or removed:
        yield {**arms_event(event.at, added=_arms(added), removed=removed), "sequence": event.sequence}
