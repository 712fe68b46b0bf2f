"""Compile kernels ahead of time, in several processes.

The kernels are divided into parts, which are compiled by different processes and saved in Numba's cache on
disk. A process holds the lock of the part that it compiles: when several services start at once, one compiles
and the others wait. Only ``glcb warm`` and ``glcb serve`` start such processes.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from glcb._errors import MissingExtra, NotSupported
from glcb._files import lock_file
from glcb._numba.compile import cache_folder, fingerprint, is_cached
from glcb.bandit.bandit import Bandit
from glcb.bandit.encoding.projection import MAX_WIDTH
from glcb.bandit.encoding.scaling import observe_numbers
from glcb.explore.probabilities import choose_arm, probabilities
from glcb.policies.base import Policy
from glcb.policies.glcb import kernels
from glcb.policies.glcb.policy import GLCB, available_cores, compile_rewards
from glcb.policies.registry import make_policy
from glcb.policies.shared import kernels as shared_kernels

_POLL_SECONDS = 0.02
_MAX_WAIT = 120.0
"""Seconds after which a process compiles kernels itself, even if another one holds the lock."""
_X = [0.25, 0.5, 0.75]
_STEPS = 40
"""Explanations need a different kernel after this many rewards."""


def _decisions() -> None:
    Bandit(["a", "b"]).decide({"number": 0.5, "text": "a", "truth": True})


def _rewards() -> None:
    compile_rewards()
    probabilities(np.zeros(2), None, 0.0, "uniform")


def _secondary() -> None:
    bandit = Bandit(["a", "b"])
    for _ in range(_STEPS):
        bandit.reward(bandit.decide({"number": 0.5}).id, 1)
    bandit.explain({"number": 0.5})
    bandit = Bandit(["a", "b"], rewards=(0.0, 1.0), shares={"a": (0.0, 0.4)})
    decision = bandit.decide({"number": 0.5})
    bandit.add_arm("c", like="a")
    bandit.remove_arm("c")
    bandit.reward(decision.id, 1)


def _rare() -> None:
    GLCB(2, len(_X)).distribution(_X)
    GLCB(2, len(_X)).decide_many([_X])
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


PARTS: dict[str, Callable[[], None]] = {
    "decisions": _decisions,
    "rewards": _rewards,
    "secondary": _secondary,
    "rare": _rare,
}
"""What to compile: kernels for decisions; for rewards, holdouts and eligible arms; for bounded rewards,
explanations, new arms and shares; for forgetting, batches of contexts, arms with features, wide vectors and
other policies."""

FIRST, REST = ("decisions", "rewards"), ("secondary", "rare")
"""Groups of parts: what most bandits need at once, and what can follow. Parts of a group compile in
parallel."""

_KERNELS: dict[str, tuple[Callable[..., object], ...]] = {
    "decisions": (kernels.load_context, kernels.estimate, observe_numbers),
    "rewards": (kernels.learn_reward, kernels.learn_fourier, kernels.count_decision, choose_arm),
    "secondary": (kernels.network_value,),
    "rare": (shared_kernels.estimate_candidates,),
}
"""Some kernels of each part. Their cache does not prove that the part is compiled: bandits compile them,
too."""


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


def has_folder() -> bool:
    """Return whether processes share a cache of compiled kernels."""
    return cache_folder(kernels.estimate) is not None


def is_compiled(part: str) -> bool:
    """Return whether all kernels of a part are cached on disk."""
    return has_folder() and _marker(part).exists() and all(map(is_cached, _KERNELS[part]))


def _marker(part: str) -> Path:
    """Return the file that exists once all kernels of a part have been compiled."""
    return Path(folder()) / f"{part}-{fingerprint(*_KERNELS[part])}.compiled"


def compile_part(name: str) -> None:
    """Compile the kernels of one part in this process, or load them if another process has compiled them."""
    with _alone(name):
        PARTS[name]()
        with suppress(OSError, NotSupported):  # then it is compiled again
            _marker(name).touch()


@contextmanager
def _alone(part: str) -> Iterator[None]:
    """Wait until no other process compiles the same part, then hold its lock."""
    deadline = time.monotonic() + _MAX_WAIT
    with (Path(folder()) / f"{part}.lock").open("a") as file:
        while time.monotonic() < deadline:
            try:
                lock_file(file.fileno())
            except BlockingIOError:
                time.sleep(_POLL_SECONDS)
            except OSError:  # this file system has no locks
                break
            else:
                break
        yield


def exercise() -> None:
    """Compile or load the kernels for decisions and rewards of a default bandit, in this process."""
    bandit = Bandit(["a", "b"])
    for uniform in (False, True):
        decision = bandit.decide({"number": 0.5, "text": "a", "truth": True}, uniform=uniform)
        bandit.reward(decision.id, 1.0)
    compile_rewards()


# ---- processes --------------------------------------------------------------------------------------


def start(part: str) -> subprocess.Popen[str]:
    """Start a process that compiles one part and exits with its parent."""
    paths = list(map(str, sys.path))
    program = (
        f"import sys; sys.path[:] = {paths!r}; from glcb.bandit.warm import run_compiler; "
        f"run_compiler({part!r})"
    )
    return subprocess.Popen(
        [sys.executable, "-P", "-c", program],
        stdin=subprocess.PIPE,  # closed when this process ends
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        process_group=None if sys.platform == "win32" else 0,  # Ctrl-Z must not stop a lock holder
    )


def run_compiler(part: str) -> None:
    """Compile one part in a dedicated process."""

    def end_with_parent() -> None:
        sys.stdin.read()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    compile_part(part)


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
        Maximum number of parallel processes; the default is one per core.
    finished
        Called with the name of every part and its compile time in seconds.

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


def _check(process: subprocess.Popen[str], part: str) -> None:
    _, output = process.communicate()
    if process.returncode != 0:
        lines = output.strip().splitlines() or [f"exit status {process.returncode}"]
        raise NotSupported(f"the kernels of {part} could not be compiled: {lines[-1]}")
