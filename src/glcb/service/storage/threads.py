"""Threads for calls to the database, with a deadline: a database that hangs must not stop the service."""

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from glcb._errors import StorageError

T = TypeVar("T")

_current = threading.local()


class _Job:
    """A function that runs in a thread, and since when it has been waiting for the database."""

    def __init__(self, function: Callable[[], Any], future: asyncio.Future[Any]) -> None:
        self.function = function
        self.future = future
        self.waiting_since: float | None = time.monotonic()  # at first for a thread, then for the database


@contextlib.contextmanager
def database_call() -> Iterator[None]:
    """Mark the block as a call to the database, to which the deadline of the thread applies."""
    job = getattr(_current, "job", None)
    if job is None:
        yield
        return
    job.waiting_since = time.monotonic()
    try:
        yield
    finally:
        job.waiting_since = None


class StorageThreads:
    """A fixed number of threads. They are daemons: a call that never returns does not keep the process alive.

    Parameters
    ----------
    size
        Number of threads; further calls wait.
    deadline
        Seconds after which the caller stops waiting for the database. A function that makes many calls, such
        as a replay, can take longer.
    """

    def __init__(self, size: int, deadline: float) -> None:
        self._size = size
        self._deadline = deadline
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._threads = 0
        self._jobs: set[_Job] = set()

    @property
    def is_stalled(self) -> bool:
        """Whether a function still runs, or waits for a thread, although its caller has given up."""
        return any(job.future.cancelled() for job in list(self._jobs))

    async def run(self, function: Callable[..., T], *arguments: Any) -> T:
        """Return the result of a function that runs in a thread. A canceled caller waits until it returns.

        Raises
        ------
        StorageError
            The database did not answer in time. The function may still take effect.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        job = _Job(lambda: function(*arguments), future)
        self._jobs.add(job)
        self._queue.put(job)
        if self._threads < self._size:
            self._threads += 1
            threading.Thread(target=self._work, name="glcb-storage", daemon=True).start()
        canceled = None
        while not future.done():
            try:
                await asyncio.wait([future], timeout=self._deadline / 4)
            except asyncio.CancelledError as error:
                canceled = error
            if not future.done() and self._is_late(job):
                future.cancel()
                raise canceled or StorageError(
                    f"the database has not answered for {self._deadline:g} s: retry"
                )
        if canceled is not None:
            future.exception()  # mark as retrieved
            raise canceled
        return future.result()

    def close(self) -> None:
        """End the threads once their functions return."""
        for _ in range(self._threads):
            self._queue.put(None)
        self._threads = 0

    def _is_late(self, job: _Job) -> bool:
        since = job.waiting_since
        return since is not None and time.monotonic() - since > self._deadline

    def _work(self) -> None:
        while True:
            job = self._queue.get()
            if job is None:
                return
            if not job.future.cancelled():  # the caller is still waiting
                self._run(job)
            self._jobs.discard(job)

    @staticmethod
    def _run(job: _Job) -> None:
        _current.job, job.waiting_since = job, None
        result, failure = None, None
        try:
            result = job.function()
        except BaseException as error:
            failure = error
        _current.job = None
        with contextlib.suppress(RuntimeError):  # the event loop is closed
            job.future.get_loop().call_soon_threadsafe(_resolve, job.future, result, failure)


def _resolve(future: asyncio.Future[Any], result: Any, failure: BaseException | None) -> None:
    if future.done():
        return
    if failure is None:
        future.set_result(result)
    else:
        future.set_exception(failure)
