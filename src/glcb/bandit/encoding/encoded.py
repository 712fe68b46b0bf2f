"""An encoded context, and what committing it changes in its encoder."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from glcb._arrays import Float32, Float64
from glcb.bandit.encoding.features import NO_SLOT, Feature
from glcb.bandit.encoding.projection import Projection
from glcb.bandit.encoding.schema import FeatureKind
from glcb.bandit.encoding.slots import SlotCandidate

OTHER = "(other)"
"""Represents several features that share one slot."""


class Claim(NamedTuple):
    """A slot that gets a new owner."""

    feature: Feature
    candidate: SlotCandidate
    slot: int
    number: float
    """The first number of a feature that becomes a number."""


@dataclass(slots=True, eq=False)
class ContextChanges:
    """What committing an encoded context changes, in addition to counts and scales."""

    claims: list[Claim] = field(default_factory=list)
    candidates: list[SlotCandidate] = field(default_factory=list)
    """Values and features without their own slot."""
    votes: list[tuple[Feature, FeatureKind]] = field(default_factory=list)
    """Features with a value of another kind."""
    unexpected: list[Feature] = field(default_factory=list)
    """Features that are no longer expected."""
    problems: list[tuple[Feature, str]] = field(default_factory=list)
    unmapped: int = 0
    """Number of values of features without a slot."""
    not_by_owner: set[int] = field(default_factory=set)
    """Slots that are set, but not by a value of their owner."""
    set_by: dict[int, str] = field(default_factory=dict)
    """The feature that set each slot that several features can share."""


@dataclass(slots=True, eq=False)
class EncodedContext:
    """An encoded context, and what committing it changes."""

    x: Float32
    """The encoded context."""
    inputs: Float64
    """The numbers of the context by column, NaN where there is none. Slots may follow."""
    changes: ContextChanges | None = None
    vectors: Sequence[tuple[Projection, Float64]] = ()
    """The wide vectors of the context, with their projections."""

    @property
    def claims(self) -> list[Claim]:
        """The slots that get a new owner."""
        return [] if self.changes is None else self.changes.claims


@dataclass(slots=True, eq=False)
class Draft(ContextChanges):
    """A context that is being encoded."""

    x: Float32 = field(kw_only=True)
    numbers: list[float] = field(kw_only=True)

    def set(self, slot: int, name: str, by_owner: bool = False) -> None:
        """Set a slot to 1 on behalf of the feature called `name`."""
        if slot != NO_SLOT:
            if by_owner:
                self.not_by_owner.discard(slot)
            elif not self.x[slot]:
                self.not_by_owner.add(slot)
            self.set_by[slot] = OTHER if self.x[slot] else name
            self.x[slot] = 1

    def overwrite(self, slot: int, value: float) -> None:
        """Write a value of the slot's owner, over values of other features."""
        self.x[slot] = value
        self.not_by_owner.discard(slot)
