"""Pending decisions, and the latest decisions that are no longer pending.

The id of a decision is its number and a checksum of its context. An id of another bandit, or of a bandit that
continued from an earlier copy, is accepted only if that bandit had made the same number of decisions and its
context encodes to the same numbers.
"""

import math
import reprlib
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from glcb._arrays import Arrays, Float32, Int64, check_values
from glcb._errors import ClosedDecision, DuplicateReward, InvalidReward, UnknownDecision
from glcb._types import Arm
from glcb.bandit.reward_rules import RewardRules

MAX_KEYS = 1000
"""Number of idempotency keys that one decision can have."""

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
    """The aggregate of the rewards so far, if more may follow."""
    keys: set[int] = field(default_factory=set)
    """Hashes of the idempotency keys of its rewards."""
    id: str = ""


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
        """Add a decision and set its id; evict the oldest if there are too many."""
        decision.id = self.next_id(decision.x)
        self.decisions += 1
        self._pending[decision.id] = decision
        if len(self._pending) > self.capacity:
            self.evicted += 1
            self._settle(next(iter(self._pending)), "evicted")

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
        if outcome == "rewarded" and self.rules.learns_at_once:
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

    def add_reward(self, decision: PendingDecision, value: float, key: int | None, final: bool) -> None:
        """Record a reward. A final one has been learned, and settles the decision."""
        if final:
            self.rewarded += 1
            self._settle(decision.id, "rewarded")
        else:
            decision.reward = self.rules.aggregate(decision.reward, value)
        if key is not None:
            decision.keys.add(key)

    # ---- settling -------------------------------------------------------------------------------

    def due(self, now: float, incoming: int = 0) -> Iterator[tuple[PendingDecision, float | None]]:
        """Yield decisions to close: timed out, or rewarded and displaced by `incoming` new decisions.

        Each comes with the reward to learn, if any, and must be closed before the next one. A decision
        without a reward is evicted by :meth:`add`: nothing is learned, because its reward could still have
        arrived.
        """
        while self._pending:
            oldest = next(iter(self._pending.values()))
            displaced = oldest.reward is not None and len(self._pending) + incoming > self.capacity
            if not displaced and not self.rules.has_timed_out(oldest.decided_at, now):
                return
            yield oldest, self.rules.outcome(oldest.reward)

    def close(self, decision: PendingDecision) -> None:
        """Settle a decision that is due."""
        if decision.reward is None:
            self.timed_out += 1
            self._settle(decision.id, "timed_out")
        else:
            self.rewarded += 1
            self._settle(decision.id, "rewarded")

    def remove_arm(self, arm: Arm) -> None:
        """Settle all pending decisions for `arm`."""
        for decision_id in [decision.id for decision in self if decision.arm == arm]:
            self.removed += 1
            self._settle(decision_id, "removed")

    def _settle(self, decision_id: str, outcome: Outcome) -> None:
        self._settled[decision_id] = SettledDecision(outcome, self._pending.pop(decision_id).keys)
        if len(self._settled) > self.capacity:
            self._settled.popitem(last=False)

    # ---- saving ---------------------------------------------------------------------------------

    def snapshot(self, index: Mapping[Arm, int], width: int) -> tuple[dict[str, Any], Arrays]:
        """Return the counts, and the decisions as arrays, oldest first."""
        counts = {name: count for name, count in self.counts.items() if name != "pending"}
        return counts, _to_arrays(self._pending, self._settled, index, width)

    def restore(self, counts: dict[str, Any], arrays: Arrays, arms: Sequence[Arm], width: int) -> None:
        """Restore a snapshot; raise ValueError, TypeError or KeyError if it is invalid."""
        pending, settled = len(arrays["ids"]), len(arrays["settled_ids"])
        counts = {name: counts[name] for name in self.counts if name != "pending"}
        if any(type(count) is not int or count < 0 for count in counts.values()):
            raise ValueError(f"{counts} are not counts")
        if 2 * counts["decisions"] != sum(counts.values()) + pending:
            raise ValueError(f"{counts} do not add up with {pending} pending decisions")
        self._pending, self._settled = _from_arrays(arrays, arms, width)
        if len(self._pending) != pending or max(pending, settled) > self.capacity:
            raise ValueError("there are too many pending decisions, or two with the same id")
        vars(self).update(counts)


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
    pending: Mapping[str, PendingDecision],
    settled: Mapping[str, SettledDecision],
    index: Mapping[Arm, int],
    width: int,
) -> Arrays:
    decisions = list(pending.values())
    rewards = [decision.reward for decision in decisions]
    return {
        "ids": _pairs(map(_from_id, pending)),
        "contexts": np.array([decision.x for decision in decisions], np.float32).reshape(-1, width),
        "arms": np.array([index[decision.arm] for decision in decisions], np.int64),
        "propensities": np.array([decision.propensity for decision in decisions], np.float64),
        "decided_at": np.array([decision.decided_at for decision in decisions], np.float64),
        "has_reward": np.array([reward is not None for reward in rewards], np.int64),
        "rewards": np.array([reward or 0.0 for reward in rewards], np.float64),
        "keys": _key_rows(decision.keys for decision in decisions),
        "settled_ids": _pairs(map(_from_id, settled)),
        "settled_outcomes": np.array([_OUTCOMES.index(one.outcome) for one in settled.values()], np.int64),
        "settled_keys": _key_rows(one.keys for one in settled.values()),
    }


def _from_arrays(
    arrays: Arrays, arms: Sequence[Arm], width: int
) -> tuple[OrderedDict[str, PendingDecision], OrderedDict[str, SettledDecision]]:
    count, settled_count = len(arrays["ids"]), len(arrays["settled_ids"])
    for name, own in _to_arrays({}, {}, {}, width).items():
        array = arrays[name]
        rows = len(array) if name.endswith("keys") else settled_count if "settled" in name else count
        shape = (rows, *own.shape[1:])
        if array.shape != shape or array.dtype != own.dtype:
            raise ValueError(f"{name} is {array.dtype} {array.shape}, expected {own.dtype} {shape}")
        check_values(name, array)
    maxima = {
        "contexts": 1,
        "propensities": 1,
        "arms": len(arms) - 1,
        "has_reward": 1,
        "settled_outcomes": len(_OUTCOMES) - 1,
    }
    for name, maximum in maxima.items():
        array = arrays[name]
        if array.size and not 0 <= array.min() <= array.max() <= maximum:
            raise ValueError(f"{name} must be from 0 to {maximum}")
    columns = (
        arrays[name].tolist() for name in ("arms", "propensities", "decided_at", "has_reward", "rewards")
    )
    ids = list(map(_to_id, arrays["ids"].tolist()))
    pending = [
        PendingDecision(
            x.copy(), arms[arm], propensity, decided_at, reward if has_reward else None, keys, name
        )
        for name, x, keys, arm, propensity, decided_at, has_reward, reward in zip(
            ids, arrays["contexts"], _key_sets(arrays["keys"], count), *columns, strict=True
        )
    ]
    outcomes = zip(
        arrays["settled_outcomes"].tolist(), _key_sets(arrays["settled_keys"], settled_count), strict=True
    )
    settled = [SettledDecision(_OUTCOMES[outcome], keys) for outcome, keys in outcomes]
    return (
        OrderedDict(zip(ids, pending, strict=True)),
        OrderedDict(zip(map(_to_id, arrays["settled_ids"].tolist()), settled, strict=True)),
    )


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
