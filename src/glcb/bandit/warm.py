"""Compile kernels ahead of time, in several processes.

Numba compiles one kernel at a time per process. Decisions and rewards need different kernels, so two
processes compile them in about half the time. They leave the machine code in Numba's cache on disk. When
several services start at once, one compiles and the others wait.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from glcb._errors import MissingExtra, NotSupported
from glcb._files import lock_file
from glcb._numba.compile import cache_folder, is_cached
from glcb.bandit.bandit import Bandit
from glcb.bandit.encoding.projection import MAX_WIDTH
from glcb.policies.base import Policy
from glcb.policies.glcb import kernels
from glcb.policies.glcb.policy import GLCB, available_cores
from glcb.policies.registry import make_policy
from glcb.policies.shared import kernels as shared_kernels

_POLL_SECONDS = 0.02
_X = [0.25, 0.5, 0.75]


def _decisions() -> None:
    policy = GLCB(2, len(_X))
    policy.decide(_X)
    policy.count_decision(_X, 0)
    policy.explain(_X)


def _rewards() -> None:
    policy = GLCB(2, len(_X))
    policy.learn(_X, 0, 1)
    policy.add_arm(2, like=0)
    bandit = Bandit(2, policy="uniform", shares={0: (0.0, 0.4)})
    bandit.reward(bandit.decide({"number": 0.5}).id, 1)


def _rare() -> None:
    GLCB(2, len(_X)).distribution(_X)
    policies: list[Policy] = [GLCB(2, len(_X), half_life=2)]
    for name in ("linucb", "ucb1", "tree-ts"):
        with suppress(MissingExtra):
            policies.append(make_policy(name, 2, len(_X)))
    for policy in policies:
        for arm in (0, 1) * 2:
            policy.decide(_X)
            policy.learn(_X, arm, 1)
    bandit = Bandit({"a": {"number": 0.5}, "b": {}})
    for _ in range(2):
        bandit.reward(bandit.rank({"number": 0.5, "vector": [0.5] * (MAX_WIDTH + 1)}, k=2).id, 1)


PARTS: dict[str, Callable[[], None]] = {"decisions": _decisions, "rewards": _rewards, "rare": _rare}
"""What to compile: the kernels of decisions and explanations, those of rewards, new arms and contexts, and
those of forgetting, of arms with features, of wide vectors and of other policies."""

ROUNDS = (("decisions", "rewards"), ("rare",))
"""Parts that need different kernels are compiled at the same time. The last part uses what is cached then."""


def compile_part(name: str) -> None:
    """Compile the kernels of one part in this process, or load them if another process has compiled them."""
    with _alone(name):
        PARTS[name]()


@contextmanager
def _alone(part: str) -> Iterator[None]:
    """Wait until no other process compiles the same part."""
    with (Path(folder()) / f"{part}.lock").open("a") as file:
        while True:
            try:
                lock_file(file.fileno())
                break
            except BlockingIOError:
                time.sleep(_POLL_SECONDS)
            except OSError:  # this file system has no locks
                break
        yield


def exercise() -> None:
    """Compile or load everything that a default bandit needs, in this process."""
    for rewards in ("binary", (0.0, 1.0)):
        bandit = Bandit(["a", "b"], rewards=rewards, shares={"a": (0.0, 0.4)})
        for value in (0.0, 1.0):
            decision = bandit.decide({"number": 0.5, "text": "a", "truth": True})
            bandit.reward(decision.id, value)
        bandit.explain({"number": 0.5})
        bandit.add_arm("c", like="a")
        bandit.remove_arm("c")


def is_warm() -> bool:
    """Return whether the kernels of decisions and rewards are cached on disk."""
    return is_cached(kernels.estimate) and is_cached(kernels.learn_reward)


def is_warm_for_features() -> bool:
    """Return whether the kernels of arms with features are cached on disk."""
    return is_cached(shared_kernels.estimate_candidates)


def can_compile_in_processes() -> bool:
    """Return whether several processes would help: they need a common cache and more than one core."""
    return cache_folder(kernels.estimate) is not None and available_cores() > 1


def folder() -> str:
    """Return the folder with the compiled kernels.

    Raises
    ------
    NotSupported
        If no folder for them is writable.
    """
    path = cache_folder(kernels.estimate)
    if path is None:
        raise NotSupported(
            "there is no writable folder for compiled kernels; set NUMBA_CACHE_DIR to a folder that this "
            "user can write to"
        )
    return path


def compile_in_processes(
    parts: Iterable[str],
    processes: int | None = None,
    finished: Callable[[str, float], None] = lambda part, seconds: None,
) -> None:
    """Compile parts in parallel processes, each of which writes to the cache on disk.

    Parameters
    ----------
    parts
        Names of parts, the longest first.
    processes
        The number of processes at a time; the default is one per core.
    finished
        Called with the name of every part and the seconds it took.

    Raises
    ------
    NotSupported
        If a process fails. The error includes its last line of output.
    """
    limit = processes or available_cores()
    waiting, running = list(parts), dict[str, tuple[subprocess.Popen[str], float]]()
    try:
        while waiting or running:
            while waiting and len(running) < limit:
                part = waiting.pop(0)
                running[part] = start(part), time.monotonic()
            time.sleep(_POLL_SECONDS)
            for part, (process, started) in list(running.items()):
                if process.poll() is not None:
                    del running[part]
                    _check(process, part)
                    finished(part, time.monotonic() - started)
    finally:
        for process, _ in running.values():
            process.kill()
            process.communicate()


def start(part: str) -> subprocess.Popen[str]:
    """Start a process that compiles one part."""
    program = f"from glcb.bandit.warm import compile_part; compile_part({part!r})"
    return subprocess.Popen(
        [sys.executable, "-P", "-c", program],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def _check(process: subprocess.Popen[str], part: str) -> None:
    _, output = process.communicate()
    if process.returncode != 0:
        lines = output.strip().splitlines() or [f"exit status {process.returncode}"]
        raise NotSupported(f"the kernels of {part} could not be compiled: {lines[-1]}")
