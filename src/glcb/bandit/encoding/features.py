"""Features and their slots in the encoded context."""

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from glcb._text import is_unicode
from glcb.bandit.encoding.schema import PROBLEMS, FeatureDeclaration, FeatureKind

NO_SLOT = -1
"""The slot of a feature that has none, and the column of a feature that is not a number."""

SPARE_SLOTS = 16
"""Default number of spare slots."""
SPARE_SLOTS_PER_CATEGORY = 12
"""Additional spare slots for each category whose values are not declared."""
MIN_CATEGORY_SLOTS = 16
"""The values of one category take at most half of the spare slots, or this many if that is more."""


@dataclass(slots=True, eq=False)
class Feature:
    """A feature of the context. A number or a boolean has one slot, a category has one per value."""

    name: str
    kind: FeatureKind | None
    expected: bool
    """Whether it was declared or in the first context. Only an expected feature can be missing."""
    slot: int = NO_SLOT
    column: int = NO_SLOT
    """The column of a number in the scales."""
    values: dict[str, int] = field(default_factory=dict)
    """The slot of each value of a category."""
    indicator: int = NO_SLOT
    """The slot that is 1 when there is no usable value. It is allocated when that first happens."""
    problems: Counter[str] = field(default_factory=Counter)

    @classmethod
    def from_declaration(
        cls, name: str, declaration: FeatureDeclaration | None, slot: int, column: int
    ) -> "Feature":
        """Return an expected feature whose slots begin at `slot`; its kind is None without a declaration."""
        if declaration is None:
            return cls(name, None, expected=True)
        if declaration.kind == "category":
            values = {value: slot + place for place, value in enumerate(declaration.values)}
            return cls(name, "category", expected=True, values=values)
        own_column = column if declaration.kind == "number" else NO_SLOT
        return cls(name, declaration.kind, expected=True, slot=slot, column=own_column)

    @property
    def slots(self) -> list[int]:
        """All slots of the feature."""
        return [slot for slot in (self.slot, *self.values.values(), self.indicator) if slot != NO_SLOT]

    def snapshot(self) -> dict[str, Any]:
        """Return the feature in a JSON-serializable form."""
        return {
            "name": self.name,
            "kind": self.kind,
            "expected": self.expected,
            "slot": self.slot,
            "column": self.column,
            "values": dict(self.values),
            "indicator": self.indicator,
            "problems": dict(self.problems),
        }

    @classmethod
    def from_snapshot(cls, saved: dict[str, Any], width: int) -> "Feature":
        """Return the feature of a snapshot; raise ValueError, TypeError or KeyError if it is invalid."""
        feature = cls(**{**saved, "values": dict(saved["values"]), "problems": Counter(saved["problems"])})
        numbers = [feature.column, *feature.slots, *feature.problems.values()]
        texts: list[Any] = [feature.name, *feature.values]
        consistent = (
            all(type(number) is int and number >= NO_SLOT for number in numbers)
            and all(slot < width for slot in feature.slots)
            and feature.kind in (None, *get_args(FeatureKind))
            and (feature.kind == "number") == (feature.column != NO_SLOT)
            and (feature.kind in ("number", "boolean")) == (feature.slot != NO_SLOT)
            and feature.problems.keys() <= PROBLEMS.keys()
            and all(isinstance(text, str) and is_unicode(text) for text in texts)
        )
        if not consistent:
            raise ValueError(f"feature {feature.name!r} is inconsistent")
        return feature


@dataclass(slots=True)
class Slots:
    """The slots of an encoded context.

    The first `reserved` slots belong to expected features. The rest are spare: new values and features take
    them in order, and share them by hash when none is free.
    """

    reserved: int
    width: int
    used: int

    def __post_init__(self) -> None:
        sizes = (self.reserved, self.used, self.width)
        if any(type(size) is not int for size in sizes) or not 0 <= self.reserved <= self.used <= self.width:
            raise ValueError(f"{self.width} slots with {self.used} used are inconsistent")

    def free(self, claimed: int) -> int:
        """Return the next free slot after `claimed` claims, or NO_SLOT."""
        slot = self.used + claimed
        return slot if slot < self.width else NO_SLOT

    @property
    def max_category_slots(self) -> int:
        """The number of spare slots that the values of one category may take."""
        return max(MIN_CATEGORY_SLOTS, (self.width - self.reserved) // 2)

    def spare(self, slots: Sequence[int]) -> list[int]:
        """Return those of `slots` that are spare slots."""
        return [slot for slot in slots if slot >= self.reserved]

    def hashed(self, text: str, slots: Sequence[int] = ()) -> int:
        """Return one of `slots`, or of all spare slots, by the hash of `text`; NO_SLOT if there are none.

        The hash is the same in every process and on every machine.
        """
        slots = slots or range(self.reserved, self.width)
        return slots[zlib.crc32(text.encode()) % len(slots)] if slots else NO_SLOT
