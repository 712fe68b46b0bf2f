"""Run work off the event loop, and log the failures of background tasks."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from glcb._errors import GlcbError

log = logging.getLogger("glcb.service")
T = TypeVar("T")


async def run_in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """Return the result of a function that runs in a thread. A canceled caller waits until it returns."""
    work = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise


async def log_failures(work: Coroutine[Any, Any, None]) -> None:
    """Await a coroutine; log its errors instead of raising them."""
    try:
        await work
    except GlcbError as error:
        log.error("background task failed", extra={"reason": str(error)})
    except Exception:
        log.exception("background task failed")
