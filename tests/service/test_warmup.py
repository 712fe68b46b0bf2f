"""The warm-up can be canceled, reports its errors, and compiles what most requests need."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable

import pytest

from glcb.bandit import warm
from glcb.service.process import warmup


def test_an_error_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ValueError("no compiler")

    monkeypatch.setattr(warm, "exercise", fail)
    with pytest.raises(ValueError, match="no compiler"):
        asyncio.run(warmup.warm_up())


@pytest.mark.parametrize("step", [warmup.warm_up, warmup.warm_up_rest])
def test_the_processes_that_compile_end_with_a_cancelled_warm_up(
    monkeypatch: pytest.MonkeyPatch, step: Callable[[], Awaitable[None]]
) -> None:
    started: list[subprocess.Popen[str]] = []

    def start(part: str) -> subprocess.Popen[str]:
        started.append(subprocess.Popen(["sleep", "600"], stderr=subprocess.PIPE, text=True))
        return started[-1]

    async def run() -> None:
        work = asyncio.ensure_future(step())
        await asyncio.sleep(0.05)
        work.cancel()
        await asyncio.wait([work])

    monkeypatch.setattr(warm, "start", start)
    monkeypatch.setattr(warm, "exercise", lambda: None)
    monkeypatch.setattr(warm, "has_folder", lambda: True)
    monkeypatch.setattr(warmup, "available_cores", lambda: 2)
    for is_warm in (True, False):
        monkeypatch.setattr(warm, "is_compiled", lambda part, is_warm=is_warm: is_warm)
        asyncio.run(run())
    assert started
    assert all(process.returncode is not None for process in started)


def test_kernels_are_compiled_here_if_a_process_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    monkeypatch.setattr(warm, "start", lambda part: subprocess.Popen(["false"], text=True))
    monkeypatch.setattr(warm, "exercise", lambda: compiled.append("here"))
    monkeypatch.setattr(warm, "has_folder", lambda: True)
    monkeypatch.setattr(warm, "is_compiled", lambda part: False)
    asyncio.run(warmup.warm_up())
    assert compiled == ["here"]


CHECK = """
import gc
from numba.core.dispatcher import Dispatcher
from glcb.bandit import Bandit
from glcb.bandit import warm

def compiled():
    return {str(one): len(one.signatures) for one in gc.get_objects() if isinstance(one, Dispatcher)}

warm.exercise()
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
