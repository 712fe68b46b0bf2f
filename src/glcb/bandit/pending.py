"""Decisions that wait for a reward, decisions that no longer do, and both as arrays in a saved file."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, get_args

import numpy as np

from glcb._arrays import State, sane
from glcb._types import Arm, Float32, Int64
from glcb.bandit.ids import from_parts, parts_of

Fate = Literal["rewarded", "evicted", "removed", "timed_out"]
"""What became of a decision: its reward was learned, others needed the room, its arm was removed, or its time
ran out."""

_FATES: tuple[Fate, ...] = get_args(Fate)


@dataclass(slots=True, eq=False)
class Waiting:
    """A decision whose reward is not learned so far."""

    x: Float32
    """The context as it was encoded when the decision was made."""
    arm: Arm
    propensity: float
    """0 if it is not known, as in some logs."""
    since: float = 0.0
    """When it was made, in seconds; 0 if nobody looks at the clock."""
    reward: float | None = None
    """What came so far, if more may come."""
    keys: set[int] = field(default_factory=set)
    """Stand for the idempotency keys of the rewards that came."""
    name: str = ""
    """Its id, from the moment on that it waits."""


class Settled(NamedTuple):
    """A decision that no longer waits."""

    fate: Fate
    keys: set[int]


def as_arrays(
    waiting: Mapping[str, Waiting], settled: Mapping[str, Settled], index: Mapping[Arm, int], width: int
) -> State:
    """Return everything in arrays, oldest first."""
    decisions = list(waiting.values())
    rewards = [decision.reward for decision in decisions]
    return {
        "ids": _pairs(map(parts_of, waiting)),
        "contexts": np.array([decision.x for decision in decisions], np.float32).reshape(-1, width),
        "arms": np.array([index[decision.arm] for decision in decisions], np.int64),
        "propensities": np.array([decision.propensity for decision in decisions], np.float64),
        "since": np.array([decision.since for decision in decisions], np.float64),
        "has_reward": np.array([reward is not None for reward in rewards], np.int64),
        "rewards": np.array([reward or 0.0 for reward in rewards], np.float64),
        "keys": _keys(decision.keys for decision in decisions),
        "settled": _pairs(map(parts_of, settled)),
        "fates": np.array([_FATES.index(one.fate) for one in settled.values()], np.int64),
        "settled_keys": _keys(one.keys for one in settled.values()),
    }


def from_arrays(
    state: State, arms: Sequence[Arm], width: int
) -> tuple[OrderedDict[str, Waiting], OrderedDict[str, Settled]]:
    """Return who waits and who no longer does; raise ValueError or KeyError if nobody saved that."""
    count, gone = len(state["ids"]), len(state["settled"])
    for name, own in as_arrays({}, {}, {}, width).items():
        length = len(state[name]) if name in ("keys", "settled_keys") else None
        rows = length if length is not None else gone if name in ("settled", "fates") else count
        if state[name].shape != (rows, *own.shape[1:]) or state[name].dtype != own.dtype:
            raise ValueError(f"{name} is {state[name].dtype} {state[name].shape}, which does not fit")
        sane(name, state[name])
    limits = {
        "contexts": 1,
        "propensities": 1,
        "arms": len(arms) - 1,
        "has_reward": 1,
        "fates": len(_FATES) - 1,
    }
    for name, highest in limits.items():
        if state[name].size and not 0 <= state[name].min() <= state[name].max() <= highest:
            raise ValueError(f"{name} of decisions must lie within 0 and {highest}")
    columns = (state[name].tolist() for name in ("arms", "propensities", "since", "has_reward", "rewards"))
    names = list(map(from_parts, state["ids"].tolist()))
    waiting = [
        Waiting(x.copy(), arms[arm], propensity, since, reward if has_reward else None, keys, name)
        for name, x, keys, arm, propensity, since, has_reward, reward in zip(
            names, state["contexts"], _sets(state["keys"], count), *columns, strict=True
        )
    ]
    fates = zip(state["fates"].tolist(), _sets(state["settled_keys"], gone), strict=True)
    settled = [Settled(_FATES[fate], keys) for fate, keys in fates]
    return (
        OrderedDict(zip(names, waiting, strict=True)),
        OrderedDict(zip(map(from_parts, state["settled"].tolist()), settled, strict=True)),
    )


def _pairs(pairs: Iterable[tuple[int, int]]) -> Int64:
    return np.array(list(pairs), np.int64).reshape(-1, 2)


def _keys(sets: Iterable[set[int]]) -> Int64:
    """Return a row (whose, key) for each key."""
    return _pairs((row, key) for row, keys in enumerate(sets) for key in sorted(keys))


def _sets(rows: Int64, count: int) -> list[set[int]]:
    sets: list[set[int]] = [set() for _ in range(count)]
    for row, key in rows.tolist():
        if row >= count:
            raise ValueError("a key belongs to a decision that does not exist")
        sets[row].add(key)
    return sets
