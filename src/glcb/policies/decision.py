"""What a decision looks like."""

from dataclasses import dataclass

from glcb._types import Arm, Float64


@dataclass(frozen=True, eq=False)
class Estimates:
    """What a policy thinks of every arm in one context; the arm with the largest score is played."""

    values: Float64
    """Expected reward."""
    bonuses: Float64
    """What is added to the value for the sake of exploration."""
    pseudocounts: Float64
    """How much experience there is with the arm on contexts like this one."""


@dataclass(frozen=True, eq=False, repr=False)
class Decision:
    """The arm to play, and what the policy thought of every arm. Arrays are in the order of ``arms``."""

    arm: Arm
    """The arm to play."""
    arms: tuple[Arm, ...]
    """All arms of the policy."""
    estimates: Estimates

    @property
    def values(self) -> Float64:
        """Expected reward of each arm."""
        return self.estimates.values

    @property
    def bonuses(self) -> Float64:
        """What was added to each value for the sake of exploration."""
        return self.estimates.bonuses

    @property
    def pseudocounts(self) -> Float64:
        """How much experience there is with each arm on contexts like this one."""
        return self.estimates.pseudocounts

    @property
    def scores(self) -> Float64:
        """Value plus bonus of each arm; the largest among the eligible arms was played."""
        return self.estimates.values + self.estimates.bonuses

    def __repr__(self) -> str:
        rows = zip(self.arms, self.values, self.bonuses, self.pseudocounts, strict=True)
        lines = [f"  {arm!r}: value {v:.4g}, bonus {b:.4g}, pseudocount {n:.4g}" for arm, v, b, n in rows]
        return "\n".join([f"Decision(arm={self.arm!r})", *lines])
