"""A clock that does not believe every jump of the system clock.

A system clock that is wrong by years for some seconds would time out all pending decisions, and delete events
as too old. Time that was once recorded cannot be taken back. So this clock runs on the uptime of the system
and follows the system clock only where that is plausible.
"""

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

log = logging.getLogger("glcb.service")

_TOLERANCE = 1.0
"""Seconds by which the system clock may differ from the expected time without being a jump."""
_DAY_SECONDS = 86_400.0
"""Nothing is pruned until this long after a jump."""


class Clock(Protocol):
    """The time of the service."""

    def __call__(self) -> float:
        """Return the time in seconds since the epoch."""

    @property
    def is_settled(self) -> bool:
        """Whether the time is certain enough to delete old events."""


def _uptime() -> float:
    """Return the seconds since the system started, including those in which it was suspended."""
    boot_clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot_clock is None else time.clock_gettime(boot_clock)


class PlausibleClock:
    """The time of the system clock, without jumps that it takes back.

    - Small corrections are followed at once.
    - A jump ahead is followed after the system clock has kept it for ``hold`` seconds.
    - A clock that was set back is not followed. Time goes on from where it was, until the system clock has
      caught up.

    Parameters
    ----------
    hold
        Seconds for which the system clock must keep a jump.
    wall
        The system clock, in seconds since the epoch.
    uptime
        A clock that never jumps.
    """

    def __init__(
        self, hold: float, wall: Callable[[], float] = time.time, uptime: Callable[[], float] = _uptime
    ) -> None:
        self._hold = hold
        self._wall = wall
        self._uptime = uptime
        self._offset = wall() - uptime()
        self._jump: tuple[float, float] | None = None  # size and uptime of a jump that is not believed yet
        self._jumped_at = -_DAY_SECONDS

    def start_after(self, latest: float) -> None:
        """Begin after the time of the last event in the database.

        A gap of more than a day is believed, because the service may have been stopped, but nothing is
        pruned for a day: the clock may be wrong.
        """
        ahead = self() - latest
        if ahead < 0:
            log.warning("the clock is behind the last event", extra={"seconds": round(-ahead, 3)})
            self._offset -= ahead
        elif ahead > _DAY_SECONDS:
            self._jumped_at = self._uptime()

    def __call__(self) -> float:
        """Return the time in seconds since the epoch."""
        uptime = self._uptime()
        expected = uptime + self._offset
        difference = self._wall() - expected
        if abs(difference) <= _TOLERANCE:
            self._offset += difference
            self._jump = None
            return expected + difference
        if self._jump is None or abs(difference - self._jump[0]) > _TOLERANCE:
            self._jump = (difference, uptime)
            log.warning("the system clock has jumped", extra={"seconds": round(difference, 3)})
        elif difference > 0 and uptime - self._jump[1] >= self._hold:
            log.warning("the jump of the system clock is followed", extra={"seconds": round(difference, 3)})
            self._offset += difference
            self._jump, self._jumped_at = None, uptime
            return expected + difference
        return expected

    @property
    def is_settled(self) -> bool:
        """Whether the system clock agrees and has not jumped for a day."""
        self()
        return self._jump is None and self._uptime() - self._jumped_at >= _DAY_SECONDS


def timestamp(seconds: float) -> str:
    """Return a time in RFC 3339 format.

    >>> timestamp(0.25)
    '1970-01-01T00:00:00.250000Z'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
