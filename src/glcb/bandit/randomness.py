"""Random numbers that depend on a key and the number of a decision, not on earlier draws.

A recorded decision can therefore be counted again without drawing, and later decisions stay the same.
"""

from hashlib import blake2b
from typing import NamedTuple

import numpy as np


def keyed_digest(key: bytes, purpose: bytes, number: int, size: int) -> bytes:
    """Return bytes that cannot be predicted without the key."""
    return blake2b(purpose + number.to_bytes(8), digest_size=size, key=key).digest()


def keyed_fraction(key: bytes, purpose: bytes, number: int) -> float:
    """Return a number in [0, 1).

    >>> keyed_fraction(b"key", b"arm", 1) == keyed_fraction(b"key", b"arm", 1)
    True
    """
    digest = blake2b(purpose + number.to_bytes(8), digest_size=7, key=key).digest()
    return (int.from_bytes(digest) >> 3) / 2**53


class RandomNumbers(NamedTuple):
    """The random numbers of one decision or ranking."""

    key: bytes
    number: int
    """The number of the decision."""

    def fraction(self, slot: int = 0) -> float:
        """Return the number from 0 to 1 that chooses the arm of a slot."""
        return keyed_fraction(self.key, b"arm%d" % slot, self.number)

    def generator(self) -> np.random.Generator:
        """Return a generator for policies that draw their scores at random."""
        return np.random.default_rng(int.from_bytes(keyed_digest(self.key, b"policy", self.number, 16)))
