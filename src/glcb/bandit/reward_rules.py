"""The rules for rewards that are delayed, repeated or absent."""

import hashlib
import math
import sys
from dataclasses import dataclass
from typing import Any

from glcb._errors import InvalidInput, InvalidSettings
from glcb._types import reward_range
from glcb.bandit.config import Clock, RewardAggregation

_KEY_BITS = 52
_MAX_FLOAT = sys.float_info.max


@dataclass(frozen=True)
class RewardRules:
    """How long a decision stays pending, how rewards are aggregated, and what is learned without a reward."""

    reward_timeout: float | None = None
    default_reward: float | None = None
    reward_aggregation: RewardAggregation = "first"
    limits: tuple[float, float] = (0.0, 1.0)
    """The lowest and highest reward that can be learned."""

    @classmethod
    def from_config(cls, config: Any) -> "RewardRules":
        """Return the rules of a ``BanditConfig``, or of the settings of an experiment."""
        return cls(
            config.reward_timeout,
            config.default_reward,
            config.reward_aggregation,
            reward_range(config.rewards),
        )

    @property
    def has_single_reward(self) -> bool:
        """Whether the first reward of a decision is final."""
        return self.reward_aggregation == "first"

    @property
    def has_labels(self) -> bool:
        """Whether decisions are learned at the label age (see ``labels.py``)."""
        return self.has_single_reward and self.default_reward is not None

    @property
    def learns_at_once(self) -> bool:
        """Whether every reward is learned when it arrives."""
        return self.has_single_reward and self.default_reward is None

    def has_timed_out(self, decided_at: float, now: float) -> bool:
        """Return whether the timeout of a decision has passed."""
        return self.reward_timeout is not None and now - decided_at > self.reward_timeout

    def aggregate(self, total: float | None, value: float) -> float:
        """Return the aggregate of the earlier rewards of a decision and a new reward."""
        return aggregate(self.reward_aggregation, total, value)

    def outcome(self, total: float | None) -> float | None:
        """Return what is learned at the timeout: the aggregate, clipped to the range, or the default."""
        low, high = self.limits
        return self.default_reward if total is None else min(max(total, low), high)


def aggregate(how: RewardAggregation, total: float | None, value: float) -> float:
    """Return the aggregate of the earlier values and a new value.

    >>> aggregate("sum", 2.0, 3.0), aggregate("first", 2.0, 3.0), aggregate("last", None, 3.0)
    (5.0, 2.0, 3.0)
    """
    if total is None or how == "last":
        return value
    if how == "first":
        return total
    return max(total, value) if how == "max" else min(max(total + value, -_MAX_FLOAT), _MAX_FLOAT)


def read_clock(clock: Clock) -> float:
    """Return the time; raise InvalidSettings if the clock does not return a number."""
    now: object = clock()
    if not isinstance(now, int | float) or not math.isfinite(now):
        raise InvalidSettings(f"clock must return the time in seconds, got {now!r}")
    return float(now)


def hash_key(key: object) -> int | None:
    """Return a fixed-size hash of an idempotency key, so that long keys do not use more memory."""
    if key is None:
        return None
    if isinstance(key, bool) or not isinstance(key, str | int):
        raise InvalidInput(f"idempotency_key must be a string or an integer, got {key!r}")
    try:
        text = f"{type(key).__name__} {key}".encode("utf-8", "surrogatepass")
    except ValueError:
        raise InvalidInput("idempotency_key has too many digits: pass a string instead") from None
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest()) >> (64 - _KEY_BITS)
