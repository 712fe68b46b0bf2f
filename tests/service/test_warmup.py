"""The warm-up can be cancelled at any time, reports its errors, and compiles what most requests need."""

import asyncio
import subprocess
import sys
import threading
import time

import pytest

from glcb.bandit import warm
from glcb.service import warmup


def test_a_cancelled_warm_up_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    started = threading.Event()

    def compile_for_a_minute() -> None:
        started.set()
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            pass

    async def run() -> None:
        work = asyncio.ensure_future(warmup.warm_up())
        assert await asyncio.to_thread(started.wait, 10)
        work.cancel()
        await asyncio.wait([work])
        assert work.cancelled()

    monkeypatch.setattr(warmup, "_exercise", compile_for_a_minute)
    began = time.monotonic()
    asyncio.run(run())
    assert time.monotonic() - began < 30
    assert not any(thread.name == "glcb-warm-up" for thread in threading.enumerate())


def test_an_error_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ValueError("no compiler")

    monkeypatch.setattr(warmup, "_exercise", fail)
    with pytest.raises(ValueError, match="no compiler"):
        asyncio.run(warmup.warm_up())


def test_the_other_kernels_are_compiled_in_a_process_that_ends_with_the_service(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[subprocess.Popen[str]] = []

    def start(part: str) -> subprocess.Popen[str]:
        started.append(subprocess.Popen(["sleep", "600"], stderr=subprocess.PIPE, text=True))
        return started[-1]

    async def run() -> None:
        work = asyncio.ensure_future(warmup.warm_up_rest())
        await asyncio.sleep(0.05)
        work.cancel()
        await asyncio.wait([work])

    monkeypatch.setattr(warm, "start", start)
    monkeypatch.setattr(warm, "can_compile_in_processes", lambda: True)
    for is_warm in (True, False):
        monkeypatch.setattr(warm, "is_compiled", lambda part, is_warm=is_warm: is_warm)
        asyncio.run(run())
    (process,) = started
    assert process.returncode is not None


CHECK = """
import gc
from numba.core.dispatcher import Dispatcher
from glcb.bandit import Bandit
from glcb.bandit import warm
from glcb.service import warmup

def compiled():
    return {str(one): len(one.signatures) for one in gc.get_objects() if isinstance(one, Dispatcher)}

warmup._exercise()
before = compiled()
assert sum(before.values()) > 5, before
bandit = Bandit(["x", "y", "z"], reward_timeout=60.0)
for _ in range(3):
    bandit.reward(bandit.decide({"age": 31, "country": "FR"}).id, 1)
    bandit.decide({"age": 31, "country": "FR"}, uniform=True, eligible=["x", "z"])
after = compiled()
assert after == before, {name: count for name, count in after.items() if before.get(name) != count}
"""


def test_no_decision_or_reward_compiles_a_kernel_after_the_warm_up() -> None:
    ran = subprocess.run([sys.executable, "-c", CHECK], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
