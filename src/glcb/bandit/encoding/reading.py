"""A context as read: the numbers within [0, 1], and what the encoder will know once it accepts them."""

from dataclasses import dataclass, field

from glcb._types import Float32, Float64
from glcb.bandit.encoding.features import NOWHERE, Feature

OTHER = "(other)"
"""Stands for the features that share one slot."""


@dataclass(slots=True, eq=False)
class Reading:
    """What came of one context."""

    x: Float32
    """The encoded context."""
    numbers: Float64
    """By column, NaN where there is none."""
    claims: list[tuple[Feature, str, str]] = field(default_factory=list)
    """Who takes the next slots of the reserve: a feature, what for, and the category's value."""
    first_numbers: list[float] = field(default_factory=list)
    """The first numbers of features that become numbers by this reading."""
    problems: list[tuple[Feature, str]] = field(default_factory=list)
    unmapped: int = 0
    """Values of features that have no slot."""

    lit_by: dict[int, str] = field(default_factory=dict)
    """Which feature lit a slot, where that was not plain to see."""

    def light(self, slot: int, name: str) -> None:
        """Say that what the slot stands for is there, because of the feature called ``name``."""
        if slot != NOWHERE:
            self.lit_by[slot] = OTHER if self.x[slot] else name
            self.x[slot] = 1
