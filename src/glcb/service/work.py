"""Work that must not keep others waiting, nor be lost."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from glcb._errors import GlcbError

log = logging.getLogger("glcb.service")
T = TypeVar("T")


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Return what a function returns in a thread; even who is cancelled waits for its end."""
    work = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise


async def logged(work: Coroutine[Any, Any, None]) -> None:
    """Do some work; trouble goes to the log, not to whoever waits."""
    try:
        await work
    except GlcbError as error:
        log.error("work in the background failed", extra={"why": str(error)})
    except Exception:
        log.exception("work in the background failed")
