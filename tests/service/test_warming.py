"""What is compiled at the start can be given up at any time, and what goes wrong with it is told."""

import asyncio
import subprocess
import sys
import threading
import time

import pytest

from glcb.service import warmup as warming


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


AFTERWARDS = """
import gc
from numba.core.dispatcher import Dispatcher
from glcb.bandit import Bandit
from glcb.service import warmup as warming

def compiled():
    return {str(one): len(one.signatures) for one in gc.get_objects() if isinstance(one, Dispatcher)}

warming._decide()
before = compiled()
assert sum(before.values()) > 5, before
for rewards in ("binary", (0.0, 9.0)):
    bandit = Bandit(["x", "y", "z"], rewards=rewards, reward_timeout=60.0)
    for _ in range(3):
        bandit.reward(bandit.decide({"age": 31, "country": "FR"}).id, 1)
        bandit.add_arm("new", like="x")
        bandit.add_arm("newer")
        bandit.explain({"age": 31})
        bandit.remove_arm("new")
        bandit.remove_arm("newer")
after = compiled()
assert after == before, {name: count for name, count in after.items() if before.get(name) != count}
"""


def test_nobody_has_to_wait_for_a_compilation_afterwards() -> None:
    ran = subprocess.run([sys.executable, "-c", AFTERWARDS], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
