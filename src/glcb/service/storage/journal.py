"""Group commit: events of all experiments go to disk together, in the order of their submission.

If a commit fails, all later events fail too, because they were applied to a state that is not on disk.
Each failure starts a new generation. An experiment loaded in an earlier generation may contain lost events
and must be loaded again. A commit that does not return within the deadline counts as failed; it may still
succeed, and no event is written before it has ended.

If the database rejects the content of an event, only its experiment starts a new generation: the commit is
divided until the rejected entry is alone, and the events of other experiments are written.
"""

import asyncio
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from glcb._errors import StorageError
from glcb.service.events import Event
from glcb.service.storage.chain import EventRow
from glcb.service.storage.connection import RejectedEvents
from glcb.service.storage.database import Database

log = logging.getLogger("glcb.service")

_GATHER_SECONDS = 0.002
"""A commit waits this long for more events: committing many takes little longer than committing few."""
_PROBE_SECONDS = 0.5
"""Interval of the write probes while the database is unavailable."""
_STOP_POLL_SECONDS = 0.005

OnCommit = Callable[[int, float], None]
"""Receives the number of events in a commit and its duration in seconds."""


class _QueuedEvents(NamedTuple):
    experiment: int
    rows: Sequence[EventRow]
    done: asyncio.Future[None]
    since: float
    """When it was submitted, on the monotonic clock."""


