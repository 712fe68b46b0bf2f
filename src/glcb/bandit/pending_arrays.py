"""Pending and settled decisions as the arrays of a model file. Their ids are text, one per line."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence, Set

import numpy as np

from glcb._arrays import Arrays, Int64, check_values
from glcb._types import Arm
from glcb.bandit.labels import LABELS, MEMORY
from glcb.bandit.records import OUTCOMES, PendingDecision, SettledDecision, is_valid_slot_id


def from_decisions(
    decisions: Sequence[PendingDecision],
    settled: Mapping[str, SettledDecision],
    index: Mapping[Arm, int],
    width: int,
) -> Arrays:
    """Return the arrays of pending and settled decisions."""
    rewards = [decision.reward for decision in decisions]
    return {
        "ids": _text(decision.id for decision in decisions),
        "numbers": np.array([decision.number for decision in decisions], np.int64),
        "contexts": np.array([decision.x for decision in decisions], np.float32).reshape(-1, width),
        "arms": np.array([index[decision.arm] for decision in decisions], np.int64),
        "propensities": np.array([decision.propensity for decision in decisions], np.float64),
        "decided_at": np.array([decision.decided_at for decision in decisions], np.float64),
        "has_reward": np.array([reward is not None for reward in rewards], np.int64),
        "rewards": np.array([reward or 0.0 for reward in rewards], np.float64),
        "labels": np.array([LABELS.index(decision.label) for decision in decisions], np.int64),
        "is_settled": np.zeros(len(decisions), np.int64),
        "keys": _key_rows(decision.keys for decision in decisions),
        "settled_ids": _text(settled),
        "settled_outcomes": np.array([OUTCOMES.index(one.outcome) for one in settled.values()], np.int64),
        "settled_keys": _key_rows(one.keys for one in settled.values()),
    }


def to_decisions(
    arrays: Arrays, arms: Sequence[Arm], width: int
) -> tuple[list[PendingDecision], OrderedDict[str, SettledDecision]]:
    """Return the pending and the settled decisions; raise ValueError or KeyError if an array is invalid."""
    _check(arrays, arms, width)
    ids, settled_ids = _lines(arrays["ids"]), _lines(arrays["settled_ids"])
    names = ("arms", "propensities", "decided_at", "has_reward", "rewards", "labels", "numbers")
    columns = (arrays[name].tolist() for name in names)
    decisions = [
        PendingDecision(
            x.copy(),
            arms[arm],
            propensity,
            decided_at,
            reward if known else None,
            keys,
            name,
            number,
            LABELS[label],
        )
        for name, x, keys, arm, propensity, decided_at, known, reward, label, number in zip(
            ids, arrays["contexts"], _key_sets(arrays["keys"], len(ids)), *columns, strict=True
        )
    ]
    outcomes = zip(
        arrays["settled_outcomes"].tolist(), _key_sets(arrays["settled_keys"], len(settled_ids)), strict=True
    )
    settled = [SettledDecision(OUTCOMES[outcome], keys) for outcome, keys in outcomes]
    return decisions, OrderedDict(zip(settled_ids, settled, strict=True))


def _check(arrays: Arrays, arms: Sequence[Arm], width: int) -> None:
    """Raise ValueError or KeyError unless all arrays have the right type and size, and possible values."""
    count, settled_count = len(arrays["numbers"]), len(arrays["settled_outcomes"])
    sizes = {"ids": len(arrays["ids"]), "settled_ids": len(arrays["settled_ids"])}
    for name, own in from_decisions((), {}, {}, width).items():
        array = arrays[name]
        rows = len(array) if name.endswith("keys") else settled_count if name.startswith("settled") else count
        shape = (sizes.get(name, rows), *own.shape[1:])
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
        "settled_outcomes": len(OUTCOMES) - 1,
    }
    for name, maximum in maxima.items():
        array = arrays[name]
        if array.size and not 0 <= array.min() <= array.max() <= maximum:
            raise ValueError(f"{name} must be from 0 to {maximum}")
    delays, surplus = arrays["delays"], arrays["surplus"]
    check_values("delays", delays)
    if delays.ndim != 1 or delays.size > MEMORY or surplus.shape != (len(arms),):
        raise ValueError("the delays or the surplus have the wrong size")
    if (delays.size and delays.min() < 0) or (surplus.size and surplus.min() < 0):
        raise ValueError("delays and surplus must not be negative")


def _text(ids: Iterable[str]) -> np.ndarray:
    return np.frombuffer("".join(f"{one}\n" for one in ids).encode("ascii"), np.uint8)


def _lines(text: np.ndarray) -> list[str]:
    *ids, rest = text.tobytes().decode("ascii").split("\n")
    if rest or not all(map(is_valid_slot_id, ids)) or len(set(ids)) != len(ids):
        raise ValueError("an id is invalid, or there are two decisions with the same id")
    return ids


def _key_rows(sets: Iterable[Set[int]]) -> Int64:
    """Return a row (position of the decision, key) for each key."""
    pairs = [(row, key) for row, keys in enumerate(sets) for key in sorted(keys)]
    return np.array(pairs, np.int64).reshape(-1, 2)


def _key_sets(rows: Int64, count: int) -> list[Set[int]]:
    sets: list[Set[int]] = [frozenset()] * count
    for row, key in rows.tolist():
        if row >= count:
            raise ValueError("a key belongs to a decision that does not exist")
        sets[row] |= {key}
    return sets
