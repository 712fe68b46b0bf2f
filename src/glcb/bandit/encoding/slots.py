"""The slots of an encoded context: which are given out, and who shares when none is left."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from glcb.bandit.encoding.features import NOWHERE

RESERVE = 16
"""Slots that are kept free for what is yet to come …"""
RESERVE_PER_CATEGORY = 12
"""… and for each category whose values were not declared."""
LEAST_SHARE = 16
"""The values of one category take at most half of the reserve, or this many slots."""


@dataclass(slots=True)
class Slots:
    """The first ``reserve`` slots were given out at the beginning; those after it go to whoever comes."""

    reserve: int
    width: int
    used: int

    def __post_init__(self) -> None:
        sizes = (self.reserve, self.used, self.width)
        if any(type(size) is not int for size in sizes) or not 0 <= self.reserve <= self.used <= self.width:
            raise ValueError(f"there cannot be {self.width} slots with {self.used} of them used")

    def free(self, pending: int) -> int:
        """Return the slot that comes next after some that are as good as given, or NOWHERE."""
        slot = self.used + pending
        return slot if slot < self.width else NOWHERE

    @property
    def most_values(self) -> int:
        """How many slots of the reserve the values of one category may take."""
        return max(LEAST_SHARE, (self.width - self.reserve) // 2)

    def taken(self, slots: Sequence[int]) -> list[int]:
        """Return those slots that came from the reserve."""
        return [slot for slot in slots if slot >= self.reserve]

    def shared(self, text: str, slots: Sequence[int] = ()) -> int:
        """Return which of ``slots`` or else of the whole reserve ``text`` shares by its hash.

        The hash is the same in every process and on every machine.
        """
        slots = slots or range(self.reserve, self.width)
        return slots[zlib.crc32(text.encode()) % len(slots)] if slots else NOWHERE
