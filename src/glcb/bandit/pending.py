"""Pending decisions, and the latest decisions that are no longer pending.

The id of a decision is its number and a checksum of its context. An id of another bandit, or of a bandit that
continued from an earlier copy, is accepted only if that bandit had made the same number of decisions and its
context encodes to the same numbers.
"""

import math
import reprlib
import warnings
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from glcb._arrays import Arrays, Float32, Int64, check_values
from glcb._errors import ClosedDecision, DuplicateReward, InvalidReward, UnknownDecision
from glcb._types import Arm
from glcb.bandit.labels import LABELS, MEMORY, Label, LabelQueue
from glcb.bandit.reward_rules import RewardRules

MAX_KEYS = 1000
"""Number of idempotency keys that one decision can have."""
_PROJECTED_FROM = 100
"""Number of pending decisions from which it is projected whether decisions will be evicted."""

Outcome = Literal["rewarded", "evicted", "removed", "timed_out"]
"""How a decision ended: its reward was learned, newer decisions replaced it, its arm was removed, or its
timeout passed without a reward."""

_OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)


@dataclass(slots=True, eq=False)
class PendingDecision:
    """A decision whose reward has not been learned yet."""

    x: Float32
    """The context as it was encoded at the decision."""
    arm: Arm
    propensity: float
    """The probability of the arm; 0 if it is unknown, as in some logs."""
    decided_at: float = 0.0
    """The time of the decision in seconds; 0 without a timeout."""
    reward: float | None = None
    """The aggregate of the rewards so far, or the reward that is learned at the label age."""
    keys: set[int] = field(default_factory=set)
    """Hashes of the idempotency keys of its rewards."""
    id: str = ""
    label: Label = "none"
    """What has been learned from the decision, if it has a label age."""


class SettledDecision(NamedTuple):
    """A decision that is no longer pending."""

    outcome: Outcome
    keys: set[int]


