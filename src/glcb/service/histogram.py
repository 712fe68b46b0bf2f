"""How long things take: a histogram whose bounds grow by a fixed factor, so that every size has its place."""

import math

_SMALLEST = 10e-6
_FACTOR = 2**0.25
_BUCKETS = 80
"""The last of them begins at ten seconds."""

BOUNDS = tuple(_SMALLEST * _FACTOR**k for k in range(_BUCKETS))


class Times:
    """Durations in seconds, by size."""

    def __init__(self) -> None:
        self.counts = [0] * (_BUCKETS + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        """Take one more."""
        self.total += seconds
        place = 0 if seconds <= _SMALLEST else math.ceil(math.log2(seconds / _SMALLEST) * 4)
        self.counts[min(place, _BUCKETS)] += 1

    @property
    def count(self) -> int:
        """How many there were."""
        return sum(self.counts)

    def quantile(self, share: float) -> float | None:
        """Return what this share of them does not exceed, within some per cent."""
        wanted = share * self.count
        reached = 0
        for bucket, count in enumerate(self.counts):
            reached += count
            if count and reached >= wanted:
                return BOUNDS[min(bucket, _BUCKETS - 1)]
        return None
