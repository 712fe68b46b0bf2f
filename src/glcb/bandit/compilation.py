"""Processes that compile kernels, and locks so that no two compile the same.

Numba compiles one kernel at a time per process. The first decision of a bandit and its first reward need
different kernels, so a second process compiles those of rewards during the first decision. It leaves the
machine code in Numba's cache on disk. A process holds the lock of what it compiles; others wait until it has
what they need, or for the lock, and then load what they find.

Such a process ends with the one that started it, even if that is killed.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO

from glcb._errors import NotSupported
from glcb._files import lock_file
from glcb._numba.compile import before_compiling, cache_folder, is_cached
from glcb.policies.glcb import kernels
from glcb.policies.glcb.policy import available_cores

REWARDS = "rewards"
"""The name of the part that a second process compiles."""

THREAD = "glcb-compilation"
"""The name of the thread that waits for this process."""

_POLL_SECONDS = 0.02
_MAX_WAIT = 120.0
"""Seconds after which a process compiles kernels itself, whoever holds the lock."""

_held: set[str] = set()
"""The parts whose locks this process holds."""


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


def can_compile_in_processes() -> bool:
    """Return whether several processes would help: they need a common cache and more than one core."""
    return cache_folder(kernels.estimate) is not None and available_cores() > 1


@contextmanager
def alone(part: str, descriptor: int | None = None) -> Iterator[None]:
    """Wait until no other process compiles the same part, then hold its lock.

    With `descriptor`, the lock is held already, by this open file.
    """
    deadline = time.monotonic() + _MAX_WAIT
    with _open(part) if descriptor is None else os.fdopen(descriptor) as file:
        while descriptor is None and not _lock(file) and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
        _held.add(part)
        try:
            yield
        finally:
            _held.discard(part)


def start(part: str, lock: IO[str] | None = None) -> subprocess.Popen[str]:
    """Start a process that compiles one part. If `lock` is an open file, its lock passes to the process."""
    descriptors = () if lock is None else (lock.fileno(),)
    arguments = ", ".join(map(repr, (part, *descriptors)))
    folders = list(map(str, sys.path))
    program = (
        f"import sys; sys.path[:] = {folders!r}; "
        f"from glcb.bandit.warm import run_compiler; run_compiler({arguments})"
    )
    return subprocess.Popen(
        [sys.executable, "-P", "-c", program],
        stdin=subprocess.PIPE,  # closed when this process ends
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE if lock is None else subprocess.DEVNULL,
        text=True,
        pass_fds=descriptors,
        process_group=None if sys.platform == "win32" else 0,  # Ctrl-Z does not stop it, which holds a lock
    )


def end_with_parent() -> None:
    """End this process when the one that started it has ended."""

    def wait() -> None:
        sys.stdin.read()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def use_second_process() -> None:
    """Let a second process compile the kernels of rewards, when those of decisions must be compiled."""
    before_compiling(kernels.load_context, compile_rewards_elsewhere)
    before_compiling(kernels.estimate, compile_rewards_elsewhere)
    before_compiling(kernels.learn_reward, _wait_for_rewards)


@cache
def compile_rewards_elsewhere() -> None:
    """Start a process that compiles the kernels of rewards, at most once.

    Nothing happens if they, or those of decisions, are cached, if there is one core, if another process
    compiles them, if this process was started to compile, or if the new process cannot be started. This
    process then compiles them when it needs them.
    """
    is_needed = not (_held or is_cached(kernels.estimate) or is_cached(kernels.learn_reward))
    if not (is_needed and can_compile_in_processes() and _runs_python()):
        return
    with suppress(OSError, RuntimeError), _open(REWARDS) as lock:
        # Without standard streams, the file has the number of one of them and cannot be passed on.
        if sys.platform != "win32" and lock.fileno() > 2 and _lock(lock):
            process = start(REWARDS, lock)
            threading.Thread(target=_wait_for, args=[process], name=THREAD, daemon=True).start()


def _wait_for(process: subprocess.Popen[str]) -> None:
    """Wait until a process has ended, so that it does not stay in the process table."""
    process.wait()
    if process.stdin is not None:
        process.stdin.close()


def _wait_for_rewards() -> None:
    """Wait until another process has compiled the kernel of rewards, or none compiles it."""
    deadline = time.monotonic() + _MAX_WAIT
    with suppress(OSError):  # the cache folder cannot be written to
        while REWARDS not in _held and not is_cached(kernels.learn_reward) and time.monotonic() < deadline:
            with _open(REWARDS) as file:
                if _lock(file):
                    return
            time.sleep(_POLL_SECONDS)


def _runs_python() -> bool:
    """Return whether ``sys.executable`` is an interpreter, not a program that contains one."""
    return Path(sys.executable or "").name.startswith("python") and not getattr(sys, "frozen", False)


def _open(part: str) -> IO[str]:
    return (Path(folder()) / f"{part}.lock").open("a")


def _lock(file: IO[str]) -> bool:
    """Lock a file; return whether no other process holds the lock."""
    try:
        lock_file(file.fileno())
    except BlockingIOError:
        return False
    except OSError:  # this file system has no locks
        pass
    return True
