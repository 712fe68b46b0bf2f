"""Pending decisions, and the latest decisions that are no longer pending.

The id of a decision is its number and a checksum of its context. An id from another bandit, or from a bandit
that continued from an earlier copy, is accepted only if that bandit had made the same number of decisions and
context encodes to the same numbers. A bandit with a random prefix accepts no ids of other bandits. The caller
can also choose the ids.
"""

import math
import reprlib
import warnings
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from glcb._arrays import Arrays, Float32
from glcb._errors import (
    ClosedDecision,
    DuplicateDecision,
    DuplicateReward,
    InvalidInput,
    InvalidReward,
    InvalidSettings,
    UnknownDecision,
)
from glcb._types import Arm
from glcb.bandit import pending_arrays
from glcb.bandit.labels import LabelQueue
from glcb.bandit.records import Outcome, PendingDecision, SettledDecision, is_valid_id
from glcb.bandit.reward_rules import RewardRules
from glcb.bandit.slots import SEPARATOR

MAX_KEYS = 1000
"""Number of idempotency keys that one decision can have."""
_PROJECTED_FROM = 100
"""With this many pending decisions or more, evictions are projected."""
_ALMOST_FULL = 0.9
"""Share of the capacity above which a little more traffic would evict decisions."""


class PendingDecisions:
    """At most `capacity` pending decisions, and as many recently settled ones.

    At any time, decisions = rewarded + timed_out + evicted + removed + pending.
    """

    def __init__(self, capacity: int, rules: RewardRules) -> None:
        self.capacity = capacity
        self.rules = rules
        self.decisions = 0
        self.rewarded = 0
        self.timed_out = 0
        self.removed = 0
        self._warned = False
        self.has_slots = False
        """Whether a ranking with several slots was ever added."""
        self.labels: LabelQueue | None = None
        if rules.has_labels and rules.reward_timeout is not None:
            self.labels = LabelQueue(capacity, rules.reward_timeout)
        # OrderedDict, because a plain dict slows down when its oldest entries are removed repeatedly.
        self._pending: OrderedDict[str, PendingDecision] = OrderedDict()
        self._settled: OrderedDict[str, SettledDecision] = OrderedDict()

    def __len__(self) -> int:
        return len(self._pending)

    def __iter__(self) -> Iterator[PendingDecision]:
        return iter(self._pending.values())

    @property
    def evicted(self) -> int:
        """Number of evicted decisions, derived from the other counts."""
        return self.decisions - self.rewarded - self.timed_out - self.removed - len(self._pending)

    @property
    def counts(self) -> dict[str, int]:
        """Number of decisions in total, and by state."""
        return {
            "decisions": self.decisions,
            "rewarded": self.rewarded,
            "timed_out": self.timed_out,
            "evicted": self.evicted,
            "removed": self.removed,
            "pending": len(self._pending),
        }

    # ---- decisions ------------------------------------------------------------------------------

    def next_id(self, x: Float32, prefix: str) -> str:
        """Return the id of the next decision, if `x` is its encoded context."""
        number = self.decisions + 1
        checksum = zlib.crc32(x.tobytes(), number & 0xFFFFFFFF)
        while self.is_known(decision_id := f"{prefix}{number}-{checksum:08x}"):  # chosen by the caller
            checksum += 1
        return decision_id

    def is_known(self, decision_id: str) -> bool:
        """Return whether a decision with this id is pending, was settled recently or is not yet learned."""
        if decision_id in self._pending or decision_id in self._settled:
            return True
        return self.labels is not None and self.labels.find(decision_id) is not None

    def check_new_id(self, decision_id: object) -> None:
        """Raise InvalidInput unless a caller-chosen id is valid for a new decision."""
        if not isinstance(decision_id, str) or not is_valid_id(decision_id):
            raise InvalidInput(
                "the id of a decision must be a string of 1 to 100 characters from A–Z, a–z, 0–9, _ and -, "
                f"got {reprlib.repr(decision_id)}"
            )
        if self.is_known(decision_id):
            raise DuplicateDecision(f"there is already a decision {decision_id!r}: use each id only once")

    def add(self, decision: PendingDecision) -> None:
        """Number and add a decision; evict the oldest if there are too many."""
        if len(self._pending) == self.capacity:
            self._make_space()
        decision.number = self.decisions + 1
        self.decisions += 1
        self.has_slots = self.has_slots or SEPARATOR in decision.id
        self._pending[decision.id] = decision
        if self.labels is not None:
            self.labels.add(decision)

    def warn_before_eviction(self, now: float) -> None:
        """Warn once if there will be too many pending decisions before the first one times out.

        If traffic grows slowly, the oldest decision is always close to its timeout, so there is also a
        warning when almost all of the capacity is in use.
        """
        timeout, pending = self.rules.reward_timeout, len(self._pending)
        if timeout is None or self._warned or pending < max(self.capacity / 2, _PROJECTED_FROM):
            return
        age = now - next(iter(self._pending.values())).decided_at
        needed = math.ceil(pending * timeout / min(max(age, timeout / 1e6), timeout))
        if needed <= self.capacity * (1 if pending < _ALMOST_FULL * self.capacity else _ALMOST_FULL):
            return
        self._warned = True
        reason = f"{pending:,} decisions are pending after {age:,.0f} seconds; "
        if needed > self.capacity:
            reason += (
                f"at this rate, more than max_pending={self.capacity:,} are made within the reward_timeout "
                f"of {timeout:,g} seconds, and the oldest will be evicted"
            )
        else:
            needed = 2 * self.capacity
            reason += f"if there are more than max_pending={self.capacity:,}, the oldest are evicted"
        warnings.warn(
            f"{reason}: set max_pending to at least {needed:,}, or lower reward_timeout", stacklevel=2
        )

    def count_rewarded(self) -> None:
        """Count a decision that arrives together with its reward."""
        self.decisions += 1
        self.rewarded += 1

    def contains(self, decision_id: object, now: float) -> bool:
        """Return whether a decision is pending and its timeout has not passed."""
        decision = self._pending.get(decision_id) if isinstance(decision_id, str) else None
        return decision is not None and not self.rules.has_timed_out(decision.decided_at, now)

    def arms(self) -> list[Arm]:
        """Return the arms of all decisions that are kept, and of default rewards to offset."""
        arms = [decision.arm for decision in self]
        if self.labels is not None:
            arms += [decision.arm for decision in self.labels]
            # Sorted: a restored bandit has counted them in another order.
            arms += sorted((arm for arm, count in self.labels.surplus.items() if count), key=repr)
        return list(dict.fromkeys(arms))

    def find(self, decision_id: object, now: float = -math.inf) -> PendingDecision:
        """Return a pending decision; if it is not pending, raise an error that says why."""
        if not isinstance(decision_id, str):
            raise UnknownDecision(
                f"the id of a decision must be a string, got {type(decision_id).__name__}: "
                "for a decision d, pass d.id"
            )
        decision = self._pending.get(decision_id)
        is_due = decision is not None and self.rules.has_timed_out(decision.decided_at, now)
        if decision is not None and not is_due:
            return decision
        outcome: Outcome | None
        if decision is not None:
            outcome = "timed_out" if decision.reward is None else "rewarded"
        else:
            settled = self._settled.get(decision_id)
            outcome = None if settled is None else settled.outcome
        shown = reprlib.repr(decision_id)
        if outcome is None:
            raise UnknownDecision(f"decision {shown} is unknown: pass the id of a decision of this bandit")
        if outcome == "rewarded" and self.rules.has_single_reward:
            raise DuplicateReward(f"decision {shown} has already been rewarded")
        reasons = {
            "rewarded": "its timeout has passed and its aggregated reward was learned",
            "evicted": f"{self.capacity:,} newer decisions are pending; raise max_pending",
            "removed": "its arm was removed, or its slot was not examined",
            "timed_out": f"its timeout of {self.rules.reward_timeout or 0:,g} seconds has passed",
        }
        raise ClosedDecision(f"decision {shown} is no longer pending: {reasons[outcome]}")

    # ---- rewards --------------------------------------------------------------------------------

    def has_key(self, decision_id: object, key: int) -> bool:
        """Return whether a decision had a reward with this key."""
        if not isinstance(decision_id, str):
            return False
        known = self._pending.get(decision_id) or self._settled.get(decision_id)
        return known is not None and key in known.keys

    def find_for_reward(self, decision_id: str, key: int | None, now: float) -> PendingDecision | None:
        """Return the decision of a reward, or None if it had a reward with the same key."""
        if key is not None and self.has_key(decision_id, key):
            return None
        decision = self.find(decision_id, now)
        if key is not None and len(decision.keys) == MAX_KEYS:
            raise InvalidReward(f"a decision can have at most {MAX_KEYS:,} rewards with an idempotency key")
        return decision

    def learns_now(self, decision: PendingDecision, now: float, was_learned: bool | None) -> bool:
        """Return whether a reward is learned when it arrives, not at the label age or the timeout.

        When a log is replayed, `was_learned` says what its writer did; otherwise it is None.
        """
        if self.labels is not None and not was_learned:
            return decision.label != "none" or (
                was_learned is None and self.labels.is_due_with_reward(decision, now)
            )
        return self.rules.learns_at_once if was_learned is None else was_learned

    def add_reward(
        self, decision: PendingDecision, value: float, key: int | None, final: bool, now: float
    ) -> None:
        """Record a reward. A final one has been learned, and settles the decision.

        If there is a label age, a reward that has not been learned settles the decision as well, and is
        learned later.
        """
        keys = decision.keys if key is None else decision.keys | {key}
        reward = decision.reward if final else self.rules.aggregate(decision.reward, value)
        labels = self.labels
        if not final and labels is None:
            self._pending[decision.id] = replace(decision, reward=reward, keys=keys)
            return
        decision.reward = reward
        if labels is not None:
            labels.add_delay(max(now - decision.decided_at, 0.0))
            if final:
                labels.add_late_reward(decision)
        decision.keys = keys
        self._settle(decision, "rewarded")
        self.rewarded += 1

    # ---- settling -------------------------------------------------------------------------------

    def has_due(self, now: float, more_than: int) -> bool:
        """Return whether more than this many decisions have timed out or have reached the label age."""
        if self.rules.reward_timeout is None:
            return False
        oldest = next(islice(self._pending.values(), more_than, None), None)
        if oldest is not None and self.rules.has_timed_out(oldest.decided_at, now):
            return True
        return self.labels is not None and self.labels.has_due(now, more_than)

    def due(self, now: float, incoming: int = 0) -> Iterator[tuple[PendingDecision, float | None]]:
        """Yield decisions to close: timed out, or displaced by `incoming` new decisions.

        Each comes with the reward to learn, if any, and must be closed before the next one. A displaced
        decision without a reward is evicted by :meth:`add` if there is no default reward: nothing is learned,
        because its reward could still have arrived. With a default reward, all displaced decisions are
        learned; otherwise only rewarded ones would be.
        """
        while self._pending:
            oldest = next(iter(self._pending.values()))
            outcome = self.rules.outcome(oldest.reward)
            displaced = outcome is not None and len(self._pending) + incoming > self.capacity
            if not displaced and not self.rules.has_timed_out(oldest.decided_at, now):
                return
            yield oldest, outcome

    def due_labels(
        self, now: float, incoming: int, excluded: PendingDecision | None
    ) -> Iterator[tuple[PendingDecision, float]]:
        """Yield decisions to label, with their labels; see :meth:`LabelQueue.due`."""
        if self.labels is not None:
            for decision in self.labels.due(now, incoming, excluded):
                outcome = self.rules.outcome(decision.reward)
                assert outcome is not None  # there is a default reward
                yield decision, outcome

    def find_unlabeled(self, decision_id: str) -> PendingDecision | None:
        """Return a decision that waits for its label."""
        return None if self.labels is None else self.labels.find(decision_id)

    def learns_label(self, decision: PendingDecision) -> bool:
        """Return whether the label of a decision is to be learned now."""
        return decision.label == "none" and (self.labels is None or not self.labels.waives(decision))

    def label(self, decision: PendingDecision) -> None:
        """Record that a decision has its label."""
        if self.labels is not None and decision.label == "none":
            self.labels.label(decision)

    def close(self, decision: PendingDecision, now: float) -> None:
        """Settle a decision that is due."""
        self.label(decision)
        if decision.reward is not None:
            self._settle(decision, "rewarded")
            self.rewarded += 1
        elif self.rules.has_timed_out(decision.decided_at, now):
            self._settle(decision, "timed_out")
            self.timed_out += 1
        else:
            self._settle(decision, "evicted")

    def drop(self, decision_id: str) -> None:
        """Settle a pending decision without learning from it."""
        self._settle(self._pending[decision_id], "removed")
        self.removed += 1
        if self.labels is not None:
            self.labels.drop(decision_id)

    def resume(self, decision: PendingDecision) -> None:
        """Make a decision that was dropped pending again, as the newest one."""
        if len(self._pending) == self.capacity:
            self._make_space()
        self._settled.pop(decision.id, None)
        decision.number = self.decisions
        self.removed -= 1
        self.has_slots = self.has_slots or SEPARATOR in decision.id
        self._pending[decision.id] = decision
        if self.labels is not None:
            self.labels.add(decision)

    def remove_arm(self, arm: Arm) -> None:
        """Settle all pending decisions for `arm`."""
        for decision in [decision for decision in self if decision.arm == arm]:
            self._settle(decision, "removed")
            self.removed += 1
        if self.labels is not None:
            self.labels.remove_arm(arm)

    def _make_space(self) -> None:
        """Evict the oldest decision."""
        oldest = next(iter(self._pending.values()))
        if self.labels is not None:  # only if a ranking has more slots than there is space for
            self.labels.drop(oldest.id)
        self._settle(oldest, "evicted")

    def _settle(self, decision: PendingDecision, outcome: Outcome) -> None:
        """Move a decision to the settled decisions. The caller counts the outcome afterwards."""
        if len(self._settled) >= self.capacity:
            self._settled.popitem(last=False)
        self._settled[decision.id] = SettledDecision(outcome, decision.keys)
        del self._pending[decision.id]

    # ---- change of the rules --------------------------------------------------------------------

    def check_rules(self, rules: RewardRules) -> None:
        """Raise InvalidSettings if these rules cannot follow the current ones."""
        if rules.reward_timeout is None and self.rules.reward_timeout is not None:
            raise InvalidSettings(
                "reward_timeout cannot be removed after the first decision: set a longer one instead"
            )

    def with_reward(self) -> list[tuple[PendingDecision, float | None]]:
        """Return the pending decisions that have a reward, with what is learned from it."""
        return [(one, self.rules.outcome(one.reward)) for one in self if one.reward is not None]

    def unlearned(self) -> list[tuple[PendingDecision, float]]:
        """Return the decisions whose reward waits for the label age, with that reward."""
        return [(one, one.reward) for one in self.labels or () if one.reward is not None]

    def change_rules(self, rules: RewardRules, now: float) -> None:
        """Apply new rules to all pending decisions, none of which has a reward.

        If there was no timeout before, the timeout begins now.
        """
        before, labels = self.labels, None
        if rules.has_labels and rules.reward_timeout is not None:
            labels = LabelQueue(self.capacity, rules.reward_timeout)
            unlabeled = [one for one in self if one.label == "none"]
            labels.restore(unlabeled, () if before is None else before.delays)
            labels.surplus.update({} if before is None else before.surplus)
        for decision in self:
            if self.rules.reward_timeout is None:
                decision.decided_at = now
            if labels is None:
                decision.label = "none"
        self.rules, self.labels = rules, labels

    # ---- saving ---------------------------------------------------------------------------------

    def snapshot(self, index: Mapping[Arm, int], width: int) -> tuple[dict[str, Any], Arrays]:
        """Return the counts, and the decisions as arrays, oldest first."""
        counts = {name: count for name, count in self.counts.items() if name != "pending"}
        labels = self.labels
        unlearned = [] if labels is None else [one for one in labels if one.reward is not None]
        unlearned = [one for one in unlearned if one.id not in self._pending]
        decisions = [*self._pending.values(), *unlearned]
        arrays = pending_arrays.from_decisions(decisions, self._settled, index, width)
        arrays["is_settled"][len(self._pending) :] = 1
        arrays["delays"] = np.array([] if labels is None else labels.delays, np.float64)
        arrays["surplus"] = np.array(
            [0 if labels is None else labels.surplus[arm] for arm in index], np.int64
        )
        return counts, arrays

    def restore(self, counts: dict[str, Any], arrays: Arrays, arms: Sequence[Arm], width: int) -> None:
        """Restore a snapshot; raise ValueError, TypeError or KeyError if it is invalid."""
        decisions, settled = pending_arrays.to_decisions(arrays, arms, width)
        is_settled = arrays["is_settled"].tolist()
        pending = [one for one, known in zip(decisions, is_settled, strict=True) if not known]
        counts = {name: counts[name] for name in self.counts if name != "pending"}
        if any(type(count) is not int or count < 0 for count in counts.values()):
            raise ValueError(f"{counts} are not counts")
        if 2 * counts["decisions"] != sum(counts.values()) + len(pending):
            raise ValueError(f"{counts} do not add up with {len(pending)} pending decisions")
        self._pending = OrderedDict((one.id, one) for one in pending)
        self._settled = settled
        if len(self._pending) != len(pending) or max(len(pending), len(settled)) > self.capacity:
            raise ValueError("there are too many pending decisions, or two with the same id")
        self._restore_labels(decisions, arrays, arms)
        self.has_slots = any(SEPARATOR in one for one in (*(each.id for each in decisions), *settled))
        del counts["evicted"]  # derived from the other counts
        vars(self).update(counts)

    def _restore_labels(self, decisions: list[PendingDecision], arrays: Arrays, arms: Sequence[Arm]) -> None:
        if self.labels is not None:
            unlabeled = [decision for decision in decisions if decision.label == "none"]
            unlabeled.sort(key=lambda decision: (decision.number, decision.decided_at))  # if it was resumed
            self.labels.restore(unlabeled, arrays["delays"].tolist())
            self.labels.surplus.update(dict(zip(arms, arrays["surplus"].tolist(), strict=True)))
        elif arrays["is_settled"].any():
            raise ValueError("there are rewards to be learned, but no default reward")
