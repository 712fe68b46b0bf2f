"""The experiments of a process.

Every change takes the same path: acquire the experiment, apply the event to it, submit the event to the
journal, release the experiment, wait until the event is on disk, respond. No response, not even an error,
depends on anything that is not on disk yet. If a commit fails, the experiments in memory are dropped and
loaded again.
"""

import asyncio
import contextlib
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

from msgspec import UNSET

from glcb._api.guardrails import GUARDRAIL
from glcb._api.requests import Creation, ExperimentChanges, ExperimentSettings
from glcb._api.responses import ExperimentInfo
from glcb._errors import GlcbError, InvalidSettings, StorageError
from glcb.bandit.records import random_prefix
from glcb.service.config import ServiceSettings
from glcb.service.core import limits
from glcb.service.core.experiment import CorruptLog, Experiment, encode_request, new_creation
from glcb.service.core.idempotency import RepeatedAnswer
from glcb.service.core.steering import check_settings
from glcb.service.engine import snapshots
from glcb.service.engine.cache import ExperimentCache, LoadedExperiment
from glcb.service.engine.metrics import Metrics
from glcb.service.engine.summaries import (
    broken_experiment_info,
    opening_experiment_info,
    stored_experiment_info,
)
from glcb.service.errors import ApiError, as_api_error
from glcb.service.evaluations.queue import Evaluations
from glcb.service.events import Event
from glcb.service.process.background import log_failures, run_in_thread
from glcb.service.process.clock import Clock, PlausibleClock
from glcb.service.process.metrics import Activity
from glcb.service.storage.database import Database
from glcb.service.storage.journal import Journal
from glcb.service.storage.ownership import partition_of
from glcb.service.views.responses import experiment_info

log = logging.getLogger("glcb.service")
T = TypeVar("T")
_SWEEP_POLL_SECONDS = 0.05


