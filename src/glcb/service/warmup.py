"""Compile the kernels that decisions need before the first request, in a thread that can be stopped.

The thread starts processes that compile in parallel, unless the kernels are cached, and then loads them.
What the first decisions do not need is compiled afterwards, while the service already answers requests:
bounded rewards, explanations, new arms, arms with features.
"""

import asyncio
import ctypes
import os
import threading
from contextlib import suppress

from glcb._errors import NotSupported
from glcb.bandit import warm

_POLL_SECONDS = 0.05
_RETRY_SECONDS = 1.0
_LOW_PRIORITY = 10


async def warm_up() -> None:
    """Compile the kernels that decisions need. Cancellation stops the compilation."""
    failures: list[Exception] = []

    def run() -> None:
        try:
            _exercise()
        except SystemExit:
            return
        except Exception as error:
            failures.append(error)

    thread = threading.Thread(target=run, name="glcb-warm-up", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            await asyncio.sleep(_POLL_SECONDS)
    finally:
        # A process that exits during a compilation may crash: stop the thread first, repeatedly if needed.
        while thread.is_alive():
            _interrupt(thread)
            thread.join(_RETRY_SECONDS)
    if failures:
        raise failures[0]


async def warm_up_rest() -> None:
    """Compile the other kernels, one process of low priority after another. Cancellation ends it.

    Without this, a request that needs them would compile them, which takes longer than some clients wait on
    a busy machine.
    """
    if not warm.can_compile_in_processes():
        return
    for part in warm.REST:
        if not warm.is_compiled(part):
            await _compile(part)


async def _compile(part: str) -> None:
    process = warm.start(part)
    try:
        with suppress(OSError):  # it has ended
            os.setpriority(os.PRIO_PROCESS, process.pid, _LOW_PRIORITY)
        while process.poll() is None:
            await asyncio.sleep(_RETRY_SECONDS)
    finally:
        process.kill()
        process.communicate()


def _exercise() -> None:
    parts = warm.unfinished(warm.FIRST)
    if parts and warm.can_compile_in_processes():
        with suppress(NotSupported):  # compile here instead
            warm.compile_in_processes(parts)
    warm.exercise()


def _interrupt(thread: threading.Thread) -> None:
    """Raise SystemExit in a thread the next time it runs Python code. Almost no code catches it."""
    number = ctypes.c_ulong(thread.ident or 0)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(number, ctypes.py_object(SystemExit))
