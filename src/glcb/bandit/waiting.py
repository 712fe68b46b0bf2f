"""Decisions that wait for their reward. There is room for so many; then the oldest has to go."""

import reprlib
import zlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from glcb._errors import DuplicateReward, ExpiredDecision, UnknownDecision
from glcb._state import State, sane
from glcb._types import Arm, Float32

Fate = Literal["rewarded", "expired", "removed"]
"""What became of a decision: it got its reward, others needed the room, or its arm was removed."""

_FATES: tuple[Fate, ...] = ("rewarded", "expired", "removed")


class Waiting(NamedTuple):
    """A decision without a reward so far."""

    x: Float32
    """The context as it was encoded when the decision was made."""
    arm: Arm
    propensity: float


class WaitingRoom:
    """At most ``most`` decisions that wait, and the fate of as many that no longer do.

    At every moment, issued = rewarded + expired + waiting.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.issued = 0
        self.rewarded = 0
        # Ordered ones, because a plain dict gets slow when its oldest entries are removed again and again.
        self._waiting: OrderedDict[str, Waiting] = OrderedDict()
        self._settled: OrderedDict[str, Fate] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def expired(self) -> int:
        """Number of decisions that will never have a reward."""
        return self.issued - self.rewarded - len(self._waiting)

    def issue(self, decision: Waiting) -> str:
        """Let a decision wait; return its id."""
        self.issued += 1
        name = _id(self.issued, decision.x)
        self._waiting[name] = decision
        if len(self._waiting) > self.most:
            self._settle(next(iter(self._waiting)), "expired")
        return name

    def find(self, name: object) -> Waiting:
        """Return the decision that waits under this id; if none does, raise an error that says why."""
        waiting = self._waiting.get(name) if isinstance(name, str) else None
        if waiting is not None:
            return waiting
        fate = self._settled.get(name) if isinstance(name, str) else None
        shown = reprlib.repr(name)
        if fate == "rewarded":
            raise DuplicateReward(f"the decision {shown} has its reward already: each gets one")
        if fate == "expired":
            raise ExpiredDecision(
                f"the decision {shown} no longer waits for a reward: {self.most:,} others have come after it"
            )
        if fate == "removed":
            raise ExpiredDecision(f"the decision {shown} no longer waits for a reward: its arm was removed")
        raise UnknownDecision(f"no decision {shown} is known: pass the id of a decision of this bandit")

    def reward(self, name: str) -> None:
        """Take note that a decision has its reward."""
        self.rewarded += 1
        self._settle(name, "rewarded")

    def remove_arm(self, arm: Arm) -> None:
        """Let no decision wait any longer that played ``arm``."""
        for name in [name for name, waiting in self._waiting.items() if waiting.arm == arm]:
            self._settle(name, "removed")

    def _settle(self, name: str, fate: Fate) -> None:
        del self._waiting[name]
        self._settled[name] = fate
        if len(self._settled) > self.most:
            self._settled.popitem(last=False)

    # ---- saving ---------------------------------------------------------------------------------

    def about(self) -> dict[str, Any]:
        """Return what JSON can hold; the rest is in :meth:`state`."""
        return {"issued": self.issued, "rewarded": self.rewarded}

    def state(self, index: Mapping[Arm, int], width: int) -> State:
        """Return those that wait, and the fate of those that did, oldest first."""
        waiting = list(self._waiting.values())
        fates = [_FATES.index(fate) for fate in self._settled.values()]
        return {
            "ids": np.array(list(map(_parts, self._waiting)), np.int64).reshape(-1, 2),
            "contexts": np.array([decision.x for decision in waiting], np.float32).reshape(-1, width),
            "arms": np.array([index[decision.arm] for decision in waiting], np.int64),
            "propensities": np.array([decision.propensity for decision in waiting], np.float64),
            "settled": np.array(list(map(_parts, self._settled)), np.int64).reshape(-1, 2),
            "fates": np.array(fates, np.int64),
        }

    def restore(self, about: dict[str, Any], state: State, arms: Sequence[Arm], width: int) -> None:
        """Take over what was saved; raise ValueError, TypeError or KeyError if it cannot be ours."""
        ids, contexts, played = state["ids"], state["contexts"], state["arms"]
        count, settled = len(ids), len(state["settled"])
        shapes: dict[str, tuple[int, ...]] = {
            "ids": (count, 2),
            "contexts": (count, width),
            "arms": (count,),
            "propensities": (count,),
            "settled": (settled, 2),
            "fates": (settled,),
        }
        for name, own in self.state({}, width).items():
            if state[name].shape != shapes[name] or state[name].dtype != own.dtype:
                raise ValueError(f"{name} is {state[name].dtype} {state[name].shape}, which does not fit")
            sane(name, state[name])
        if not _within(contexts, 0, 1) or not _within(state["propensities"], 0, 1):
            raise ValueError("a waiting decision has a context or a propensity outside [0, 1]")
        if not _within(played, 0, len(arms) - 1) or not _within(state["fates"], 0, len(_FATES) - 1):
            raise ValueError("a decision has an arm or a fate that does not exist")
        issued, rewarded = about["issued"], about["rewarded"]
        if type(issued) is not int or type(rewarded) is not int or not 0 <= rewarded <= issued - count:
            raise ValueError(f"{rewarded} of {issued} decisions cannot have a reward if {count} wait")
        self.issued, self.rewarded = issued, rewarded
        rows = zip(contexts, played.tolist(), state["propensities"].tolist(), strict=True)
        waiting = [Waiting(x.copy(), arms[arm], propensity) for x, arm, propensity in rows]
        self._waiting = OrderedDict(zip(map(_name, ids.tolist()), waiting, strict=True))
        fates = [_FATES[fate] for fate in state["fates"].tolist()]
        self._settled = OrderedDict(zip(map(_name, state["settled"].tolist()), fates, strict=True))
        if len(self._waiting) != count or max(count, settled) > self.most:
            raise ValueError("a decision waits twice, or too many wait")


def _id(number: int, x: Float32) -> str:
    """Return the number of the decision, and a checksum of its context.

    So an id of another bandit, or of one that went on from an earlier copy, is not taken for one of ours.
    """
    return _name((number, zlib.crc32(x.tobytes(), number & 0xFFFFFFFF)))


def _name(parts: Sequence[int]) -> str:
    number, check = parts
    return f"{number}-{check:08x}"


def _parts(name: str) -> tuple[int, int]:
    number, _, check = name.partition("-")
    return int(number), int(check, 16)


def _within(array: np.ndarray, low: float, high: float) -> bool:
    return not array.size or bool(low <= array.min() and array.max() <= high)