class Journal:
    """A thread that commits events and reports back to the event loop.

    Parameters
    ----------
    database
        Where events are written. Its deadline applies to commits.
    max_events
        Maximum number of events per commit.
    on_commit
        Called in the journal's thread after each commit.
    """

    def __init__(self, database: Database, *, max_events: int, on_commit: OnCommit) -> None:
        self._database = database
        self._max_events = max_events
        self._on_commit = on_commit
        self._loop = asyncio.get_running_loop()
        self._queue: deque[_QueuedEvents] = deque()
        self._writing: list[_QueuedEvents] = []
        self._stopping = False
        self._changed = threading.Condition()
        self.failures = 0
        """Number of failed commits."""
        self._rejections: Counter[int] = Counter()
        """Number of rejected events, by experiment."""
        self._separated: deque[list[_QueuedEvents]] = deque()
        """Parts of a rejected commit. They are written before the queue, each in a commit of its own."""
        self.failure: str | None = None
        """Why the database is unavailable, or None while it is available."""
        self.depth = 0
        """Number of queued events."""
        self._thread = threading.Thread(target=self._run, name="glcb-journal", daemon=True)
        self._thread.start()
        self._watcher = self._loop.call_later(database.deadline / 4, self._watch)

    # ---- called from the event loop -------------------------------------------------------------

    def generation(self, experiment: int) -> int:
        """Return the number of failures that concern an experiment."""
        return self.failures + self._rejections[experiment]

    def submit(self, generation: int, experiment: int, events: Sequence[Event]) -> asyncio.Future[None]:
        """Queue events; return a future that is done when they and all earlier ones are on disk.

        Without events, the future waits for the events of other callers. A worker of several also confirms
        that it has not been replaced, so that what the caller has read is current.

        Raises
        ------
        StorageError
            Events of the experiment have been lost since ``generation``, or nothing can be confirmed since
            the last commit failed.
        """
        done: asyncio.Future[None] = self._loop.create_future()
        rows = [(experiment, *event) for event in events]
        with self._changed:
            if generation != self.generation(experiment):
                raise StorageError(self.failure or "the database was briefly unavailable: retry")
            if not (rows or self._queue or self._separated or self._writing):
                if self._database.partitions is None:
                    done.set_result(None)
                    return done
                if self.failure is not None:  # nothing is confirmed until the database is available again
                    raise StorageError(self.failure)
            self._queue.append(_QueuedEvents(experiment, rows, done, time.monotonic()))
            self.depth += len(rows)
            self._changed.notify()
        return done

    def oldest_age(self) -> float:
        """Return the seconds since the oldest event that is not on disk yet was submitted; 0 without one."""
        with self._changed:
            entries = self._writing or (self._separated[0] if self._separated else self._queue)
            entry = entries[0] if entries else None
        return 0.0 if entry is None else time.monotonic() - entry.since

    def trouble(self) -> str | None:
        """Return why events cannot be written: the last commit failed, or this one takes too long."""
        age = self.oldest_age()
        if self.failure is None and age > self._database.deadline / 2:
            return f"an event has been waiting for the database for {age:.1f} s"
        return self.failure

    async def stop(self) -> None:
        """Write the queued events, then end the thread. A database that hangs is abandoned."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        end = time.monotonic() + 2 * self._database.deadline
        while self._thread.is_alive() and time.monotonic() < end:
            await asyncio.sleep(_STOP_POLL_SECONDS)
        self._watcher.cancel()
        if self._thread.is_alive():
            log.error("the database does not answer: the journal was abandoned")

    def _watch(self) -> None:
        """Fail all events if the oldest one has waited for longer than the deadline."""
        deadline = self._database.deadline
        self._watcher = self._loop.call_later(deadline / 4, self._watch)
        reason = f"the database has not answered for {deadline:g} s: retry"
        with self._changed:
            lost = self._give_up(reason) if self.oldest_age() > deadline else []
        if lost:
            log.error("commit takes too long", extra={"reason": reason})
            self._resolve(lost, reason)

    def _resolve(self, entries: Sequence[_QueuedEvents], failure: str | None) -> None:
        for entry in entries:
            if entry.done.done():  # canceled
                continue
            if failure is None:
                entry.done.set_result(None)
            else:
                entry.done.set_exception(StorageError(failure))
                entry.done.exception()  # mark as retrieved: the caller may be gone

    # ---- the thread -----------------------------------------------------------------------------

    def _run(self) -> None:
        while entries := self._next_batch():
            rows = [row for entry in entries for row in entry.rows]
            started = time.perf_counter()
            try:
                if rows:
                    self._database.append(rows)
                elif self._database.partitions is not None:
                    self._database.confirm()
            except RejectedEvents as error:
                self._separate(entries, str(error))
            except Exception as error:  # any error: if this thread ended, all requests would hang
                log.error("commit failed", extra={"events": len(rows), "reason": str(error)})
                self._loop.call_soon_threadsafe(self._resolve, self._give_up(str(error)), str(error))
            else:
                if self._finish(entries):
                    if rows:
                        self._on_commit(len(rows), time.perf_counter() - started)
                    self._loop.call_soon_threadsafe(self._resolve, entries, None)
            if self.failure is not None:
                self._wait_for_database()

    def _next_batch(self) -> list[_QueuedEvents]:
        """Wait for events; return those of the next commit, or an empty list at the end."""
        while True:
            with self._changed:
                if self._separated:
                    self._writing = self._separated.popleft()
                    return self._writing
                while not (self._queue or self._stopping) and self.failure is None:
                    self._changed.wait()
                if self._stopping and not self._queue:
                    return []
            if not self._stopping:
                time.sleep(_GATHER_SECONDS)
            with self._changed:
                entries: list[_QueuedEvents] = []
                capacity = self._max_events
                while self._queue and (not entries or len(self._queue[0].rows) <= capacity):
                    entries.append(self._queue.popleft())
                    capacity -= len(entries[-1].rows)
                self._writing = entries
            if entries:
                return entries
            self._wait_for_database()  # the queued events have failed meanwhile

    def _separate(self, entries: list[_QueuedEvents], failure: str) -> None:
        """Divide a rejected commit: by experiment, then in halves. Fail a single entry and all behind it."""
        with self._changed:
            if self._writing is not entries:
                return  # they have failed already
            self._writing = []
            experiment, half = entries[0].experiment, len(entries) // 2
            own = [entry for entry in entries if entry.experiment == experiment]
            if len(own) < len(entries):
                others = [entry for entry in entries if entry.experiment != experiment]
                self._separated.extendleft((others, own))
                return
            if half:
                self._separated.extendleft((entries[half:], entries[:half]))
                return
            self._rejections[experiment] += 1
            waiting = [entry for group in self._separated for entry in group]
            lost = [*entries, *(one for one in (*waiting, *self._queue) if one.experiment == experiment)]
            kept = ([one for one in group if one.experiment != experiment] for group in self._separated)
            self._separated = deque(group for group in kept if group)
            self._queue = deque(one for one in self._queue if one.experiment != experiment)
            self.depth -= sum(len(entry.rows) for entry in lost)
        log.error("event rejected", extra={"id": experiment, "reason": failure})
        self._loop.call_soon_threadsafe(self._resolve, lost, failure)

    def _finish(self, entries: list[_QueuedEvents]) -> bool:
        """Note that a commit has succeeded; return whether its events have not failed before."""
        with self._changed:
            in_time = self._writing is entries
            if in_time:
                self._writing = []
                self.depth -= sum(len(entry.rows) for entry in entries)
            return in_time

    def _give_up(self, failure: str) -> list[_QueuedEvents]:
        """Start a new generation; return the events that have failed with the old one."""
        with self._changed:
            self._changed.notify()  # the thread may be waiting for events
            self.failures += 1
            self.failure = failure
            separated = [entry for group in self._separated for entry in group]
            lost = [*self._writing, *separated, *self._queue]
            self._separated.clear()
            self._queue.clear()
            self._writing = []
            self.depth = 0
        return lost

    def _wait_for_database(self) -> None:
        """Wait until the database accepts writes again. Until then, all events are rejected."""
        while not self._stopping:
            with self._changed:
                self._changed.wait(_PROBE_SECONDS)
            try:
                self._database.probe()
            except Exception as error:
                self.failure = str(error)
            else:
                self.failure = None
                log.warning("the database accepts events again")
                return
