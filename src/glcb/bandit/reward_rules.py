"""Rewards that come late, several times or never: what counts, and for how long."""

import hashlib
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, cast, get_args

from glcb import _validation
from glcb._errors import InvalidInput, InvalidReward, InvalidSettings
from glcb._types import Rewards, reward_range

RewardAggregation = Literal["first", "last", "sum", "max"]
"""Which of several rewards of one decision counts."""

Clock = Callable[[], float]
"""Tells the time in seconds."""

MOST_SECONDS = 1e12
_KEY_BITS = 52
_LARGEST = sys.float_info.max


@dataclass(frozen=True)
class LateRules:
    """How long a decision waits, what counts if nothing came, and how several rewards become one."""

    reward_timeout: float | None = None
    """Seconds that a decision waits for its reward; None means for ever."""
    default_reward: float | None = None
    """Learned for a decision whose time ran out without a reward; None means that nothing is learned."""
    reward_aggregation: RewardAggregation = "first"
    """With "first" a reward is learned at once; all others have to wait until the time is over."""
    limits: tuple[float, float] = (0.0, 1.0)
    """The lowest and the highest reward that can be learned."""

    @classmethod
    def checked(
        cls, reward_timeout: object, default_reward: object, reward_aggregation: object, rewards: Rewards
    ) -> "LateRules":
        """Return the rules if they make sense, on their own and together."""
        if reward_aggregation not in get_args(RewardAggregation):
            raise InvalidSettings(
                f'reward_aggregation must be "first", "last", "sum" or "max", got {reward_aggregation!r}'
            )
        if reward_timeout is None and (reward_aggregation != "first" or default_reward is not None):
            what = (
                "default_reward"
                if default_reward is not None
                else f"reward_aggregation={reward_aggregation!r}"
            )
            raise InvalidSettings(
                f"{what} counts when the waiting time of a decision is over: say how many seconds that is, "
                "with reward_timeout="
            )
        try:
            default = None if default_reward is None else _validation.reward(default_reward, rewards)
        except InvalidReward as error:
            raise InvalidSettings(f"default_reward cannot be: {error}") from None
        seconds = (
            None
            if reward_timeout is None
            else _validation.number("reward_timeout", reward_timeout, 0, MOST_SECONDS)
        )
        return cls(seconds, default, cast(RewardAggregation, reward_aggregation), reward_range(rewards))

    def as_json(self) -> dict[str, object]:
        """Return what was asked for, nothing if rewards are taken as they come."""
        rules = {
            "reward_timeout": self.reward_timeout,
            "default_reward": self.default_reward,
            "reward_aggregation": self.reward_aggregation,
        }
        return {name: value for name, value in rules.items() if value not in (None, "first")}

    def over(self, since: float, now: float) -> bool:
        """Return whether the time of a decision that waits since then is over."""
        return self.reward_timeout is not None and now - since > self.reward_timeout

    def combined(self, before: float | None, value: float) -> float:
        """Return what all rewards of a decision amount to after one more."""
        if before is None or self.reward_aggregation == "last":
            return value
        if self.reward_aggregation == "first":
            return before
        if self.reward_aggregation == "max":
            return max(before, value)
        return min(max(before + value, -_LARGEST), _LARGEST)

    def outcome(self, amount: float | None) -> float | None:
        """Return what is learned when the time is over; a sum beyond the range counts as its end."""
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
