"""Exclusive access to a bandit: one thread at a time, in one process, and not after an interrupted change.

An exception such as KeyboardInterrupt can end a change between any two steps. The bandit then rejects all
calls until the caller loads a saved copy, or accepts the state with a copy.

In a forked process, a bandit has its own ids and random numbers. If another thread was using it during the
fork, its state may be incomplete, and it cannot be used.
"""

import os
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from glcb._errors import NotSupported

if TYPE_CHECKING:
    from glcb.bandit.bandit import Bandit

B = TypeVar("B", bound="Bandit")
P = ParamSpec("P")
R = TypeVar("R")

_MAX_WAIT = 5.0
"""Seconds after which a lock in a forked process counts as held by a thread of the parent process."""


def reads(call: Callable[Concatenate[B, P], R]) -> Callable[Concatenate[B, P], R]:
    """Give a call that changes nothing exclusive access to its first argument, a bandit."""

    @wraps(call)
    def exclusive(bandit: B, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if bandit._process != os.getpid():
            _take_over(bandit)
        with bandit._lock:
            if bandit._is_interrupted:
                raise _interrupted()
            return call(bandit, *args, **kwargs)

    return exclusive


def changes(call: Callable[Concatenate[B, P], R]) -> Callable[Concatenate[B, P], R]:
    """Give a call exclusive access to its first argument, a bandit, and mark it if it is interrupted."""

    @wraps(call)
    def exclusive(bandit: B, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if bandit._process != os.getpid():
            _take_over(bandit)
        with bandit._lock:
            if bandit._is_interrupted:
                raise _interrupted()
            try:
                return call(bandit, *args, **kwargs)
            except Exception:  # raised before anything has changed
                raise
            except BaseException:
                bandit._is_interrupted = True
                raise

    return exclusive


def _interrupted() -> NotSupported:
    return NotSupported(
        "a call was interrupted, so its effect on this bandit may be incomplete: load a saved copy, or "
        "accept the state with copy.copy(bandit)"
    )


def _take_over(bandit: "Bandit") -> None:
    """Make later ids and random numbers differ from the parent process."""
    if not bandit._lock.acquire(timeout=_MAX_WAIT):
        raise NotSupported(
            "another thread was using this bandit when the process was forked, so its state may be "
            "incomplete here: load it from a file, or fork before the threads are started"
        )
    try:
        if bandit._process != os.getpid():
            bandit._core.separate()
            bandit._process = os.getpid()
    finally:
        bandit._lock.release()
