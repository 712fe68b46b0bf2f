"""The slots of an encoded context, and the rule by which they change hands.

A value or a feature that appears when no slot is free is a candidate. How often each slot and each candidate
occurs is counted, and all counts are halved from time to time, so that they describe the recent past. A
candidate that is clearly more frequent than the least used slot takes it over. What the policy had learned
about the slot then applies to another feature. This is little, because the slot was rarely used, and the new
owner soon outweighs it.
"""

import zlib
from bisect import insort
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from glcb._arrays import Arrays, Bool, Int64, check_values
from glcb._text import is_unicode
from glcb.bandit.encoding.features import NO_SLOT

SPARE_SLOTS = 16
"""Default number of spare slots."""
SPARE_SLOTS_PER_CATEGORY = 12
"""Additional spare slots for each category whose values are not declared."""
MIN_CATEGORY_SLOTS = 16
"""The values of one category take at most half of the spare slots, or this many if that is more."""
MAX_CANDIDATES = 256
"""Number of candidates that are counted at the same time."""
HALVING_PERIOD = 5_000
"""Number of contexts after which all counts are halved."""
_MIN_LEAD = 16
"""A challenger leads by at least this much: less can be chance."""

Purpose = Literal["value", "number", "boolean", "indicator"]
"""What a slot is for: a value of a category, a number, a boolean, or the indicator of a missing value."""


def beats(challenger: int, incumbent: int, ratio: int = 2) -> bool:
    """Return whether a challenger has occurred so often that it replaces an incumbent.

    >>> beats(16, 0), beats(20, 10), beats(40, 10)
    (True, False, True)
    """
    return challenger >= _MIN_LEAD + ratio * incumbent


class SlotCandidate(NamedTuple):
    """A possible use of a slot."""

    name: str
    """The name of the feature."""
    purpose: Purpose
    value: str
    """The value of a category, or an empty string."""

    @property
    def text(self) -> str:
        """The text whose hash selects a shared slot."""
        if self.purpose == "value":
            return f"{self.name}={self.value}"
        return f"{self.name} is missing" if self.purpose == "indicator" else self.name


class SlotCandidates:
    """Counts candidates in bounded memory (Misra and Gries 1982).

    A candidate is counted too low by at most one for every `MAX_CANDIDATES` occurrences of others, and never
    too high. However many rare ones there are, frequent ones are found.
    """

    def __init__(self) -> None:
        self._counts: dict[SlotCandidate, int] = {}

    def __getitem__(self, candidate: SlotCandidate) -> int:
        return self._counts.get(candidate, 0)

    def add(self, candidate: SlotCandidate) -> None:
        """Count an occurrence."""
        counts = self._counts
        if candidate in counts or len(counts) < MAX_CANDIDATES:
            counts[candidate] = counts.get(candidate, 0) + 1
        else:
            self._counts = {other: count - 1 for other, count in counts.items() if count > 1}

    def remove(self, candidate: SlotCandidate) -> int:
        """Remove a candidate; return its count."""
        return self._counts.pop(candidate, 0)

    def halve(self) -> None:
        """Halve all counts, rounded down."""
        self._counts = {candidate: count >> 1 for candidate, count in self._counts.items() if count > 1}

    def shares(self, contexts: int) -> dict[str, float]:
        """Return the share of contexts in which a value of each feature had no slot."""
        totals: dict[str, int] = {}
        for candidate, count in self._counts.items():
            if candidate.purpose != "indicator":
                totals[candidate.name] = totals.get(candidate.name, 0) + count
        return {name: min(total / max(contexts, 1), 1.0) for name, total in totals.items()}

    def snapshot(self) -> list[list[Any]]:
        """Return the candidates and their counts in a JSON-serializable form."""
        return [[*candidate, count] for candidate, count in self._counts.items()]

    def restore(self, saved: list[list[Any]]) -> None:
        """Replace all candidates from a snapshot; raise ValueError or TypeError if it is invalid."""
        for name, purpose, value, count in saved:
            texts = all(isinstance(text, str) and is_unicode(text) for text in (name, value))
            if not texts or purpose not in get_args(Purpose) or type(count) is not int or count < 1:
                raise ValueError("a candidate for a slot is inconsistent")
        self._counts = {SlotCandidate(name, purpose, value): count for name, purpose, value, count in saved}
        if len(saved) > MAX_CANDIDATES:
            raise ValueError(f"there are more than {MAX_CANDIDATES} candidates for slots")


class Slots:
    """The slots of an encoded context.

    Parameters
    ----------
    reserved
        The first slots, which belong to features that are declared or in the first context. The others are
        spare, and are shared by hash if there are too few.
    width
        The number of slots.
    owned
        The slots that belong to a feature.
    protected
        Those of them that are declared: nothing takes them over.
    """

    def __init__(self, reserved: int, width: int, owned: Iterable[int], protected: Iterable[int]) -> None:
        if type(reserved) is not int or type(width) is not int or not 0 <= reserved <= width:
            raise ValueError(f"{width} slots with {reserved} reserved are inconsistent")
        self.reserved = reserved
        self.width = width
        self.uses: Int64 = np.zeros(width, np.int64)
        """How often each slot was recently used by its owner."""
        self.free = sorted(set(range(width)) - set(owned))
        self._protected: Bool = np.zeros(width, np.bool_)
        self.protect(protected)

    def protect(self, slots: Iterable[int]) -> None:
        """Protect these slots, and no others."""
        self._protected[:] = False
        self._protected[list(slots)] = True

    def next_free(self, excluded: Sequence[int]) -> int:
        """Return the first free slot, or NO_SLOT."""
        return next((slot for slot in self.free if slot not in excluded), NO_SLOT)

    def least_used(self, among: Sequence[int], excluded: Sequence[int]) -> int:
        """Return the least used of these slots, or of all if there are none, or NO_SLOT."""
        uses = np.where(self._protected, -1, self.uses)
        uses[list(excluded)] = -1
        own = np.array(among or range(self.width), np.int64)
        own = own[uses[own] >= 0]
        return int(own[uses[own].argmin()]) if own.size else NO_SLOT

    def take(self, slot: int, uses: int) -> None:
        """Record that a free slot has an owner, which has occurred `uses` times before."""
        self.free.remove(slot)
        self.uses[slot] += uses

    def give(self, slot: int) -> None:
        """Record that a slot has no owner."""
        insort(self.free, slot)
        self.uses[slot] = 0

    @property
    def max_category_slots(self) -> int:
        """The number of slots that the values of one category may take, in addition to those declared."""
        return max(MIN_CATEGORY_SLOTS, (self.width - self.reserved) // 2)

    def hashed(self, text: str, slots: Sequence[int] = ()) -> int:
        """Return one of `slots`, or of all spare slots, by the hash of `text`; NO_SLOT if there are none.

        The hash is the same in every process and on every machine.
        """
        slots = slots or range(self.reserved, self.width)
        return slots[zlib.crc32(text.encode()) % len(slots)] if slots else NO_SLOT

    def restore(self, arrays: Arrays) -> None:
        """Restore the uses; raise KeyError or ValueError if they are invalid."""
        uses = arrays["uses"]
        if uses.shape != self.uses.shape or uses.dtype != np.int64:
            raise ValueError(f"uses is {uses.dtype} {uses.shape}, expected int64 {self.uses.shape}")
        self.uses = check_values("uses", uses).copy()
