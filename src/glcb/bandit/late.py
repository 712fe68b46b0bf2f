"""Rewards that come late, several times or never: what counts, and for how long."""

import hashlib
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, cast, get_args

from glcb import _checks
from glcb._errors import InvalidInput, InvalidReward, InvalidSettings
from glcb._types import Rewards, reward_range

Combine = Literal["first", "last", "sum", "max"]
"""Which of several rewards of one decision counts."""

Clock = Callable[[], float]
"""Tells the time in seconds."""

MOST_SECONDS = 1e12
_KEY_BITS = 52
_LARGEST = sys.float_info.max


@dataclass(frozen=True)
class LateRules:
    """How long a decision waits, what counts if nothing came, and how several rewards become one."""

    patience: float | None = None
    """Seconds that a decision waits for its reward; None means for ever."""
    default_reward: float | None = None
    """Learnt for a decision whose time ran out without a reward; None means that nothing is learnt."""
    combine: Combine = "first"
    """With "first" a reward is learnt at once; all others have to wait until the time is over."""
    limits: tuple[float, float] = (0.0, 1.0)
    """The lowest and the highest reward that can be learnt."""

    @classmethod
    def checked(
        cls, patience: object, default_reward: object, combine: object, rewards: Rewards
    ) -> "LateRules":
        """Return the rules if they make sense, on their own and together."""
        if combine not in get_args(Combine):
            raise InvalidSettings(f'combine must be "first", "last", "sum" or "max", got {combine!r}')
        if patience is None and (combine != "first" or default_reward is not None):
            what = "default_reward" if default_reward is not None else f"combine={combine!r}"
            raise InvalidSettings(
                f"{what} counts when the waiting time of a decision is over: say how many seconds that is, "
                "with patience="
            )
        try:
            default = None if default_reward is None else _checks.reward(default_reward, rewards)
        except InvalidReward as error:
            raise InvalidSettings(f"default_reward cannot be: {error}") from None
        seconds = None if patience is None else _checks.number("patience", patience, 0, MOST_SECONDS)
        return cls(seconds, default, cast(Combine, combine), reward_range(rewards))

    def as_json(self) -> dict[str, object]:
        """Return what was asked for, nothing if rewards are taken as they come."""
        rules = {"patience": self.patience, "default_reward": self.default_reward, "combine": self.combine}
        return {name: value for name, value in rules.items() if value not in (None, "first")}

    def over(self, since: float, now: float) -> bool:
        """Return whether the time of a decision that waits since then is over."""
        return self.patience is not None and now - since > self.patience

    def combined(self, before: float | None, value: float) -> float:
        """Return what all rewards of a decision amount to after one more."""
        if before is None or self.combine == "last":
            return value
        if self.combine == "first":
            return before
        if self.combine == "max":
            return max(before, value)
        return min(max(before + value, -_LARGEST), _LARGEST)

    def outcome(self, amount: float | None) -> float | None:
        """Return what is learnt when the time is over; a sum beyond the range counts as its end."""
        low, high = self.limits
        return self.default_reward if amount is None else min(max(amount, low), high)


def read_clock(clock: Clock) -> float:
    """Return the time, if the clock tells one."""
    now: object = clock()
    if not isinstance(now, int | float) or not math.isfinite(now):
        raise InvalidSettings(f"the clock must return the time in seconds, got {now!r}")
    return float(now)


def checked_clock(clock: object) -> Clock:
    """Return ``clock`` if it can be asked for the time."""
    if not callable(clock):
        raise InvalidSettings(f"clock must be a function that returns seconds, got {clock!r}")
    return clock


def key_number(key: object) -> int | None:
    """Return a number that stands for an idempotency key: however long the key, it takes little room."""
    if key is None:
        return None
    if isinstance(key, bool) or not isinstance(key, str | int):
        raise InvalidInput(f"the key of a reward must be a text or a whole number, got {key!r}")
    try:
        text = f"{type(key).__name__} {key}".encode("utf-8", "surrogatepass")
    except ValueError:
        raise InvalidInput("the key of a reward has too many digits: pass a text instead") from None
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest()) >> (64 - _KEY_BITS)
