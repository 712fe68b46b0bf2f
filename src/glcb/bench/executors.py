"""Executors of benchmark runs: local processes, or a Ray cluster. An executor only needs ``run``."""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict
from multiprocessing import connection
from typing import Protocol

from glcb._errors import InvalidSettings
from glcb._ray import ONE_THREAD, check_jobs
from glcb.bench.run import Failure, Run, RunRecord, execute


class Executor(Protocol):
    """Executes runs."""

    def run(self, runs: Sequence[Run]) -> Iterator[RunRecord | Failure]:
        """Yield the outcome of each run in order of completion."""


class LocalExecutor:
    """Executes runs in spawned processes on this machine.

    Parameters
    ----------
    jobs : int
        Number of processes.
    """

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs

    def run(self, runs: Sequence[Run]) -> Iterator[RunRecord | Failure]:
        """Yield the outcome of each run in order of completion."""
        queue = deque(runs)
        while queue:
            # A process that dies breaks the pool, and the runs of the other processes are lost. Each lost run
            # is executed again alone; a run that dies again is the cause.
            for run in (yield from _drain(queue, self.jobs)):
                if (yield from _drain(deque([run]), 1)):
                    yield Failure(**asdict(run), error="its process died; it may have run out of memory")


EXECUTORS = ("local", "ray")
"""The names of the executors."""


def make_executor(name: str, jobs: int | None = None, address: str | None = None) -> Executor:
    """Return the executor called ``name``.

    Parameters
    ----------
    name : str
        One of ``EXECUTORS``.
    jobs : int, optional
        Number of parallel runs. Default: the number of cores.
    address : str, optional
        Address of the Ray cluster. Default: the environment variable ``RAY_ADDRESS``, or an instance of Ray
        on this machine.

    Returns
    -------
    Executor

    Raises
    ------
    InvalidSettings
        If there is no such executor, it takes no address, or there are no jobs.
    """
    check_jobs(jobs)
    if name not in EXECUTORS:
        raise InvalidSettings(f"there is no executor {name!r}; the executors are {', '.join(EXECUTORS)}")
    if name == "ray":
        from glcb.bench.ray_executor import RayExecutor

        return RayExecutor(jobs, address)
    if address is not None:
        raise InvalidSettings(f"the executor {name!r} has no address: pass --executor ray as well")
    return LocalExecutor(jobs or os.cpu_count() or 1)


def _drain(queue: deque[Run], jobs: int) -> Generator[RunRecord | Failure, None, list[Run]]:
    """Execute the queued runs until all are done or a process dies; return the runs that were lost."""
    pending: dict[Future[RunRecord | Failure], Run] = {}
    with _single_threaded(), _pool(jobs) as pool:
        while queue or pending:
            # Submit only as many runs as there are processes, so that an interrupt has nothing to cancel.
            try:
                while queue and len(pending) < jobs:
                    with _interrupts_blocked():
                        pending[pool.submit(execute, queue[0])] = queue[0]
                    queue.popleft()
                finished = wait(pending, return_when=FIRST_COMPLETED).done
                outcomes = [(future, future.result()) for future in finished]
            except BrokenProcessPool:
                return list(pending.values())
            for future, outcome in outcomes:
                del pending[future]
                yield outcome
    return []


@contextmanager
def _pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    spawn = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=spawn, initializer=_exit_with_parent)
    try:
        yield pool
    finally:
        # After an interrupt, do not wait for runs that may take minutes.
        for process in list((pool._processes or {}).values()):
            process.terminate()
        pool.shutdown(wait=True, cancel_futures=True)


def _exit_with_parent() -> None:
    """Exit when the parent process ends, even if it is killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block SIGINT, so that processes started here inherit the mask and Ctrl-C reaches only the parent.

    The signal is blocked, not ignored: one that arrives in the block is delivered afterward.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _single_threaded() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
