"""Which requests are handled at the same time, and how much memory their bodies take.

Decisions and rewards come first: they have slots of their own. All other requests that need an API key have
few slots and take turns, so that a decision never waits for more than one of them. One API key and one
experiment can use a share of the slots, and one key a share of the memory. Pages and errors need no slot.
A publishable key, which everyone can read, has a limited rate as well.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Literal
from weakref import WeakValueDictionary

from glcb.service.access.api_keys import ApiKey
from glcb.service.config import ServiceSettings
from glcb.service.errors import ApiError

Lane = Literal["decisions", "others"]

_TURNS = 2
"""Requests other than decisions and rewards that are worked on at the same time."""
_BURST = 1_000_000_000
"""Nanoseconds of unused rate that a publishable key can use at once."""


class _Slots:
    """The slots of a lane, and who uses them."""

    def __init__(self, limit: int, share: float) -> None:
        self.limit = limit
        self.share = max(1, int(limit * share))
        """What one API key, or one experiment, can use."""
        self.used = 0
        self.by_key: dict[str, int] = {}
        self.by_experiment: dict[str, int] = {}


def _add(users: dict[str, int], name: str, count: int) -> None:
    """Change what a user uses; forget one that uses nothing."""
    total = users.get(name, 0) + count
    if total:
        users[name] = total
    else:
        users.pop(name, None)


class Admission:
    """The slots and the memory of a service.

    Parameters
    ----------
    settings
        The settings of the service.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self.slots: dict[Lane, _Slots] = {
            "decisions": _Slots(settings.max_concurrent_requests, settings.max_share),
            "others": _Slots(settings.max_other_requests, settings.max_share),
        }
        self.max_bytes = settings.max_buffered_bytes
        self.max_bytes_of_key = settings.max_buffered_bytes * settings.max_share
        self.bytes = 0
        """Bytes of bodies and responses in memory."""
        self.bytes_of: dict[str, int] = {}
        self.turns = asyncio.Semaphore(_TURNS)
        """Limits the work outside of decisions and rewards that goes on at the same time."""
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._interval = _BURST // settings.publish_rate
        self._spent_until: dict[str, int] = {}
        """The time up to which each publishable key has used its rate."""

    def lease(self, key: ApiKey, experiment: str | None) -> "Lease":
        """Return what one request will use, which is nothing yet.

        Raises
        ------
        ApiError
            The key is publishable and makes too many requests.
        """
        if key.role == "publish":
            self._spend_rate(key.name)
        return Lease(self, key.name, experiment or "")

    def _spend_rate(self, key: str) -> None:
        now = time.monotonic_ns()
        spent = max(self._spent_until.get(key, 0), now - _BURST) + self._interval
        if spent > now:
            raise ApiError("rate_limited", "this API key makes too many requests per second: retry")
        self._spent_until[key] = spent

    @contextlib.asynccontextmanager
    async def turn(self, experiment: str | None) -> AsyncIterator[None]:
        """Wait for a turn: one request of an experiment at a time, and few in total."""
        lock = self._turns.setdefault(experiment or "", asyncio.Lock())
        async with lock, self.turns:
            yield


class Lease:
    """The slot of one request, and the memory of its body and its response.

    Parameters
    ----------
    admission
        Counts what all requests use.
    key, experiment
        The names of the API key and of the experiment; empty if there is none.
    """

    def __init__(self, admission: Admission, key: str, experiment: str) -> None:
        self._admission = admission
        self._key = key
        self._experiment = experiment
        self._lane: Lane | None = None
        self._bytes = 0

    def enter(self, lane: Lane) -> None:
        """Take a slot.

        Raises
        ------
        ApiError
            All slots are in use, or all that one key or one experiment can use.
        """
        slots, key, experiment = self._admission.slots[lane], self._key, self._experiment
        if slots.used >= slots.limit:
            raise ApiError("overloaded", "the service has too many open requests: retry")
        if key and slots.by_key.get(key, 0) >= slots.share:
            raise ApiError("overloaded", "this API key has too many open requests: retry")
        if experiment and slots.by_experiment.get(experiment, 0) >= slots.share:
            raise ApiError("overloaded", "this experiment has too many open requests: retry")
        self._lane = lane
        slots.used += 1
        _add(slots.by_key, key, 1)
        _add(slots.by_experiment, experiment, 1)

    def take(self, count: int) -> None:
        """Count bytes in memory; raise ApiError if there are too many."""
        admission, key = self._admission, self._key
        if admission.bytes + count > admission.max_bytes:
            raise ApiError("overloaded", "the service has too much data in memory: retry")
        if key and admission.bytes_of.get(key, 0) + count > admission.max_bytes_of_key:
            raise ApiError("overloaded", "this API key has too much data in memory: retry")
        self._bytes += count
        admission.bytes += count
        _add(admission.bytes_of, key, count)

    def close(self) -> None:
        """Free the slot and the memory."""
        admission = self._admission
        if self._lane is not None:
            slots, self._lane = admission.slots[self._lane], None
            slots.used -= 1
            _add(slots.by_key, self._key, -1)
            _add(slots.by_experiment, self._experiment, -1)
        if self._bytes:
            admission.bytes -= self._bytes
            _add(admission.bytes_of, self._key, -self._bytes)
            self._bytes = 0
