"""Bandits in forked processes.

A fork waits until no other thread is using a bandit, so that the child gets a consistent copy. In the child,
every bandit has a lock, ids and random numbers of its own. A bandit that is in use for longer than a fork can
wait raises an error in the child whenever it is used.
"""

import os
import threading
import time
from types import TracebackType
from typing import Protocol
from weakref import WeakSet

from glcb._errors import NotSupported

_MAX_WAIT = 5.0
"""Seconds that a fork waits for the bandits that are in use."""


class Forkable(Protocol):
    """A bandit."""

    _lock: "threading.RLock | UnusableLock"

    def _separate(self) -> None:
        """Make later ids and random numbers differ from those of the process this one was forked from."""


class UnusableLock:
    """The lock of a bandit that another thread was using when the process was forked."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Raise NotSupported."""
        raise NotSupported(
            "another thread was using this bandit when the process was forked, so its state may be "
            "incomplete here: load it from a file, or fork before the threads are started"
        )

    def release(self) -> None:
        """Do nothing."""

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


_bandits: "WeakSet[Forkable]" = WeakSet()
_held: list[Forkable] = []
_not_held: list[Forkable] = []


def watch(bandit: Forkable) -> None:
    """Make a bandit usable in processes that are forked from this one."""
    _bandits.add(bandit)


def _before() -> None:
    deadline = time.monotonic() + _MAX_WAIT
    for bandit in list(_bandits):
        wait = max(0.0, deadline - time.monotonic())
        (_held if bandit._lock.acquire(timeout=wait) else _not_held).append(bandit)


def _after_in_parent() -> None:
    for bandit in _held:
        bandit._lock.release()
    _held.clear()
    _not_held.clear()


def _after_in_child() -> None:
    for bandit in _held:
        bandit._lock = threading.RLock()
        bandit._separate()
    for bandit in _not_held:
        bandit._lock = UnusableLock()
    _held.clear()
    _not_held.clear()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