class PendingDecisions:
    """At most `capacity` pending decisions, and equally many that were settled recently.

    At any time, decisions = rewarded + timed_out + evicted + removed + pending.
    """

    def __init__(self, capacity: int, rules: RewardRules) -> None:
        self.capacity = capacity
        self.rules = rules
        self.decisions = 0
        self.rewarded = 0
        self.timed_out = 0
        self.evicted = 0
        self.removed = 0
        self._warned = False
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

    def next_id(self, x: Float32) -> str:
        """Return the id of the next decision, if `x` is its encoded context."""
        number = self.decisions + 1
        return _to_id((number, zlib.crc32(x.tobytes(), number & 0xFFFFFFFF)))

    def add(self, decision: PendingDecision) -> None:
        """Add a decision; evict the oldest if there are too many."""
        self.decisions += 1
        self._pending[decision.id] = decision
        if self.labels is not None:
            self.labels.add(decision)
        if len(self._pending) > self.capacity:
            self.evicted += 1
            self._settle(next(iter(self._pending)), "evicted")

    def warn_before_eviction(self, now: float) -> None:
        """Warn once if there will be too many pending decisions before the first one times out."""
        timeout = self.rules.reward_timeout
        if timeout is None or self._warned or len(self._pending) < max(self.capacity / 2, _PROJECTED_FROM):
            return
        age = now - next(iter(self._pending.values())).decided_at
        if age < timeout / 2:
            self._warned = True
            needed = math.ceil(len(self._pending) * timeout / max(age, timeout / 1e6))
            warnings.warn(
                f"{len(self._pending):,} decisions are pending after {age:,.0f} seconds; at this rate, more "
                f"than max_pending={self.capacity:,} are made within the reward_timeout of {timeout:,g} "
                f"seconds, and the oldest will be evicted: set max_pending to at least {needed:,}, or lower "
                "reward_timeout",
                stacklevel=2,
            )

    def count_rewarded(self) -> None:
        """Count a decision that arrives together with its reward."""
        self.decisions += 1
        self.rewarded += 1

    def contains(self, decision_id: object, now: float) -> bool:
        """Return whether a decision is pending and its timeout has not passed."""
        decision = self._pending.get(decision_id) if isinstance(decision_id, str) else None
        return decision is not None and not self.rules.has_timed_out(decision.decided_at, now)

    def find(self, decision_id: object, now: float = -math.inf) -> PendingDecision:
        """Return a pending decision; if it is not pending, raise an error that says why."""
        if not isinstance(decision_id, str):
            raise UnknownDecision(
                f"the id of a decision must be a string, got {type(decision_id).__name__}: "
                "for a decision d, pass d.id"
            )
        decision = self._pending.get(decision_id)
        if decision is not None and not self.rules.has_timed_out(decision.decided_at, now):
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
            "removed": "its arm was removed",
            "timed_out": f"its timeout of {self.rules.reward_timeout or 0:,g} seconds has passed",
        }
        raise ClosedDecision(f"decision {shown} is no longer pending: {reasons[outcome]}")

    # ---- rewards --------------------------------------------------------------------------------

    def find_for_reward(self, decision_id: str, key: int | None, now: float) -> PendingDecision | None:
        """Return the decision of a reward, or None if it had a reward with the same key."""
        if key is not None and isinstance(decision_id, str):
            known = self._pending.get(decision_id) or self._settled.get(decision_id)
            if known is not None and key in known.keys:
                return None
        decision = self.find(decision_id, now)
        if key is not None and len(decision.keys) == MAX_KEYS:
            raise InvalidReward(f"a decision can have at most {MAX_KEYS:,} rewards with an idempotency key")
        return decision

    def learns_now(self, decision: PendingDecision, now: float, was_learned: bool | None) -> bool:
        """Return whether a reward is learned when it arrives, not at the label age or the timeout.

        In the replay of a log, `was_learned` is the answer of its writer, and else None.
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
        labels = self.labels
        if labels is not None:
            labels.add_delay(max(now - decision.decided_at, 0.0))
            if final:
                labels.add_late_reward(decision)
        if final or labels is not None:
            self.rewarded += 1
            self._settle(decision.id, "rewarded")
        if not final:
            decision.reward = self.rules.aggregate(decision.reward, value)
        if key is not None:
            decision.keys.add(key)

    # ---- settling -------------------------------------------------------------------------------

    def due(self, now: float, incoming: int = 0) -> Iterator[tuple[PendingDecision, float | None]]:
        """Yield decisions to close: timed out, or displaced by `incoming` new decisions.

        Each comes with the reward to learn, if any, and must be closed before the next one. A displaced
        decision without a reward is evicted by :meth:`add` if there is no default reward: nothing is learned,
        because its reward could still have arrived. If there is one, it is learned. Otherwise, of the
        displaced decisions only those with a reward would be learned.
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
            self.rewarded += 1
            self._settle(decision.id, "rewarded")
        elif self.rules.has_timed_out(decision.decided_at, now):
            self.timed_out += 1
            self._settle(decision.id, "timed_out")
        else:
            self.evicted += 1
            self._settle(decision.id, "evicted")

    def remove_arm(self, arm: Arm) -> None:
        """Settle all pending decisions for `arm`."""
        for decision_id in [decision.id for decision in self if decision.arm == arm]:
            self.removed += 1
            self._settle(decision_id, "removed")
        if self.labels is not None:
            self.labels.remove_arm(arm)

    def _settle(self, decision_id: str, outcome: Outcome) -> None:
        self._settled[decision_id] = SettledDecision(outcome, self._pending.pop(decision_id).keys)
        if len(self._settled) > self.capacity:
            self._settled.popitem(last=False)

    # ---- saving ---------------------------------------------------------------------------------

    def snapshot(self, index: Mapping[Arm, int], width: int) -> tuple[dict[str, Any], Arrays]:
        """Return the counts, and the decisions as arrays, oldest first."""
        counts = {name: count for name, count in self.counts.items() if name != "pending"}
        labels = self.labels
        unlearned = [] if labels is None else [one for one in labels if one.reward is not None]
        arrays = _to_arrays([*self._pending.values(), *unlearned], self._settled, index, width)
        arrays["is_settled"][len(self._pending) :] = 1
        arrays["delays"] = np.array([] if labels is None else labels.delays, np.float64)
        arrays["surplus"] = np.array(
            [0 if labels is None else labels.surplus[arm] for arm in index], np.int64
        )
        return counts, arrays

    def restore(self, counts: dict[str, Any], arrays: Arrays, arms: Sequence[Arm], width: int) -> None:
        """Restore a snapshot; raise ValueError, TypeError or KeyError if it is invalid."""
        arrays = {**_without_labels(len(arrays["ids"]), len(arms)), **arrays}
        decisions, settled = _from_arrays(arrays, arms, width)
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
        vars(self).update(counts)

    def _restore_labels(self, decisions: list[PendingDecision], arrays: Arrays, arms: Sequence[Arm]) -> None:
        delays, surplus = arrays["delays"], arrays["surplus"]
        check_values("delays", delays)
        if delays.ndim != 1 or delays.size > MEMORY or surplus.shape != (len(arms),):
            raise ValueError("the delays or the surplus have the wrong size")
        if (delays.size and delays.min() < 0) or (surplus.size and surplus.min() < 0):
            raise ValueError("delays and surplus must not be negative")
        if self.labels is not None:
            unlabeled = [decision for decision in decisions if decision.label == "none"]
            self.labels.restore(sorted(unlabeled, key=lambda one: _from_id(one.id)), delays.tolist())
            self.labels.surplus.update(dict(zip(arms, surplus.tolist(), strict=True)))
        elif arrays["is_settled"].any():
            raise ValueError("there are rewards to be learned, but no default reward")


