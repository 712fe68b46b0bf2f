"""Compile the kernels that decisions need before the first request, in a thread that can be stopped.

The thread starts processes that compile in parallel, unless the kernels are cached, and then loads them.
"""

import asyncio
import ctypes
import threading
from contextlib import suppress

from glcb._errors import NotSupported
from glcb.bandit import warm

_POLL_SECONDS = 0.05
_RETRY_SECONDS = 1.0


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


def _exercise() -> None:
    if not warm.is_warm() and warm.can_compile_in_processes():
        with suppress(NotSupported):  # compile here instead
            warm.compile_in_processes(warm.ROUNDS[0])
    warm.exercise()


def _interrupt(thread: threading.Thread) -> None:
    """Raise SystemExit in a thread the next time it runs Python code. Almost no code catches it."""
    number = ctypes.c_ulong(thread.ident or 0)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(number, ctypes.py_object(SystemExit))
