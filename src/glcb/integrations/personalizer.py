"""Translate requests and responses between Azure Personalizer and the service.

An event is a decision, or a ranking if it has several slots, with the event id. This module is stateless; the
service does the rest.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from http import HTTPStatus
from typing import Any

from glcb._api.personalizer import (
    PersonalizerAction,
    PersonalizerErrorDetail,
    PersonalizerErrorResponse,
    PersonalizerInnerError,
    PersonalizerMultiSlotRankRequest,
    PersonalizerMultiSlotRankResponse,
    PersonalizerMultiSlotRewardRequest,
    PersonalizerRankedAction,
    PersonalizerRankRequest,
    PersonalizerRankResponse,
    PersonalizerSlot,
    PersonalizerSlotResponse,
)
from glcb._api.requests import Candidate, DecisionRequest, RankingRequest, RewardItem
from glcb._api.responses import Decision, Ranking
from glcb._errors import InvalidInput
from glcb.bandit.config import DECISION_ID
from glcb.evaluate.formats.dsjson import flatten

PREFIX = "/personalizer/"
VERSION = "v1.0"
"""The version in the routes of the service."""

_VERSIONED = re.compile(r"/personalizer/(?:v\d[^/]*/)?")
_is_decision_id = re.compile(DECISION_ID, re.ASCII).fullmatch
_CODES = {400: "BadRequest", 404: "ResourceNotFound", 500: "InternalServerError"}
_UNPROCESSABLE = 422


def canonical_path(path: str) -> str:
    """Return the path of the route of the service. In client paths, the version may differ or be missing.

    >>> canonical_path("/personalizer/v1.1-preview.3/multislot/rank"), canonical_path("/personalizer/rank")
    ('/personalizer/v1.0/multislot/rank', '/personalizer/v1.0/rank')
    """
    return _VERSIONED.sub(f"{PREFIX}{VERSION}/", path, count=1)


def decision_id(event_id: str) -> str:
    """Return the decision id of an event: the event id, or its hash if it is not a valid decision id.

    >>> decision_id("5f3a-01"), decision_id("user 7/page 2")
    ('5f3a-01', 'event-b3b9bed07460b16b55ce39c6978deb31')
    """
    if _is_decision_id(event_id):
        return event_id
    return f"event-{sha256(event_id.encode()).hexdigest()[:32]}"


# ---- requests -------------------------------------------------------------------------------------


def decision_request(
    request: PersonalizerRankRequest, event_id: str, has_catalog: bool, max_characters: float = math.inf
) -> DecisionRequest:
    """Return the decision for a rank request.

    The candidates, or eligible arms, are in the order of the actions, so the first one is the baseline.

    Parameters
    ----------
    request
        A rank request.
    event_id
        The id of the event, or a new id if the request has none.
    has_catalog
        Whether the arms of the experiment have features.
    max_characters
        Maximum total length of feature names, for the context and for each action.

    Returns
    -------
    DecisionRequest
        The decision.

    Raises
    ------
    InvalidInput
        The actions are not usable.
    """
    chosen_id = decision_id(event_id)
    actions = _remaining(request.actions, request.excluded_actions)
    return DecisionRequest(
        context=_context(request.context_features or (), max_characters),
        arms=_candidates(actions, max_characters) if has_catalog else None,
        eligible=None if has_catalog else [action.id for action in actions],
        id=chosen_id,
        idempotency_key=chosen_id,
        deferred=bool(request.defer_activation),
    )


def ranking_request(
    request: PersonalizerMultiSlotRankRequest,
    event_id: str,
    has_catalog: bool,
    max_characters: float = math.inf,
) -> RankingRequest:
    """Return the ranking for a multi-slot request.

    The baseline actions of the slots come first, in the order of the slots.

    Parameters
    ----------
    request
        A multi-slot rank request.
    event_id
        The id of the event, or a new id if the request has none.
    has_catalog
        Whether the arms of the experiment have features.
    max_characters
        Maximum total length of feature names, for the context and for each action.

    Returns
    -------
    RankingRequest
        The ranking.

    Raises
    ------
    InvalidInput
        The actions or slots are not usable.
    """
    chosen_id = decision_id(event_id)
    actions = _remaining(request.actions, _common_exclusions(request.slots))
    baselines = _baselines(request.slots, [action.id for action in actions])
    actions.sort(key=lambda action: baselines.get(action.id, len(baselines)))
    slot_features = [
        {"slot": {slot.id: feature}} for slot in request.slots for feature in slot.features or ()
    ]
    return RankingRequest(
        context=_context([*(request.context_features or ()), *slot_features], max_characters),
        k=len(request.slots),
        arms=_candidates(actions, max_characters) if has_catalog else None,
        eligible=None if has_catalog else [action.id for action in actions],
        id=chosen_id,
        idempotency_key=chosen_id,
        deferred=bool(request.defer_activation),
        slot_names=[slot.id for slot in request.slots],
    )


def slot_rewards(request: PersonalizerMultiSlotRewardRequest, event_id: str) -> list[RewardItem]:
    """Return the rewards of slots; raise InvalidInput if a slot has two rewards."""
    slots = [reward.slot_id for reward in request.reward]
    if len(set(slots)) != len(slots):
        raise InvalidInput(f"every slot can have one reward, got rewards for {slots}")
    return [
        RewardItem(id=decision_id(event_id), value=reward.value, slot=reward.slot_id)
        for reward in request.reward
    ]


def _context(features: Iterable[Mapping[str, Any]], max_characters: float) -> dict[str, Any]:
    """Return features as a context, named as in a Personalizer log."""
    return flatten(features, max_characters=max_characters) or {"constant": 1.0}


def _candidates(actions: Iterable[PersonalizerAction], max_characters: float) -> list[Candidate]:
    return [
        Candidate(arm=action.id, features=flatten(action.features, max_characters=max_characters))
        for action in actions
    ]


def _remaining(
    actions: Sequence[PersonalizerAction], excluded: Iterable[str] | None
) -> list[PersonalizerAction]:
    """Return the actions that are not excluded."""
    names = [action.id for action in actions]
    if not names:
        raise InvalidInput("actions must have at least one action")
    (most_common, count), *_ = Counter(names).most_common(1)
    if count > 1:
        raise InvalidInput(f"the ids of actions must differ, got {most_common!r} more than once")
    left_out = set(excluded or ())
    if unknown := sorted(left_out - set(names)):
        raise InvalidInput(f"excludedActions must be ids of actions, got {unknown[0]!r}")
    remaining = [action for action in actions if action.id not in left_out]
    if not remaining:
        raise InvalidInput("excludedActions has all actions: leave at least one")
    return remaining


def _common_exclusions(slots: Sequence[PersonalizerSlot]) -> list[str]:
    """Return the actions that all slots exclude."""
    if not slots:
        raise InvalidInput("slots must have at least one slot")
    exclusions = [sorted(set(slot.excluded_actions or ())) for slot in slots]
    if any(own != exclusions[0] for own in exclusions):
        raise InvalidInput(
            "all slots must have the same excludedActions: a ranking draws the actions of its slots from one "
            "list"
        )
    return exclusions[0]


def _baselines(slots: Sequence[PersonalizerSlot], actions: Sequence[str]) -> dict[str, int]:
    """Return the positions of the slots by their baseline actions."""
    positions = {slot.baseline_action: position for position, slot in enumerate(slots)}
    known = set(actions)
    for name in positions:
        if name not in known:
            raise InvalidInput(f"a baselineAction must be an action that is not excluded, got {name!r}")
    if len(positions) != len(slots):
        raise InvalidInput("every slot must have a different baselineAction")
    if len(slots) > len(actions):
        raise InvalidInput(
            f"there must be at least as many actions as slots, got {len(actions)} and {len(slots)}"
        )
    return positions


# ---- responses ------------------------------------------------------------------------------------


def rank_response(
    request: PersonalizerRankRequest, event_id: str, decision: Decision
) -> PersonalizerRankResponse:
    """Return the answer to a rank request.

    Parameters
    ----------
    request
        The request.
    event_id
        The id of the event.
    decision
        The decision for the request.

    Returns
    -------
    PersonalizerRankResponse
        The chosen action first, then the others by probability. Excluded actions keep their position.
    """
    excluded = set(request.excluded_actions or ())
    known = decision.probabilities
    ordered = iter(
        sorted(
            (action.id for action in request.actions if action.id not in excluded),
            key=lambda name: (name != decision.arm, -known.get(name, 0.0)),
        )
    )
    names = [action.id if action.id in excluded else next(ordered) for action in request.actions]
    return PersonalizerRankResponse(
        ranking=tuple(
            PersonalizerRankedAction(id=name, probability=0.0 if name in excluded else known.get(name))
            for name in names
        ),
        event_id=event_id,
        reward_action_id=decision.arm,
    )


def multi_slot_response(
    request: PersonalizerMultiSlotRankRequest, event_id: str, ranking: Ranking
) -> PersonalizerMultiSlotRankResponse:
    """Return the answer to a multi-slot rank request."""
    return PersonalizerMultiSlotRankResponse(
        slots=tuple(
            PersonalizerSlotResponse(id=slot.id, reward_action_id=arm)
            for slot, arm in zip(request.slots, ranking.arms, strict=True)
        ),
        event_id=event_id,
    )


def error_response(code: str, message: str, status: int) -> tuple[int, PersonalizerErrorResponse]:
    """Return status and body of an error in Personalizer's format.

    Examples
    --------
    >>> error_response("unknown_arm", "there is no arm 'x'", 422)[1].error.code
    'BadRequest'
    """
    status = 400 if status == _UNPROCESSABLE else status
    known = _CODES.get(status) or HTTPStatus(status).phrase.title().replace(" ", "").replace("-", "")
    return status, PersonalizerErrorResponse(
        PersonalizerErrorDetail(known, message, PersonalizerInnerError(code))
    )
