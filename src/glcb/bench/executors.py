"""Where runs are carried out. Today that is this machine; another engine needs only ``run``."""

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

from glcb.bench.run import Failure, Record, Run, execute

# Every process computes with one thread: runs are parallel, not what is inside them.
_ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "NPROC": "1",  # XLA sizes its pool of threads by this
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "JAX_PLATFORMS": "cpu",
}


class Engine(Protocol):
    """Carries out runs."""

    def run(self, runs: Sequence[Run]) -> Iterator[Record | Failure]:
        """Yield what came of each run, in the order in which they finish."""


class LocalEngine:
    """Spawned processes on this machine."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs

    def run(self, runs: Sequence[Run]) -> Iterator[Record | Failure]:
        """Yield what came of each run, in the order in which they finish."""
        waiting = deque(runs)
        while waiting:
            # A process that dies takes the runs of its neighbors with it. Those try again, each on its
            # own: the one that dies again is to blame.
            for run in (yield from _drain(waiting, self.jobs)):
                if (yield from _drain(deque([run]), 1)):
                    yield Failure(**asdict(run), error="the process that carried it out died: out of memory?")


def _drain(waiting: deque[Run], jobs: int) -> Generator[Record | Failure, None, list[Run]]:
    """Carry out what is waiting, until all is done or a process dies; return what was lost with it."""
    pending: dict[Future[Record | Failure], Run] = {}
    with _one_thread_each(), _pool(jobs) as pool:
        while waiting or pending:
            # Only as many as there are processes: an interrupted pool has nothing else to throw away.
            try:
                while waiting and len(pending) < jobs:
                    with _deaf_to_interrupts():
                        pending[pool.submit(execute, waiting[0])] = waiting[0]
                    waiting.popleft()
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
    pool = ProcessPoolExecutor(jobs, mp_context=spawn, initializer=_depend_on_parent)
    try:
        yield pool
    finally:
        # Whoever interrupts does not want to wait for runs that may take minutes.
        for process in list((pool._processes or {}).values()):
            process.terminate()
        pool.shutdown(wait=True, cancel_futures=True)


def _depend_on_parent() -> None:
    """End when the process that started us ends, however that comes about."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Let processes that are started here be born deaf to Ctrl-C: it is for the one that started them.

    Blocked and not ignored: what comes meanwhile is heard afterwards.
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
def _one_thread_each() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(_ONE_THREAD)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
