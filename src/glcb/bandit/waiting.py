"""Decisions that wait for their reward. There is room for so many; then the oldest has to go."""

import math
import reprlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from glcb._errors import DuplicateReward, ExpiredDecision, InvalidReward, UnknownDecision
from glcb._state import State
from glcb._types import Arm
from glcb.bandit.ids import new_id
from glcb.bandit.late import LateRules
from glcb.bandit.pending import Fate, Settled, Waiting, as_arrays, from_arrays

MOST_KEYS = 1000
"""So many rewards with a key of their own can one decision have."""


Learn = Callable[[Waiting, float], None]
"""Teaches the policy what a decision brought."""


class WaitingRoom:
    """At most ``most`` decisions that wait, and the fate of as many that no longer do.

    At every moment, issued = rewarded + expired + waiting.
    """

    def __init__(self, most: int, rules: LateRules) -> None:
        self.most = most
        self.rules = rules
        self.issued = 0
        self.rewarded = 0
        # Ordered ones, because a plain dict gets slow when its oldest entries are removed again and again.
        self._waiting: OrderedDict[str, Waiting] = OrderedDict()
        self._settled: OrderedDict[str, Settled] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def expired(self) -> int:
        """Number of decisions that will never have a reward."""
        return self.issued - self.rewarded - len(self._waiting)

    def issue(self, decision: Waiting) -> str:
        """Let a decision wait; return its id."""
        self.issued += 1
        name = new_id(self.issued, decision.x)
        self._waiting[name] = decision
        if len(self._waiting) > self.most:
            self._settle(next(iter(self._waiting)), "expired")
        return name

    def find(self, name: object, now: float = -math.inf) -> Waiting:
        """Return the decision that waits under this id; if none does, raise an error that says why."""
        waiting = self._waiting.get(name) if isinstance(name, str) else None
        if waiting is not None and not self.rules.over(waiting.since, now):
            return waiting
        if waiting is not None:
            fate: Fate | None = "overdue" if waiting.reward is None else "rewarded"
        else:
            settled = self._settled.get(name) if isinstance(name, str) else None
            fate = None if settled is None else settled.fate
        shown = reprlib.repr(name)
        if fate is None:
            raise UnknownDecision(f"no decision {shown} is known: pass the id of a decision of this bandit")
        if fate == "rewarded" and self.rules.combine == "first":
            raise DuplicateReward(f"the decision {shown} has its reward already: each gets one")
        why = {
            "rewarded": "its time is over, and the rewards that came in time count",
            "expired": f"{self.most:,} others have come after it",
            "removed": "its arm was removed",
            "overdue": f"its {self.rules.patience or 0:,g} seconds are over",
        }
        raise ExpiredDecision(f"the decision {shown} no longer waits for a reward: {why[fate]}")

    def _knows(self, name: object, key: int | None) -> bool:
        """Return whether this decision has had a reward with this key, be it learnt or not."""
        if key is None or not isinstance(name, str):
            return False
        decision = self._waiting.get(name) or self._settled.get(name)
        return decision is not None and key in decision.keys

    def reward(self, name: str, value: float, key: int | None, now: float, learn: Learn) -> None:
        """Take a reward, once for each key: learn it if there can be one only, or put it to the others."""
        if self._knows(name, key):
            return
        decision = self.find(name, now)
        if key is not None and len(decision.keys) == MOST_KEYS:
            raise InvalidReward(f"a decision has at most {MOST_KEYS:,} rewards with a key of their own")
        self.settle_due(now, learn)
        if self.rules.combine == "first":
            learn(decision, value)
            self.rewarded += 1
            self._settle(name, "rewarded")
        else:
            decision.reward = self.rules.combined(decision.reward, value)
        if key is not None:
            decision.keys.add(key)

    def settle_due(self, now: float, learn: Learn, coming: int = 0) -> None:
        """Settle all decisions whose time is over, and those with rewards that must make way for new ones.

        A decision without a reward makes way when the new one is issued: there is nothing to learn from it,
        as its reward might still have come.
        """
        while self._waiting:
            name, oldest = next(iter(self._waiting.items()))
            pushed_out = oldest.reward is not None and len(self._waiting) + coming > self.most
            if not pushed_out and not self.rules.over(oldest.since, now):
                return
            outcome = self.rules.outcome(oldest.reward)
            if outcome is not None:
                learn(oldest, outcome)
            self.rewarded += oldest.reward is not None
            self._settle(name, "overdue" if oldest.reward is None else "rewarded")

    def remove_arm(self, arm: Arm) -> None:
        """Let no decision wait any longer that played ``arm``."""
        for name in [name for name, waiting in self._waiting.items() if waiting.arm == arm]:
            self._settle(name, "removed")

    def _settle(self, name: str, fate: Fate) -> None:
        self._settled[name] = Settled(fate, self._waiting.pop(name).keys)
        if len(self._settled) > self.most:
            self._settled.popitem(last=False)

    # ---- saving ---------------------------------------------------------------------------------

    def about(self) -> dict[str, Any]:
        """Return what JSON can hold; the rest is in :meth:`state`."""
        return {"issued": self.issued, "rewarded": self.rewarded}

    def state(self, index: Mapping[Arm, int], width: int) -> State:
        """Return those that wait, and the fate of those that did, oldest first."""
        return as_arrays(self._waiting, self._settled, index, width)

    def restore(self, about: dict[str, Any], state: State, arms: Sequence[Arm], width: int) -> None:
        """Take over what was saved; raise ValueError, TypeError or KeyError if it cannot be ours."""
        count, settled = len(state["ids"]), len(state["settled"])
        issued, rewarded = about["issued"], about["rewarded"]
        if type(issued) is not int or type(rewarded) is not int or not 0 <= rewarded <= issued - count:
            raise ValueError(f"{rewarded} of {issued} decisions cannot have a reward if {count} wait")
        self._waiting, self._settled = from_arrays(state, arms, width)
        if len(self._waiting) != count or max(count, settled) > self.most:
            raise ValueError("a decision waits twice, or too many wait")
        self.issued, self.rewarded = issued, rewarded
