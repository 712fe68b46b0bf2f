"""Estimates of all arms, and the decision based on them."""

from dataclasses import dataclass
from typing import NamedTuple

from glcb._arrays import Float64
from glcb._html import table, view
from glcb._types import Arm


class Estimates(NamedTuple):
    """Value, bonus and pseudocount of every arm in one context, in the order of the policy's arms."""

    values: Float64
    """Expected reward of each arm."""
    bonuses: Float64
    """Exploration bonus of each arm; infinite for an arm that must be chosen first."""
    pseudocounts: Float64
    """Number of decisions for each arm in similar contexts."""


class Choice(NamedTuple):
    """An arm that was drawn at random."""

    estimates: Estimates
    """Value, bonus and pseudocount of every arm."""
    probabilities: Float64
    """The probability of each arm."""
    arm: int
    """Index of the arm."""


@dataclass(frozen=True, eq=False, repr=False)
class Decision:
    """The chosen arm, and the estimates of all arms. Arrays are in the order of ``arms``."""

    arm: Arm
    """The chosen arm."""
    arms: tuple[Arm, ...]
    """All arms of the policy."""
    estimates: Estimates
    """Value, bonus and pseudocount of every arm."""

    @property
    def values(self) -> Float64:
        """Expected reward of each arm."""
        return self.estimates.values

    @property
    def bonuses(self) -> Float64:
        """Exploration bonus of each arm."""
        return self.estimates.bonuses

    @property
    def pseudocounts(self) -> Float64:
        """Number of decisions for each arm in similar contexts."""
        return self.estimates.pseudocounts

    @property
    def scores(self) -> Float64:
        """Value plus bonus of each arm. The chosen arm has the largest score among the eligible arms."""
        return self.estimates.values + self.estimates.bonuses

    def __repr__(self) -> str:
        rows = zip(self.arms, self.values, self.bonuses, self.pseudocounts, strict=True)
        lines = [f"  {arm!r}: value {v:.4g}, bonus {b:.4g}, pseudocount {n:.4g}" for arm, v, b, n in rows]
        return "\n".join([f"Decision(arm={self.arm!r})", *lines])

    def _repr_html_(self) -> str:
        estimates = zip(self.values, self.bonuses, self.pseudocounts, strict=True)
        rows = [
            (str(arm), *(f"{number:.4g}" for number in own))
            for arm, own in zip(self.arms, estimates, strict=True)
        ]
        heads = ("arm", "value", "bonus", "pseudocount")
        return view(f"Decision: {self.arm}", table(heads, rows, [self.arms.index(self.arm)]))
