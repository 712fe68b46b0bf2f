"""How decisions are shown: slot names of rankings, and deferred decisions, which might never be shown.

A deferred decision is not pending: nothing is learned from it, not even a default reward. Once it is
activated, it is a decision like any other, and its timeout begins.
"""

from typing import Any

import numpy as np
from msgspec import UNSET, Struct, UnsetType, field
from msgspec.structs import replace

from glcb._api.requests import RankingRequest, RewardItem
from glcb._errors import ClosedDecision, InvalidInput, UnknownDecision
from glcb.bandit import Bandit, recorded
from glcb.bandit.records import PendingDecision
from glcb.service.core.open_decisions import OpenDecision, OpenDecisions


class DeferredSlot(Struct, array_like=True):
    """The arm of a slot, with what is needed to make it pending."""

    id: str
    arm: str
    propensity: float
    x: bytes
    """The encoded context, as 32-bit numbers."""
    opened: OpenDecision | None


class DeferredDecision(Struct, array_like=True):
    """A decision, or a ranking, that is not shown yet."""

    decided_at: float
    slots: list[DeferredSlot]
    """Empty once it is activated."""


class Presentations(Struct):
    """Names of slots, and deferred decisions, by id; the oldest first."""

    slot_names: dict[str, list[str]] = field(default_factory=dict)
    deferred: dict[str, DeferredDecision] = field(default_factory=dict)

    def forget(self, decision_id: str) -> None:
        """Forget an earlier decision with the id of a new one, which the bandit no longer knows."""
        self.slot_names.pop(decision_id, None)
        self.deferred.pop(decision_id, None)

    def name_slots(self, decision_id: str, names: list[str], capacity: int) -> None:
        """Remember the names of the slots of a ranking."""
        self.slot_names[decision_id] = names
        _limit(self.slot_names, capacity)

    def defer(
        self, bandit: Bandit, opened: OpenDecisions, decision_id: str, slots: int, now: float, capacity: int
    ) -> None:
        """Defer a decision that has just been made."""
        deferred = [
            DeferredSlot(slot.id, str(slot.arm), slot.propensity, slot.x.tobytes(), opened.withdraw(slot.id))
            for slot in recorded.defer(bandit, decision_id, slots)
        ]
        self.deferred[decision_id] = DeferredDecision(now, deferred)
        _limit(self.deferred, capacity)

    def activate(self, bandit: Bandit, opened: OpenDecisions, decision_id: str, now: float) -> bool:
        """Make a deferred decision pending; return False if it is activated already.

        Raises
        ------
        ClosedDecision
            It was not activated in time, or its arm was removed. Nothing has changed.
        """
        decision = self.deferred[decision_id]
        if not decision.slots:
            return False
        recorded.resume(
            bandit,
            [
                PendingDecision(
                    np.frombuffer(slot.x, np.float32).copy(),  # kernels are compiled for writable arrays
                    slot.arm,
                    slot.propensity,
                    decision.decided_at,
                    id=slot.id,
                )
                for slot in decision.slots
            ],
        )
        for slot in decision.slots:
            if slot.opened is not None:
                opened.add(slot.id, replace(slot.opened, decided_at=now))
        decision.slots = []
        return True


def activate(
    presentations: Presentations | UnsetType,
    bandit: Bandit,
    opened: OpenDecisions,
    decision_id: str,
    now: float,
) -> bool:
    """Activate a decision; return False if it was not deferred, or is activated already."""
    if presentations is not UNSET and decision_id in presentations.deferred:
        return presentations.activate(bandit, opened, decision_id, now)
    if not recorded.is_known(bandit, decision_id):
        raise UnknownDecision(
            f"decision {decision_id[:100]!r} is unknown: pass the id of a decision of this experiment"
        )
    return False


def check_request(request: RankingRequest, max_pending: int) -> None:
    """Raise InvalidInput unless every slot has a name of its own, and all slots can be deferred."""
    if request.deferred and request.k > max_pending:
        raise InvalidInput(
            f"a deferred ranking can have at most max_pending={max_pending:,} slots, got {request.k:,}"
        )
    names = request.slot_names or []
    if request.slot_names is not None and len(names) != request.k:
        raise InvalidInput(f"slot_names must have one name for each of the {request.k} slots, got {names}")
    if len(set(names)) != len(names):
        raise InvalidInput(f"slot_names must differ, got {names}")


def resolve(presentations: Presentations | UnsetType, reward: RewardItem) -> RewardItem:
    """Return a reward with the number of its slot.

    Raises
    ------
    ClosedDecision
        The decision is deferred.
    InvalidInput
        The ranking has no slot of this name.
    """
    names: list[str] = []
    if presentations is not UNSET:
        if (deferred := presentations.deferred.get(reward.id)) is not None and deferred.slots:
            raise ClosedDecision(f"decision {reward.id!r} is deferred: activate it before its reward")
        names = presentations.slot_names.get(reward.id, [])
    if not isinstance(reward.slot, str):
        return reward
    if reward.slot not in names:
        known = f"; its slots are {', '.join(map(repr, names))}" if names else ", or its slots have no names"
        raise InvalidInput(f"there is no slot {reward.slot!r} in ranking {reward.id!r}{known}")
    return replace(reward, slot=names.index(reward.slot))


def _limit(entries: dict[str, Any], most: int) -> None:
    """Forget the oldest entries if there are too many."""
    while len(entries) > most:
        del entries[next(iter(entries))]
