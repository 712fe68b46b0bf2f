"""A bandit whose decisions are recorded elsewhere, as in the service.

The record holds the chosen arms, so a copy of the bandit can follow without choosing again: it encodes the
context and counts the decision; nothing is estimated or drawn.

A deferred decision counts only once it is shown: until then it is not pending, receives no reward or default
reward, and counts as removed. Resuming makes it pending. The caller keeps the slots needed to resume it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from glcb._errors import ClosedDecision
from glcb._types import Arm
from glcb.bandit.access import changes, reads
from glcb.bandit.bandit import Bandit
from glcb.bandit.randomness import RandomNumbers
from glcb.bandit.ranking import AffectedSlots
from glcb.bandit.records import PendingDecision, checked_prefix
from glcb.bandit.slots import slot_id
from glcb.explain import Explanation


@changes
def use_id_prefix(bandit: Bandit, prefix: str) -> str:
    """Let the ids of later decisions begin with a prefix; return the previous prefix.

    Raises
    ------
    ValueError
        No id can begin with the prefix.
    """
    before, bandit._core.id_prefix = bandit._core.id_prefix, checked_prefix(prefix)
    return before


@changes
def use_random_numbers(bandit: Bandit, numbers: Callable[[], RandomNumbers]) -> None:
    """Choose with these random numbers instead of seeded ones. They are not saved."""
    bandit._core.numbers = numbers


@changes
def add_decision(
    bandit: Bandit,
    context: Any,
    slots: Sequence[tuple[Arm, float]],
    *,
    arms: Any = None,
    eligible: Iterable[Arm] | None = None,
    id: str,  # noqa: A002 (as for Bandit.decide)
) -> None:
    """Add a decision or a ranking made earlier. Its slots are pending.

    Parameters
    ----------
    bandit
        A bandit in the state before the decision.
    context, arms, eligible
        As for ``Bandit.rank``.
    slots
        The arm of each slot and its propensity.
    id
        The id of the decision.
    """
    bandit._core.add_decision(context, slots, arms, eligible, id)


# ---- decisions that are not shown yet -----------------------------------------------------------------


@changes
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
    pending = bandit._core.pending
    found = [pending.find(slot_id(decision_id, slot)) for slot in range(slots)]
    for slot in found:
        pending.drop(slot.id)
    return found


@changes
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


@reads
def is_known(bandit: Bandit, decision_id: str) -> bool:
    """Return whether a decision is pending, or was settled recently."""
    return bandit._core.pending.is_known(decision_id)


# ---- queries for the service ---------------------------------------------------------------------------


@reads
def affected_slots(
    bandit: Bandit, decision: str, *, slot: int | None = None, examined: int | None = None
) -> AffectedSlots:
    """Return what ``Bandit.reward`` with the same arguments would do to the slots of a ranking.

    Parameters
    ----------
    decision : str
        The id of the decision or the ranking.
    slot, examined : int, optional
        As for ``Bandit.reward``.

    Returns
    -------
    AffectedSlots
        The numbers of the slots that would be rewarded, learn the default reward, or be dropped.

    Raises
    ------
    InvalidInput
        If `slot` or `examined` is invalid.
    """
    return bandit._core.affected(decision, slot, examined)


@reads
def has_due(bandit: Bandit, more_than: int = 0) -> bool:
    """Return whether ``Bandit.settle``, or the next decision or reward, would settle many decisions.

    Parameters
    ----------
    more_than : int
        How many overdue decisions to tolerate.

    Returns
    -------
    bool
        Whether more decisions have timed out, or are due for the default reward.
    """
    return bandit._core.pending.has_due(bandit._core.now(), more_than)


@reads
def is_pending(bandit: Bandit, decision: str) -> bool:
    """Return whether the decision with this id can still receive a reward.

    Parameters
    ----------
    decision : str
        The id of the decision.

    Returns
    -------
    bool
        Whether the decision is pending and has not timed out.
    """
    return bandit._core.pending.contains(decision, bandit._core.now())


@reads
def explain(
    bandit: Bandit, context: Any, arms: Any, eligible: Iterable[Arm] | None, everything: bool
) -> Explanation:
    """Explain the eligible or best-scoring candidates, as ``Bandit.explain`` does."""
    return bandit._core.explain(context, arms, eligible, everything)


@reads
def catalog(bandit: Bandit) -> Mapping[Arm, dict[str, Any]] | None:
    """Return the features of each arm, by name; None if arms have no features."""
    arms = bandit._core.catalog
    return None if arms is None else MappingProxyType(arms.arms)


# ---- previews -----------------------------------------------------------------------------------------


@contextmanager
def previewing(bandit: Bandit) -> Iterator[None]:
    """Make previews in a block: decisions that are neither counted nor kept pending."""
    with bandit._lock:
        bandit._core.is_preview = True
        try:
            yield
        finally:
            bandit._core.is_preview = False
