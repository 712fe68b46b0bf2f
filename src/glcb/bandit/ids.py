"""The ids of decisions: the number of the decision, and a checksum of its context.

So an id of another bandit, or of one that went on from an earlier copy, is taken for one of ours only if that
one decided as often, and in a context that looks the same once it is encoded.
"""

import zlib
from collections.abc import Sequence

from glcb._types import Float32


def new_id(number: int, x: Float32) -> str:
    """Return the id of a decision."""
    return from_parts((number, zlib.crc32(x.tobytes(), number & 0xFFFFFFFF)))


def from_parts(parts: Sequence[int]) -> str:
    """Return an id from its two numbers.

    >>> from_parts((7, 255)), parts_of("7-000000ff")
    ('7-000000ff', (7, 255))
    """
    number, check = parts
    return f"{number}-{check:08x}"


def parts_of(name: str) -> tuple[int, int]:
    """Return the two numbers that an id consists of."""
    number, _, check = name.partition("-")
    return int(number), int(check, 16)
