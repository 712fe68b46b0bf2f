"""Statistics over time: sums over periods, which become longer as they age.

The last two minutes are kept by the second, then minutes, hours, days and weeks follow. So a chart of the
first minutes and one of the last years have enough points, and the number of periods is bounded. A reward
belongs to the period of its decision, however late it arrives: a range of dates is a set of decisions.
"""

from bisect import bisect_right
from operator import attrgetter

from msgspec import Struct, field

from glcb.service.core.sums import Sums

_TIERS = ((1.0, 120), (60.0, 90), (3600.0, 336), (86_400.0, 400), (604_800.0, 260))
"""Seconds of the periods of each age, and how many of them are kept before the oldest ones are merged."""
_MONDAY = 345_600.0
"""Weeks begin on Mondays; the epoch was a Thursday."""
_start = attrgetter("start")


class Period(Struct):
    """The decisions of a period of time, and their rewards."""

    start: float
    end: float
    sums: Sums = field(default_factory=Sums)


class History(Struct):
    """Periods, the oldest and longest first."""

    since: float
    """Time from which decisions are counted."""
    periods: list[Period] = field(default_factory=list)
    sizes: list[int] = field(default_factory=lambda: [0] * len(_TIERS))
    """Number of periods of each length, the shortest first."""

    def sums_now(self, at: float) -> Sums:
        """Return the sums of the period of a new decision."""
        if not self.periods or at >= self.periods[-1].end:
            self._start_period(at)
        return self.periods[-1].sums

    def sums_at(self, at: float) -> Sums:
        """Return the sums of the period to which the decisions at a time belong."""
        if not self.periods:
            self._start_period(at)
        period = self.periods[-1]
        if at < period.start:
            place = bisect_right(self.periods, at, key=_start) - 1
            period = self.periods[max(place, 0)]
        return period.sums

    def within(self, start: float | None, end: float | None) -> list[Period]:
        """Return the periods that have a part between two times."""
        return [
            period
            for period in self.periods
            if (start is None or period.end > start) and (end is None or period.start < end)
        ]

    def _start_period(self, at: float) -> None:
        width = _TIERS[0][0]
        start = floor_time(at, width)
        self.periods.append(Period(start, start + width))
        self.sizes[0] += 1
        first = len(self.periods)
        for tier, (longer, _) in enumerate(_TIERS[1:]):
            if self.sizes[tier] <= _TIERS[tier][1]:
                return  # so no longer period is added
            first -= self.sizes[tier]
            self.sizes[tier] -= self._merge(first, longer)
            self.sizes[tier + 1] += 1
            first += 1
        if self.sizes[-1] > _TIERS[-1][1]:
            self._merge_into(0, 2, self.periods[0].start, self.periods[1].end)
            self.sizes[-1] -= 1

    def _merge(self, first: int, width: float) -> int:
        """Merge the periods in the same longer period as the first of them; return how many they were."""
        start = floor_time(self.periods[first].start, width)
        last = first
        while last < len(self.periods) and self.periods[last].start < start + width:
            last += 1
        self._merge_into(first, last, start, start + width)
        return last - first

    def _merge_into(self, first: int, last: int, start: float, end: float) -> None:
        """Replace the periods from ``first`` to before ``last`` by one."""
        sums = Sums.of(part.sums for part in self.periods[first:last])
        self.periods[first:last] = [Period(start, end, sums)]


def floor_time(at: float, width: float) -> float:
    """Return the beginning of the second, hour, day or week of a time; weeks begin on Mondays.

    >>> floor_time(7_300.5, 3600.0), floor_time(4 * 86_400.0, 604_800.0)
    (7200.0, 345600.0)
    """
    offset = _MONDAY if width >= 604_800 else 0.0
    return (at - offset) // width * width + offset
