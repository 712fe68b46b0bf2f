"""Decisions that wait for their reward. There is room for so many; then the oldest has to go."""

import math
import reprlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from glcb._arrays import State
from glcb._errors import ClosedDecision, DuplicateReward, InvalidReward, UnknownDecision
from glcb._types import Arm, Float32
from glcb.bandit.ids import new_id
from glcb.bandit.pending import Fate, Settled, Waiting, as_arrays, from_arrays
from glcb.bandit.reward_rules import LateRules

MOST_KEYS = 1000
"""So many rewards with a key of their own can one decision have."""


class WaitingRoom:
    """At most ``most`` decisions that wait, and the fate of as many that no longer do.

    At every moment, decisions = rewarded + timed_out + evicted + removed + pending.
    """

    def __init__(self, most: int, rules: LateRules) -> None:
        self.most = most
        self.rules = rules
        self.issued = 0
        self.rewarded = 0
        self.timed_out = 0
        self.evicted = 0
        self.removed = 0
        # Ordered ones, because a plain dict gets slow when its oldest entries are removed again and again.
        self._waiting: OrderedDict[str, Waiting] = OrderedDict()
        self._settled: OrderedDict[str, Settled] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def counts(self) -> dict[str, int]:
        """Number of decisions, and how each of them stands."""
        return {
            "decisions": self.issued,
            "rewarded": self.rewarded,
            "timed_out": self.timed_out,
            "evicted": self.evicted,
            "removed": self.removed,
            "pending": len(self._waiting),
        }

    def next_id(self, x: Float32) -> str:
        """Return the id that the next decision will have, if ``x`` is its context."""
        return new_id(self.issued + 1, x)

    def issue(self, decision: Waiting) -> None:
        """Let a decision wait, under its id."""
        decision.name = self.next_id(decision.x)
        self.issued += 1
        self._waiting[decision.name] = decision
        if len(self._waiting) > self.most:
            self.evicted += 1
            self._settle(next(iter(self._waiting)), "evicted")

    def pass_through(self) -> None:
        """Count a decision that came together with its reward, and never waits."""
        self.issued += 1
        self.rewarded += 1

    def waits(self, name: object, now: float) -> bool:
        """Return whether a reward can still come for the decision with this id."""
        waiting = self._waiting.get(name) if isinstance(name, str) else None
        return waiting is not None and not self.rules.over(waiting.since, now)

    def find(self, name: object, now: float = -math.inf) -> Waiting:
        """Return the decision that waits under this id; if none does, raise an error that says why."""
        if not isinstance(name, str):
            raise UnknownDecision(
                f"a decision is named by its id, a text, got something of the type {type(name).__name__}: "
                "for a decision d, pass d.id"
            )
        waiting = self._waiting.get(name)
        if waiting is not None and not self.rules.over(waiting.since, now):
            return waiting
        if waiting is not None:
            fate: Fate | None = "timed_out" if waiting.reward is None else "rewarded"
        else:
            settled = self._settled.get(name)
            fate = None if settled is None else settled.fate
        shown = reprlib.repr(name)
        if fate is None:
            raise UnknownDecision(f"no decision {shown} is known: pass the id of a decision of this bandit")
        if fate == "rewarded" and self.rules.reward_aggregation == "first":
            raise DuplicateReward(f"the decision {shown} has its reward already: each gets one")
        why = {
            "rewarded": "its time is over, and the rewards that came in time count",
            "evicted": f"{self.most:,} others have come after it",
            "removed": "its arm was removed",
            "timed_out": f"its {self.rules.reward_timeout or 0:,g} seconds are over",
        }
        raise ClosedDecision(f"the decision {shown} no longer waits for a reward: {why[fate]}")

    def _knows(self, name: object, key: int | None) -> bool:
        """Return whether this decision has had a reward with this key, be it learned or not."""
        if key is None or not isinstance(name, str):
            return False
        decision = self._waiting.get(name) or self._settled.get(name)
        return decision is not None and key in decision.keys

    def expecting(self, name: str, key: int | None, now: float) -> Waiting | None:
        """Return the decision that a reward is for; none if a reward with the same key came before."""
        if self._knows(name, key):
            return None
        decision = self.find(name, now)
        if key is not None and len(decision.keys) == MOST_KEYS:
            raise InvalidReward(f"a decision has at most {MOST_KEYS:,} rewards with a key of their own")
        return decision

    def take(self, decision: Waiting, value: float, key: int | None, final: bool) -> None:
        """Note a reward. A final one was learned, and the decision waits no longer."""
        if final:
            self.rewarded += 1
            self._settle(decision.name, "rewarded")
        else:
            decision.reward = self.rules.combined(decision.reward, value)
        if key is not None:
            decision.keys.add(key)

    def due(self, now: float, coming: int = 0) -> Iterator[tuple[Waiting, float | None]]:
        """Yield all decisions whose time is over, and those with rewards that must make way for new ones.

        Each comes with what is to be learned from it, if anything, and has to be closed before the next one.
        A decision without a reward makes way when the new one is issued: there is nothing to learn from it,
        as its reward might still have come.
        """
        while self._waiting:
            oldest = next(iter(self._waiting.values()))
            pushed_out = oldest.reward is not None and len(self._waiting) + coming > self.most
            if not pushed_out and not self.rules.over(oldest.since, now):
                return
            yield oldest, self.rules.outcome(oldest.reward)

    def close(self, decision: Waiting) -> None:
        """Let a decision wait no longer, as its time is over."""
        if decision.reward is None:
            self.timed_out += 1
            self._settle(decision.name, "timed_out")
        else:
            self.rewarded += 1
            self._settle(decision.name, "rewarded")

    def remove_arm(self, arm: Arm) -> None:
        """Let no decision wait any longer that played ``arm``."""
        for name in [name for name, waiting in self._waiting.items() if waiting.arm == arm]:
            self.removed += 1
            self._settle(name, "removed")

    def _settle(self, name: str, fate: Fate) -> None:
        self._settled[name] = Settled(fate, self._waiting.pop(name).keys)
        if len(self._settled) > self.most:
            self._settled.popitem(last=False)

    # ---- saving ---------------------------------------------------------------------------------

    def about(self) -> dict[str, Any]:
        """Return what JSON can hold; the rest is in :meth:`state`."""
        return {name: count for name, count in self.counts.items() if name != "pending"}

    def state(self, index: Mapping[Arm, int], width: int) -> State:
        """Return those that wait, and the fate of those that did, oldest first."""
        return as_arrays(self._waiting, self._settled, index, width)

    def restore(self, about: dict[str, Any], state: State, arms: Sequence[Arm], width: int) -> None:
        """Take over what was saved; raise ValueError, TypeError or KeyError if it cannot be ours."""
        count, settled = len(state["ids"]), len(state["settled"])
        counters = {name: about[name] for name in self.about()}
        if any(type(counter) is not int or counter < 0 for counter in counters.values()):
            raise ValueError(f"{counters} are not counts")
        if 2 * counters["decisions"] != sum(counters.values()) + count:
            raise ValueError(f"{counters} do not add up with {count} pending decisions")
        self._waiting, self._settled = from_arrays(state, arms, width)
        if len(self._waiting) != count or max(count, settled) > self.most:
            raise ValueError("a decision waits twice, or too many wait")
        self.issued = counters.pop("decisions")
        vars(self).update(counters)
