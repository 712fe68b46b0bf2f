"""Which worker owns which experiment, so that requests can go to it directly. Nothing is sent here."""

import time
import zlib
from collections.abc import Callable

import httpx

from glcb._api.workers import WorkerList

_EXPERIMENTS = "v1/experiments/"
_PARTITIONS = 256
MOVED = "glcb-worker"
"""The header of an answer that another worker has given: the owner has changed."""
_LEARN_SECONDS = 0.5
"""Minimum time between two readings."""
_PAUSE_SECONDS = 10.0
"""Time for which the common address is used after a failure, or if no worker can be reached directly."""


class Owners:
    """The owners of the experiments, as the service has listed them.

    Parameters
    ----------
    url
        The common address of the service.
    clock
        A clock that never jumps.
    """

    def __init__(self, url: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._is_secure = httpx.URL(url).scheme == "https"
        self._clock = clock
        self._urls: dict[int, str] = {}
        self._learn_at = clock()
        self._is_outdated = True

    def wants_to_learn(self, path: str) -> bool:
        """Return whether the workers should be listed before a request is sent: once for all requests."""
        now = self._clock()
        if not path.startswith(_EXPERIMENTS) or not self._is_outdated or now < self._learn_at:
            return False
        self._learn_at = now + _PAUSE_SECONDS
        return True

    def learn(self, listed: WorkerList | None) -> None:
        """Note what the service has listed; None if it has not answered."""
        urls = {} if listed is None else {one.name: one.url for one in listed.workers if one.state == "ready"}
        owners = {} if listed is None else listed.owners or {}
        found = {int(number): urls.get(name) for number, name in owners.items()}
        # Never from https to http.
        self._urls = {
            number: url
            for number, url in found.items()
            if url is not None and (httpx.URL(url).scheme == "https" or not self._is_secure)
        }
        self._is_outdated = not self._urls
        self._learn_at = self._clock() + (_LEARN_SECONDS if self._urls else _PAUSE_SECONDS)

    def url(self, path: str) -> str | None:
        """Return where to send a request; None for the common address."""
        if not self._urls or not path.startswith(_EXPERIMENTS):
            return None
        name = path[len(_EXPERIMENTS) :].partition("?")[0].partition("/")[0]
        base = self._urls.get(zlib.crc32(name.encode()) % _PARTITIONS)
        return None if base is None else f"{base.rstrip('/')}/{path}"

    def note_answer(self, response: httpx.Response) -> None:
        """Learn again soon if another worker has answered."""
        self._is_outdated = self._is_outdated or MOVED in response.headers

    def fail(self) -> None:
        """Use the common address for a while: a worker could not be reached."""
        self._urls = {}
        self._is_outdated = True
        self._learn_at = self._clock() + _LEARN_SECONDS
