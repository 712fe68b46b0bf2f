"""Calls that an interrupt such as Ctrl-C must not break off in the middle."""

# mypy: disable-error-code="no-untyped-call"

import _thread
import threading
from collections.abc import Callable
from typing import Any

from numba.core.compiler_lock import global_compiler_lock

_POLL_SECONDS = 1.0


def hold_back_interrupts(call: Callable[[], Any]) -> Any:
    """Return the result of a call that uses Numba's compiler; raise what interrupts it after it is complete.

    An exception in the middle of loading or compiling a kernel can leave Numba in a state in which it fails
    from then on. Python runs the handlers of all signals in the main thread, so a call of the main thread is
    made in another one.
    """
    # The main thread holds the lock if it is compiling a function of another program. No other thread could.
    if threading.current_thread() is not threading.main_thread() or global_compiler_lock.is_locked():
        return call()
    results: list[tuple[Any, BaseException | None]] = []
    finished = threading.Lock()
    finished.acquire()

    def run() -> None:
        try:
            results.append((call(), None))
        except BaseException as error:
            results.append((None, error))
        finally:
            finished.release()

    # ``Thread.start`` would wait for the thread, and that wait can be interrupted.
    _thread.start_new_thread(run, ())
    interrupt: BaseException | None = None
    # An interrupt can come between acquiring the lock and the next step, so the result ends the loop.
    while not results:
        try:
            finished.acquire(timeout=_POLL_SECONDS)
        except BaseException as error:
            interrupt = interrupt or error
    if interrupt is not None:
        raise interrupt
    result, failure = results[0]
    if failure is not None:
        raise failure
    return result
