"""Decisions that count only once they were shown.

A deferred decision is not pending: it receives no reward and no default reward, and counts as removed. If it
is resumed, it is pending from then on. The caller keeps what is needed for that.
"""

from collections.abc import Iterable

from glcb._errors import ClosedDecision
from glcb.bandit.bandit import Bandit
from glcb.bandit.records import PendingDecision
from glcb.bandit.slots import slot_id


def defer(bandit: Bandit, decision_id: str, slots: int) -> list[PendingDecision]:
    """Defer a decision, or all slots of a ranking.

    Parameters
    ----------
    bandit
        A bandit without a log.
    decision_id
        The id of a pending decision or ranking.
    slots
        The number of slots of the ranking; 1 for a decision.

    Returns
    -------
    list of PendingDecision
        The slots, for :func:`resume`; a decision is one slot.

    Raises
    ------
    UnknownDecision, ClosedDecision, DuplicateReward
        The decision is not pending. Nothing has changed.
    """
    with bandit._lock:
        pending = bandit._core.pending
        found = [pending.find(slot_id(decision_id, slot)) for slot in range(slots)]
        for slot in found:
            pending.drop(slot.id)
        return found


def resume(bandit: Bandit, slots: Iterable[PendingDecision]) -> None:
    """Make the slots of a deferred decision pending; their timeout begins again.

    Parameters
    ----------
    bandit
        The bandit that made the decision.
    slots
        As returned by :func:`defer`.

    Raises
    ------
    ClosedDecision
        The timeout has passed, or an arm was removed. Nothing has changed.
    """
    with bandit._lock:
        core, slots = bandit._core, list(slots)
        now, rules = core.now(), core.pending.rules
        for slot in slots:
            if core.catalog is None and slot.arm not in core.index:
                raise ClosedDecision(f"decision {slot.id!r} can no longer be activated: its arm was removed")
            if rules.has_timed_out(slot.decided_at, now):
                raise ClosedDecision(
                    f"decision {slot.id!r} was not activated within its timeout of "
                    f"{rules.reward_timeout or 0:,g} seconds"
                )
        core.settle(now, incoming=len(slots))
        for slot in slots:
            slot.decided_at = now
            core.pending.resume(slot)


def is_known(bandit: Bandit, decision_id: str) -> bool:
    """Return whether a decision is pending, or was settled recently."""
    with bandit._lock:
        return bandit._core.pending.is_known(decision_id)
