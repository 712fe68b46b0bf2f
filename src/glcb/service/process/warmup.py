"""Compile the kernels that decisions need before the first request.

Processes compile them, unless they are cached, and this process loads them. A process can be stopped at any
time; a thread that compiles cannot. What the first decisions do not need is compiled afterwards, while the
service already answers requests: bounded rewards, explanations, new arms, arms with features.
"""

import asyncio
import os
from contextlib import suppress

from glcb.bandit import warm
from glcb.policies.glcb.policy import available_cores

_POLL_SECONDS = 0.05
_LOW_PRIORITY = 10


async def warm_up() -> None:
    """Compile the kernels that decisions need, and load them.

    Cancellation ends the processes that compile. Only without a writable cache folder does this process
    compile the kernels itself, and ends after that.
    """
    if warm.has_folder():
        missing = [part for part in warm.FIRST if not warm.is_compiled(part)]
        await asyncio.gather(*(_compile(part) for part in missing))
    await asyncio.to_thread(warm.exercise)


async def warm_up_rest() -> None:
    """Compile the other kernels, one process of low priority after another. Cancellation ends it.

    Without this, a request that needs them would compile them, which takes longer than some clients wait on
    a busy machine.
    """
    if warm.has_folder() and available_cores() > 1:
        for part in warm.REST:
            if not warm.is_compiled(part):
                await _compile(part, _LOW_PRIORITY)


async def _compile(part: str, priority: int | None = None) -> None:
    """Compile a part in a process. If that fails, this process compiles its kernels when it needs them."""
    process = warm.start(part)
    try:
        if priority is not None:
            with suppress(OSError):  # it has ended
                os.setpriority(os.PRIO_PROCESS, process.pid, priority)
        while process.poll() is None:
            await asyncio.sleep(_POLL_SECONDS)
    finally:
        process.kill()
        process.communicate()