class Engine:
    """The experiments of a database.

    Parameters
    ----------
    database
        Where experiments are stored.
    settings
        The settings of the service.
    clock
        The time of the service; by default, a :class:`PlausibleClock`.
    """

    def __init__(self, database: Database, settings: ServiceSettings, clock: Clock | None = None) -> None:
        self.settings = settings
        self.metrics = Metrics(self)
        self.activity: defaultdict[str, Activity] = defaultdict(Activity)
        self._database = database
        self._clock = clock or PlausibleClock(settings.clock_hold_seconds)
        self._creating = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self.journal = Journal(
            database, max_events=settings.max_commit_events, on_commit=self.metrics.add_commit
        )
        self.cache = ExperimentCache(database, self.journal, settings, self._clock)
        self.evaluations = Evaluations(database, settings, self._clock)

    @property
    def loaded(self) -> dict[str, LoadedExperiment]:
        """The experiments in memory, by name."""
        return self.cache.loaded

    # ---- start, stop and periodic work ----------------------------------------------------------

    async def start(self) -> None:
        """Read the list of experiments. Those with events to replay are opened in the background."""
        await self.cache.start()
        if isinstance(self._clock, PlausibleClock):
            self._clock.start_after(max((row.last_event_at for row in self.cache.rows.values()), default=0.0))
        self._opening = self.run_in_background(self.cache.open_all())
        if self._database.partitions is None:
            await self.evaluations.start()
            self.run_in_background(self._sweep())

    async def adopt(self, partitions: frozenset[int]) -> None:
        """Start to serve the experiments of partitions that this worker owns from now on."""
        added = await self.cache.adopt(partitions)
        await self.evaluations.start({row.id for row in added})
        if 0 in partitions:  # one worker sweeps for all
            self.run_in_background(self._sweep())

    async def release(self, partitions: frozenset[int]) -> None:
        """Save the experiments of partitions, and forget them: another worker will own them.

        Raises
        ------
        StorageError
            Something may still be written for them.
        """
        rows = [row for row in self.cache.rows.values() if partition_of(row.name) in partitions]
        ids = {row.id for row in rows}
        await self.evaluations.cancel(ids, "the experiment has moved to another worker: start it again")
        for row in rows:
            await self.cache.release(row.name)
            self.activity.pop(row.name, None)
        await self.cache.settle_rows()
        if self._database.threads.is_stalled:
            raise StorageError("the database has not answered: retry")
        self.cache.require_storage()
        self._database.forget(ids)

    async def opened(self) -> None:
        """Wait until the experiments that had events to replay at the start are open."""
        await asyncio.wait([self._opening])

    async def stop(self) -> None:
        """Cancel evaluations and replays, write all queued events, and save every experiment that changed."""
        await self.cache.close()
        await self.evaluations.stop()
        for loaded in list(self.loaded.values()):
            if self._database.threads.is_stalled:
                break  # the events on disk are sufficient
            await self.cache.unload(loaded)
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self.journal.stop()

    def run_in_background(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task whose errors go to the log; :meth:`stop` waits for it."""
        task = asyncio.ensure_future(log_failures(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def tick(self) -> None:
        """Settle decisions whose reward timed out, and unload idle experiments. Call it periodically."""
        await self._database.threads.run(self._database.watch)
        for name, loaded in list(self.loaded.items()):
            state = loaded.experiment.state
            can_time_out = state.settings.reward_timeout is not None and state.status != "archived"
            if can_time_out and not loaded.lock.locked():
                with contextlib.suppress(ApiError):  # it is being opened again, or moves to another worker
                    await self.apply_many(name, "settle", [b""])
        if self.cache.unopened and self._opening.done():
            self._opening = self.run_in_background(self.cache.open_all())
        now = time.monotonic()
        for loaded in list(self.loaded.values()):
            if now - loaded.last_used > self.settings.unload_seconds:
                await self.cache.unload(loaded)
        await self.cache.evict_surplus()

    # ---- events and reads -----------------------------------------------------------------------

    async def apply_many(
        self, name: str, kind: str, requests: Sequence[Any], author: str | None = None
    ) -> list[bytes | ApiError]:
        """Apply requests of one kind in order; return an answer or an error for each.

        Parameters
        ----------
        name
            The experiment.
        kind
            The kind of event, such as ``"decide"``.
        requests
            The requests.
        author
            Who changes the experiment; None for decisions and rewards.

        Raises
        ------
        ApiError
            The experiment does not exist, is broken or is being opened, or too many events are queued.
        StorageError
            The events could not be written. None of them has been applied.
        """
        if self.journal.depth > self.settings.max_queued_events:
            raise ApiError("overloaded", "too many events are queued for the disk: retry")
        loaded = await self.cache.acquire(name)
        if kind != "settle":  # which comes from tick(), not from a client
            loaded.last_used = time.monotonic()
        try:
            if self._is_quick(loaded, kind, requests):
                events, results = self._apply(loaded, kind, requests)
            else:
                events, results = await run_in_thread(
                    self._apply_within_limits, loaded, kind, requests, author
                )
            on_disk = self.journal.submit(loaded.generation, loaded.id, events)
        except BaseException:
            self.cache.drop(loaded)  # memory is ahead of the disk
            raise
        finally:
            loaded.lock.release()
        await on_disk
        answers = [
            await self._stored_answer(loaded, result) if isinstance(result, RepeatedAnswer) else result
            for result in results
        ]
        self._count_committed(loaded, name, events)
        return answers

    async def apply(self, name: str, kind: str, request: Any, author: str | None = None) -> bytes:
        """Apply one request; return its answer or raise its error. See :meth:`apply_many`."""
        (result,) = await self.apply_many(name, kind, [request], author)
        if isinstance(result, ApiError):
            raise result
        return result

    def _count_committed(self, loaded: LoadedExperiment, name: str, events: Sequence[Event]) -> None:
        """Count events that are on disk, and take a snapshot if a replay would take long."""
        self.activity[name].events.update(event.kind for event in events)
        if loaded.needs_snapshot(self.settings.snapshot_seconds):
            loaded.is_saving = True
            self.run_in_background(self.cache.save(loaded))

    def _is_quick(self, loaded: LoadedExperiment, kind: str, requests: Sequence[Any]) -> bool:
        """Return whether to apply requests on the event loop, where they block all others.

        This is so for a single decision or reward without candidates, if its experiment is small and has
        applied one before, and few other decisions have to be settled first.
        """
        return (
            len(requests) == 1
            and kind in loaded.quick_kinds
            and (kind != "decide" or requests[0].arms is None)
            and not loaded.experiment.has_backlog(self._clock)
        )

    def _apply_within_limits(
        self, loaded: LoadedExperiment, kind: str, requests: Sequence[Any], author: str | None
    ) -> tuple[list[Event], list[bytes | ApiError | RepeatedAnswer]]:
        with limits.memory(self.settings):
            return self._apply(loaded, kind, requests, author)

    def _apply(
        self, loaded: LoadedExperiment, kind: str, requests: Sequence[Any], author: str | None = None
    ) -> tuple[list[Event], list[bytes | ApiError | RepeatedAnswer]]:
        events: list[Event] = []
        results: list[bytes | ApiError | RepeatedAnswer] = []
        experiment, latest = loaded.experiment, loaded.experiment.state.last_event_at
        started = time.perf_counter()
        for request in requests:
            now = self._clock()
            if now < latest:
                self.metrics.add_clock_regression(latest - now)
            try:
                payload = encode_request(request)
                limits.check(experiment, kind, request, payload, self.settings)
                if kind in ("decide", "rank") and not loaded.is_taken_over:
                    new, answer = self._take_over(loaded, kind, request, now, payload)
                else:
                    event, answer = experiment.apply(kind, request, now, payload, author)
                    new = [] if event is None else [event]
            except GlcbError as error:
                results.append(as_api_error(error))
                continue
            results.append(answer)
            events += new
            if new and kind == "replace_model":
                loaded.is_taken_over = False  # the model has ids of its own
        if events:
            elapsed = time.perf_counter() - started
            loaded.replay_seconds += elapsed
            seconds = elapsed / len(requests)
            loaded.note_event(kind)
            self.metrics.add_events(kind, seconds, len(events))
            if experiment.state.guard is not UNSET:
                events += self._breaches(loaded)
        return events, results

    def _take_over(
        self, loaded: LoadedExperiment, kind: str, request: Any, now: float, payload: bytes
    ) -> tuple[list[Event], bytes | RepeatedAnswer]:
        """Apply the first decision of this process, after an event that gives its ids a prefix of their own.

        The last events may have been lost, or the database replaced by a backup. Their ids must not be issued
        again, or late rewards would count for other decisions.
        """
        undo, takeover = loaded.experiment.take_over(random_prefix(), now)
        try:
            event, answer = loaded.experiment.apply(kind, request, now, payload)
        except GlcbError:
            undo()
            raise
        if event is None:
            undo()
            return [], answer
        loaded.is_taken_over = True
        return [takeover, event], answer

    def _breaches(self, loaded: LoadedExperiment) -> Iterator[Event]:
        """Test the guardrails if there is enough new data; yield an event for each one that breaks."""
        while True:
            loaded.looked, breach = loaded.experiment.find_breach(loaded.looked)
            if breach is None:
                return
            event, _ = loaded.experiment.apply("breach", breach, self._clock(), author=GUARDRAIL)
            assert event is not None  # a breach is always an event
            log.warning("guardrail broken", extra={"experiment": loaded.name, "reason": breach.reason})
            loaded.looked = 0  # test again: another one may break
            yield event

    async def _stored_answer(self, loaded: LoadedExperiment, answer: RepeatedAnswer) -> bytes | ApiError:
        event = await self._database.threads.run(self._database.event, loaded.id, answer.sequence)
        if event is None:
            return ApiError(
                "closed_decision", "the answer to this idempotency key has been pruned: use a new key"
            )
        return event.outcome

    async def read(self, name: str, view: Callable[[Experiment], T]) -> T:
        """Return ``view(experiment)`` once all events that it reflects are on disk."""
        loaded = await self.cache.acquire(name)
        loaded.last_used = time.monotonic()
        try:
            return await run_in_thread(self._view_within_limits, view, loaded.experiment)
        finally:
            loaded.lock.release()
            await self.journal.submit(loaded.generation, loaded.id, ())

    def _view_within_limits(self, view: Callable[[Experiment], T], experiment: Experiment) -> T:
        with limits.memory(self.settings):
            return view(experiment)

    # ---- experiments ----------------------------------------------------------------------------

    async def create(
        self, name: str, settings: ExperimentSettings, author: str | None = None
    ) -> tuple[ExperimentInfo, bool]:
        """Create an experiment, or return the existing one with these settings.

        Returns
        -------
        info : ExperimentInfo
            The experiment.
        is_new : bool
            Whether it was created.

        Raises
        ------
        ApiError
            An experiment with this name has different settings or is being opened, or a limit is exceeded.
        """
        if name in self.cache.unopened:  # do not wait for it with the lock, which others need
            await self.cache.load(name)
        async with self._creating:
            await self.cache.settle_rows()
            if name in self.cache.rows:
                different = await self.read(
                    name, lambda experiment: _differences(experiment.state.creation.settings, settings)
                )
                if different:
                    raise ApiError(
                        "experiment_exists",
                        f"the experiment {name!r} already exists with different settings "
                        f"({', '.join(different)}): choose another name, or change its settings with PATCH",
                    )
                return await self.read(name, experiment_info), False
            limits.check_settings(settings, self.settings)
            existing = len(self.cache.rows)
            if self._database.partitions is not None:
                existing = await self._database.threads.run(self._database.count_experiments)
            if existing >= self.settings.max_experiments:
                raise ApiError("too_many", f"there are already {existing:,} experiments: delete one first")
            self.cache.require_storage()
            experiment, first = await run_in_thread(
                _create, new_creation(name, settings), self._clock(), self.settings, author
            )
            with self.cache.change_of_rows():
                number = await self._database.threads.run(self._database.create, name, first)
            self.cache.add(number, experiment)
            self.activity.pop(name, None)
            return experiment_info(experiment), True

    async def delete(self, name: str, author: str | None = None) -> None:
        """Delete an experiment with its events and snapshots."""
        async with self._creating:
            await self.cache.settle_rows()
            row = self.cache.find(name)
            loaded = await self.cache.forget(name)
            del self.cache.rows[name]  # from here on, no request loads it
            try:
                with self.cache.change_of_rows():
                    await self._database.threads.run(self._database.delete, row.id, self._clock(), author)
            except StorageError:
                self.cache.rows[name] = row  # until the list is read again
                raise
        self.activity.pop(name, None)
        await self.evaluations.cancel({row.id}, "the experiment was deleted")
        # A worker only this one: a snapshot of another one may still be written by its own worker.
        self.run_in_background(self._sweep(None if self._database.partitions is None else row.id, loaded))

    async def _sweep(self, experiment: int | None = None, loaded: LoadedExperiment | None = None) -> None:
        """Remove the rows of deleted experiments, after a snapshot of ``loaded`` that is being written."""
        while loaded is not None and loaded.is_saving:
            await asyncio.sleep(_SWEEP_POLL_SECONDS)
        await self._database.threads.run(self._database.sweep, experiment)

    async def confirm(self) -> None:
        """Wait until everything before is on disk; raise StorageError if this worker has been replaced."""
        await self.journal.submit(self.journal.generation(0), 0, ())

    async def change(
        self, name: str, changes: ExperimentChanges, author: str | None = None
    ) -> ExperimentInfo:
        """Change the settings or the state of an experiment; an archived one is unloaded."""
        await self.apply(name, "change", changes, author)
        info = await self.read(name, experiment_info)
        if info.state == "archived" and name in self.loaded:
            await self.cache.unload(self.loaded[name])
        return info

    async def recover(self, name: str, author: str | None = None) -> ExperimentInfo:
        """Let a damaged experiment continue from its last good state; set the later events aside.

        Raises
        ------
        ApiError
            The experiment is not damaged, or there is no good state. Nothing has changed.
        """
        healthy = ApiError("not_broken", f"the experiment {name!r} is not damaged: nothing has changed")
        try:
            await self.cache.load(name)  # without the lock: a replay can take long
        except ApiError as error:
            if error.code != "experiment_broken":
                raise
        else:
            raise healthy
        row, problem, threads = self.cache.find(name), self.cache.broken.get(name), self._database.threads
        try:
            good = await threads.run(snapshots.last_good, self._database, row.id)
        except CorruptLog as error:
            advice = "restore a backup of the database, or delete the experiment"
            raise ApiError("experiment_broken", f"{name!r} cannot continue: {error}; {advice}") from error
        async with self._creating:
            if problem is None or self.cache.broken.get(name) is not problem:  # another request was faster
                raise healthy
            if good is not None:
                sequence = good.experiment.state.sequence
                with self.cache.change_of_rows():
                    await threads.run(
                        snapshots.set_aside, self._database, row.id, good, self._clock(), author
                    )
                log.warning("experiment recovered", extra={"experiment": name, "sequence": sequence})
            del self.cache.broken[name]
            await self.cache.refresh()
        await self.cache.load(name, wait=True)
        return await self.read(name, experiment_info)

    async def upload(self, name: str, content: bytes, author: str | None = None) -> None:
        """Replace the bandit of an experiment with the one in a model file."""
        await run_in_thread(limits.check_model, content, self.settings)
        await self.apply(name, "replace_model", content, author)

    def count_error(self, name: str | None, error: ApiError) -> None:
        """Count an error response, if its experiment exists."""
        if name in self.cache.rows:
            self.activity[name].errors[error.code] += 1

    def experiment_id(self, name: str) -> int:
        """Return the id of an experiment in the database."""
        return self.cache.find(name).id

    async def list_experiments(self, can_access: Callable[[str], bool]) -> list[ExperimentInfo]:
        """Return the accessible experiments, without loading those that have a snapshot."""
        infos = [await self._info(name) for name in sorted(filter(can_access, self.cache.rows))]
        return [info for info in infos if info is not None]

    async def _info(self, name: str) -> ExperimentInfo | None:
        """Return an experiment for the list, or None if it has been deleted meanwhile."""
        row = self.cache.rows.get(name)
        if row is None:
            return None
        if name in self.cache.broken:
            return broken_experiment_info(row, self.cache.broken[name])
        if name in self.cache.unopened:
            return opening_experiment_info(row, self.cache.progress(row))
        stored = None if name in self.loaded else stored_experiment_info(row)
        if stored is not None:
            return stored
        try:
            return await self.read(name, experiment_info)
        except ApiError as error:
            if error.code in ("unknown_experiment", "experiment_broken"):  # deleted, or found to be damaged
                return await self._info(name)
            return opening_experiment_info(row, self.cache.progress(row))


def _create(
    creation: Creation, now: float, settings: ServiceSettings, author: str | None
) -> tuple[Experiment, Event]:
    """Return a new experiment and its first event; raise InvalidSettings if no snapshot can hold it."""
    check_settings(creation.settings, list(creation.settings.arms))
    with limits.memory(settings):
        experiment, first = Experiment.create(creation, now, author)
    try:
        experiment.snapshot().pack()
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidSettings(f"these settings cannot be stored: {error}") from error
    return experiment, first


def _differences(first: ExperimentSettings, second: ExperimentSettings) -> list[str]:
    """Return the names of the settings that differ."""
    return [name for name in first.__struct_fields__ if getattr(first, name) != getattr(second, name)]
