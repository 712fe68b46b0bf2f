"""What is compiled at the start can be given up at any time, and what goes wrong with it is told."""

import asyncio
import threading
import time

import pytest

from glcb.service import warming


def test_who_is_told_to_stop_does_not_wait_for_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()

    def for_long() -> None:
        begun.set()
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            pass

    async def run() -> None:
        work = asyncio.ensure_future(warming.warm_up())
        assert await asyncio.to_thread(begun.wait, 10)
        work.cancel()
        await asyncio.wait([work])
        assert work.cancelled()

    monkeypatch.setattr(warming, "_decide", for_long)
    began = time.monotonic()
    asyncio.run(run())
    assert time.monotonic() - began < 30
    assert not any(thread.name == "glcb-warm-up" for thread in threading.enumerate())


def test_failures_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ValueError("no compiler")

    monkeypatch.setattr(warming, "_decide", fail)
    with pytest.raises(ValueError, match="no compiler"):
        asyncio.run(warming.warm_up())
