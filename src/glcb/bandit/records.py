"""Records of decisions, and their ids."""

import re
import secrets
from collections.abc import Set
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from glcb._arrays import Float32
from glcb._types import Arm
from glcb.bandit.config import DECISION_ID
from glcb.bandit.labels import Label

Outcome = Literal["rewarded", "evicted", "removed", "timed_out"]
"""How a decision ended: its reward was learned, newer decisions replaced it, its arm was removed, or its
timeout passed without a reward."""

OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

MAX_PREFIX = 32
"""Maximum length of an id prefix."""

is_valid_id = re.compile(DECISION_ID, re.ASCII).fullmatch
"""Match a string that can be the id of a decision."""


is_valid_slot_id = re.compile(f"{DECISION_ID}(\\.[1-9][0-9]*)?", re.ASCII).fullmatch
"""Match the id of a decision or of a slot of a ranking."""


def random_prefix() -> str:
    """Return a random prefix for the ids of a bandit."""
    return f"{secrets.token_hex(5)}-"


def checked_prefix(prefix: object) -> str:
    """Return `prefix`; raise ValueError if no id can begin with it."""
    if not isinstance(prefix, str) or len(prefix) > MAX_PREFIX or not is_valid_id(f"{prefix}0"):
        raise ValueError(f"{prefix!r} is not the prefix of an id")
    return prefix


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
    """The aggregate of the rewards so far, or the reward to learn at the label age."""
    keys: Set[int] = frozenset()
    """Hashes of the idempotency keys of its rewards."""
    id: str = ""
    number: int = 0
    """The number of decisions up to and including this one."""
    label: Label = "none"
    """What has been learned from the decision, if it has a label age."""


class SettledDecision(NamedTuple):
    """A decision that is no longer pending."""

    outcome: Outcome
    keys: Set[int]


class LoggedReward(NamedTuple):
    """When a reward of a log arrived, and whether it was learned at once."""

    time: float
    final: bool
