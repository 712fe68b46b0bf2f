"""When decisions are learned if a missing reward means the default reward.

A click is known when it arrives; its absence is known only at the timeout. Learning each outcome as soon as
it is known would overestimate every arm for the length of the timeout. A decision is therefore learned once,
at the same age for all decisions: the label age, at which most rewards have arrived. Its label is its reward,
or the default reward if there is none yet.

A later reward is learned as well. To offset the default reward that was learned in its place, the next
decision for the same arm that would be labeled with the default reward is skipped. So the mean label of an
arm converges to its mean reward at the timeout, even if delays differ between arms, and there are as many
labels as decisions.
"""

import math
from bisect import bisect_left, bisect_right, insort
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Literal, get_args

from glcb._types import Arm

if TYPE_CHECKING:
    from glcb.bandit.records import PendingDecision

QUANTILE = 0.9
"""Share of the rewards that arrive before the label age."""
MEMORY = 1000
"""Number of recent reward delays from which the label age is estimated."""

Label = Literal["none", "default", "waived"]
"""What has been learned from a pending decision: nothing yet, the default reward, or nothing because it
offset an earlier default reward."""

LABELS: tuple[Label, ...] = get_args(Label)


class LabelQueue:
    """Decisions without a label, oldest first, and the estimated label age.

    Parameters
    ----------
    capacity
        Number of decisions that can wait for their label.
    timeout
        Upper bound of the label age, in seconds.
    """

    def __init__(self, capacity: int, timeout: float) -> None:
        self.capacity = capacity
        self.timeout = timeout
        self.surplus: Counter[Arm] = Counter()
        """Number of default rewards to offset, by arm."""
        # OrderedDict, because a plain dict slows down when its oldest entries are removed repeatedly.
        self._unlabeled: OrderedDict[str, PendingDecision] = OrderedDict()
        self._delays: deque[float] = deque()
        self._sorted: list[float] = []

    def __iter__(self) -> Iterator["PendingDecision"]:
        return iter(self._unlabeled.values())

    # ---- age ------------------------------------------------------------------------------------

    @property
    def label_age(self) -> float:
        """Age in seconds at which decisions are labeled: the timeout until the first reward has arrived."""
        ordered = self._sorted
        if not ordered:
            return self.timeout
        return min(self.timeout, ordered[math.ceil(QUANTILE * len(ordered)) - 1])

    @property
    def delays(self) -> tuple[float, ...]:
        """The delays of the latest rewards, in the order of their arrival."""
        return tuple(self._delays)

    def add_delay(self, delay: float) -> None:
        """Record the delay of a reward."""
        ordered = self._sorted
        if len(self._delays) == MEMORY:
            del ordered[bisect_left(ordered, self._delays.popleft())]
        self._delays.append(delay)
        insort(ordered, delay)

    # ---- decisions ------------------------------------------------------------------------------

    def add(self, decision: "PendingDecision") -> None:
        """Add a new decision."""
        self._unlabeled[decision.id] = decision

    def find(self, decision_id: str) -> "PendingDecision | None":
        """Return a decision without a label."""
        return self._unlabeled.get(decision_id)

    def is_due(self, decision: "PendingDecision", now: float) -> bool:
        """Return whether a decision has reached the label age."""
        return now - decision.decided_at >= self.label_age

    def has_due(self, now: float, more_than: int) -> bool:
        """Return whether more than this many decisions have reached the label age."""
        oldest = next(islice(self, more_than, None), None)
        return oldest is not None and self.is_due(oldest, now)

    def is_due_with_reward(self, decision: "PendingDecision", now: float) -> bool:
        """Return whether a decision has reached the label age if its reward arrives now."""
        ordered = self._sorted
        earlier = bisect_right(ordered, now - decision.decided_at)
        return earlier >= math.ceil(QUANTILE * (len(ordered) + 1)) - 1

    def due(
        self, now: float, incoming: int, excluded: "PendingDecision | None"
    ) -> Iterator["PendingDecision"]:
        """Yield decisions to label: at the label age, or displaced by `incoming` new decisions.

        Each must be labeled before the next one, except that `excluded` is skipped.
        """
        while True:
            oldest = next((decision for decision in self if decision is not excluded), None)
            displaced = len(self._unlabeled) + incoming > self.capacity
            if oldest is None or not (displaced or self.is_due(oldest, now)):
                return
            yield oldest

    def waives(self, decision: "PendingDecision") -> bool:
        """Return whether the default reward of a decision offsets one that was learned in excess."""
        return decision.reward is None and self.surplus[decision.arm] > 0

    def label(self, decision: "PendingDecision") -> None:
        """Record that a decision has its label."""
        waived = self.waives(decision)
        self._unlabeled.pop(decision.id, None)
        decision.label = "waived" if waived else "default"
        if waived:
            self.surplus[decision.arm] -= 1

    def add_late_reward(self, decision: "PendingDecision") -> None:
        """Record that a reward has been learned as soon as it arrived."""
        if decision.label == "default":
            self.surplus[decision.arm] += 1
        self._unlabeled.pop(decision.id, None)

    def drop(self, decision_id: str) -> None:
        """Drop a decision, which gets no label."""
        self._unlabeled.pop(decision_id, None)

    def remove_arm(self, arm: Arm) -> None:
        """Drop everything about an arm."""
        self.surplus.pop(arm, None)
        for decision_id in [decision.id for decision in self if decision.arm == arm]:
            del self._unlabeled[decision_id]

    def restore(self, unlabeled: Iterable["PendingDecision"], delays: Iterable[float]) -> None:
        """Replace the decisions and the delays."""
        self._unlabeled = OrderedDict((decision.id, decision) for decision in unlabeled)
        self._delays = deque(delays)
        self._sorted = sorted(self._delays)
