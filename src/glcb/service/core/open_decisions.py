"""What the statistics need to know about each decision until its reward is known.

With a reward timeout, rewards are released in the order of their decisions. Clicks arrive early and
non-clicks are only known at the timeout: counted as they come, every mean would be too high for as long as
the timeout.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator

from msgspec import Struct

from glcb.service.core.guard import GuardedDecision
from glcb.service.core.lift import Weights

IsPending = Callable[[str], bool]


class OpenDecision(Struct, array_like=True):
    """A decision that is pending, or that waits for the reward of an earlier one."""

    arm: str
    held_out: bool
    decided_at: float
    predicted: float | None
    """The predicted reward of the arm; None if too few rewards had been counted to judge it by."""
    weights: Weights | None
    """The weights for the lift, if it can be estimated from this decision."""
    reported: bool = False
    """Whether a reward was reported. A default reward is not reported."""
    reward: float | None = None
    """The reward, once it is final."""
    segments: tuple[int, ...] = ()
    """Numbers of the segments to which it belongs."""


Released = tuple[OpenDecision, GuardedDecision | None]
"""A decision that can be counted."""


class OpenDecisions:
    """Open decisions by id, oldest first. There are at most as many as the bandit keeps pending.

    Parameters
    ----------
    in_order
        Whether decisions are released in their order, or as soon as their reward is final.
    decisions
        The open decisions of a snapshot.
    guarded
        What guardrails need to know of them.
    """

    def __init__(
        self, in_order: bool, decisions: dict[str, OpenDecision], guarded: dict[str, GuardedDecision]
    ) -> None:
        self._in_order = in_order
        # OrderedDict, because a plain dict slows down when its oldest entries are removed repeatedly.
        self._open = OrderedDict(decisions)
        self.guarded = guarded
        """What guardrails need to know of the open decisions."""
        self._released: list[Released] = []

    def add(self, decision_id: str, decision: OpenDecision, guarded: GuardedDecision | None = None) -> None:
        """Add a decision."""
        self._open[decision_id] = decision
        if guarded is not None:
            self.guarded[decision_id] = guarded

    @property
    def count(self) -> int:
        """Number of open decisions."""
        return len(self._open)

    def report(self, decision_id: str) -> OpenDecision | None:
        """Note that a reward was reported; return the decision if this is its first one."""
        decision = self._open.get(decision_id)
        if decision is None or decision.reported:
            return None
        decision.reported = True
        return decision

    def settle(self, decision_id: str, reward: float) -> None:
        """Set the final reward of a decision. One that is not known here, as after an upload, is ignored."""
        decision = self._open.get(decision_id)
        if decision is not None:
            decision.reward = reward
            if not self._in_order:
                self._released.append((self._open.pop(decision_id), self.guarded.pop(decision_id, None)))

    def set_order(self, in_order: bool) -> None:
        """Release decisions in their order from now on, or no longer."""
        self._in_order = in_order

    def release(self, is_pending: IsPending) -> Iterator[Released]:
        """Remove and yield the decisions whose reward can be counted; drop those that ended without one.

        Those that a publishable API key ended are yielded as well, because guardrails count them.
        Call this after the bandit has settled all decisions that are due.
        """
        while self._open:
            decision_id, decision = next(iter(self._open.items()))
            if decision.reward is None and is_pending(decision_id):
                break
            del self._open[decision_id]
            guarded = self.guarded.pop(decision_id, None)
            if decision.reward is not None or (guarded is not None and guarded.public):
                self._released.append((decision, guarded))
        released, self._released = self._released, []
        yield from released

    def withdraw(self, decision_id: str) -> OpenDecision | None:
        """Remove and return a decision, if it is known here. Guardrails do not count it any more."""
        self.guarded.pop(decision_id, None)
        return self._open.pop(decision_id, None)

    def remove_arm(self, arm: str) -> None:
        """Drop the pending decisions for an arm."""
        removed = [key for key, one in self._open.items() if one.arm == arm and one.reward is None]
        for decision_id in removed:
            del self._open[decision_id]
            self.guarded.pop(decision_id, None)
        for guarded in self.guarded.values():
            guarded.forget_arms()

    def settled_until(self, now: float) -> float:
        """Return the time before which no decision waits for its reward.

        Without a timeout a reward may come at any time, so that nothing is waited for.
        """
        if not self._in_order or not self._open:
            return now
        return next(iter(self._open.values())).decided_at

    def snapshot(self) -> dict[str, OpenDecision]:
        """Return the open decisions, oldest first."""
        return dict(self._open)