def _without_labels(decisions: int, arms: int) -> Arrays:
    """Return the arrays that files of format 2 do not have."""
    return {
        "labels": np.zeros(decisions, np.int64),
        "is_settled": np.zeros(decisions, np.int64),
        "delays": np.zeros(0, np.float64),
        "surplus": np.zeros(arms, np.int64),
    }


def _to_id(parts: Sequence[int]) -> str:
    """Return an id from its two numbers.

    >>> _to_id((7, 255)), _from_id("7-000000ff")
    ('7-000000ff', (7, 255))
    """
    number, checksum = parts
    return f"{number}-{checksum:08x}"


def _from_id(decision_id: str) -> tuple[int, int]:
    number, _, checksum = decision_id.partition("-")
    return int(number), int(checksum, 16)


def _to_arrays(
    decisions: Sequence[PendingDecision],
    settled: Mapping[str, SettledDecision],
    index: Mapping[Arm, int],
    width: int,
) -> Arrays:
    rewards = [decision.reward for decision in decisions]
    return {
        "ids": _pairs(_from_id(decision.id) for decision in decisions),
        "contexts": np.array([decision.x for decision in decisions], np.float32).reshape(-1, width),
        "arms": np.array([index[decision.arm] for decision in decisions], np.int64),
        "propensities": np.array([decision.propensity for decision in decisions], np.float64),
        "decided_at": np.array([decision.decided_at for decision in decisions], np.float64),
        "has_reward": np.array([reward is not None for reward in rewards], np.int64),
        "rewards": np.array([reward or 0.0 for reward in rewards], np.float64),
        "labels": np.array([LABELS.index(decision.label) for decision in decisions], np.int64),
        "is_settled": np.zeros(len(decisions), np.int64),
        "keys": _key_rows(decision.keys for decision in decisions),
        "settled_ids": _pairs(map(_from_id, settled)),
        "settled_outcomes": np.array([_OUTCOMES.index(one.outcome) for one in settled.values()], np.int64),
        "settled_keys": _key_rows(one.keys for one in settled.values()),
    }


def _from_arrays(
    arrays: Arrays, arms: Sequence[Arm], width: int
) -> tuple[list[PendingDecision], OrderedDict[str, SettledDecision]]:
    count, settled_count = len(arrays["ids"]), len(arrays["settled_ids"])
    for name, own in _to_arrays((), {}, {}, width).items():
        array = arrays[name]
        rows = len(array) if name.endswith("keys") else settled_count if name.startswith("settled") else count
        shape = (rows, *own.shape[1:])
        if array.shape != shape or array.dtype != own.dtype:
            raise ValueError(f"{name} is {array.dtype} {array.shape}, expected {own.dtype} {shape}")
        check_values(name, array)
    maxima = {
        "contexts": 1,
        "propensities": 1,
        "arms": len(arms) - 1,
        "has_reward": 1,
        "labels": len(LABELS) - 1,
        "is_settled": 1,
        "settled_outcomes": len(_OUTCOMES) - 1,
    }
    for name, maximum in maxima.items():
        array = arrays[name]
        if array.size and not 0 <= array.min() <= array.max() <= maximum:
            raise ValueError(f"{name} must be from 0 to {maximum}")
    names = ("arms", "propensities", "decided_at", "has_reward", "rewards", "labels")
    columns = (arrays[name].tolist() for name in names)
    ids = map(_to_id, arrays["ids"].tolist())
    decisions = [
        PendingDecision(
            x.copy(), arms[arm], propensity, decided_at, reward if known else None, keys, name, LABELS[label]
        )
        for name, x, keys, arm, propensity, decided_at, known, reward, label in zip(
            ids, arrays["contexts"], _key_sets(arrays["keys"], count), *columns, strict=True
        )
    ]
    outcomes = zip(
        arrays["settled_outcomes"].tolist(), _key_sets(arrays["settled_keys"], settled_count), strict=True
    )
    settled = [SettledDecision(_OUTCOMES[outcome], keys) for outcome, keys in outcomes]
    settled_ids = map(_to_id, arrays["settled_ids"].tolist())
    return decisions, OrderedDict(zip(settled_ids, settled, strict=True))


def _pairs(pairs: Iterable[tuple[int, int]]) -> Int64:
    return np.array(list(pairs), np.int64).reshape(-1, 2)


def _key_rows(sets: Iterable[set[int]]) -> Int64:
    """Return a row (position of the decision, key) for each key."""
    return _pairs((row, key) for row, keys in enumerate(sets) for key in sorted(keys))


def _key_sets(rows: Int64, count: int) -> list[set[int]]:
    sets: list[set[int]] = [set() for _ in range(count)]
    for row, key in rows.tolist():
        if row >= count:
            raise ValueError("a key belongs to a decision that does not exist")
        sets[row].add(key)
    return sets
