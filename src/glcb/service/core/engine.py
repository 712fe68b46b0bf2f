"""What happens to the experiments of a process.

Every change goes the same way: hold the experiment, apply the event to it, hand the event to the journal, let
go, wait until it is on disk, answer. Nothing is answered, not even a refusal, that rests on something that is
not on disk yet. If the disk fails, memory is thrown away and loaded again from what is there.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from glcb._api.requests import Changes, Settings
from glcb._api.responses import ExperimentInfo
from glcb._errors import GlcbError, StorageError
from glcb.service import views
from glcb.service.config import ServiceSettings
from glcb.service.core import limits
from glcb.service.core.cache import ExperimentCache
from glcb.service.core.experiment import Experiment, new_creation
from glcb.service.core.idempotency import Recall
from glcb.service.core.live import Activity, Live
from glcb.service.errors import Problem, as_problem
from glcb.service.metrics import Metrics
from glcb.service.storage.journal import Journal
from glcb.service.storage.storage import Event, Storage
from glcb.service.work import in_thread, logged

T = TypeVar("T")

_AT_ONCE = 8
"""More events than this in one request are applied in a thread, so that others need not wait for all."""


class Engine:
    """The experiments of a database."""

    def __init__(
        self, storage: Storage, settings: ServiceSettings, clock: Callable[[], float] = time.time
    ) -> None:
        self.settings = settings
        self.metrics = Metrics(self)
        self.activity: defaultdict[str, Activity] = defaultdict(Activity)
        self._storage = storage
        self._clock = clock
        self._creating = asyncio.Lock()
        self._stale = False
        self._tasks: set[asyncio.Task[None]] = set()
        self.journal = Journal(storage, most=settings.commit_events, committed=self.metrics.committed)
        self.memory = ExperimentCache(storage, self.journal, settings)

    @property
    def loaded(self) -> dict[str, Live]:
        """The experiments in memory."""
        return self.memory.loaded

    # ---- beginning and end ----------------------------------------------------------------------

    async def start(self) -> None:
        """Restore every experiment that has events which no snapshot contains."""
        await self.memory.look_up()
        await self.memory.restore()
        self.background(self._sweep(None))

    async def stop(self) -> None:
        """Write what is under way, and a snapshot of whatever has changed."""
        for live in list(self.loaded.values()):
            await self.memory.unload(live)
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self.journal.stop()

    def background(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something without waiting for it; trouble goes to the log."""
        task = asyncio.ensure_future(logged(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def tick(self) -> None:
        """Settle what is due, and unload what is idle; called every few seconds."""
        for name, live in list(self.loaded.items()):
            around = live.experiment.around
            waits = around.settings.reward_timeout is not None and around.state != "archived"
            if waits and not live.lock.locked():
                await self.happen(name, "settle", [b""])
        now = time.monotonic()
        for live in list(self.loaded.values()):
            if now - live.used > self.settings.unload_seconds:
                await self.memory.unload(live)
        await self.memory.make_room()

    # ---- events ---------------------------------------------------------------------------------

    async def happen(self, name: str, kind: str, requests: Sequence[Any]) -> list[bytes | Problem]:
        """Let things happen to an experiment, one after the other; return an answer or a refusal for each."""
        if self.journal.depth > self.settings.max_queue:
            raise Problem("overloaded", "the disk cannot keep up: try again")
        live = await self.memory.hold(name)
        if kind != "settle":  # which nobody asks for
            live.used = time.monotonic()
        try:
            if len(requests) <= _AT_ONCE and live.quick:
                events, results = self._applied(live, kind, requests)
            else:
                events, results = await in_thread(self._applied, live, kind, requests)
            done = self.journal.put(live.generation, live.id, events)
        except BaseException:
            self.memory.drop(live)  # what is in memory now is not on disk
            raise
        finally:
            live.lock.release()
        await done
        self.activity[name].happened[kind] += len(events)
        answers = [
            await self._recalled(live, result) if isinstance(result, Recall) else result for result in results
        ]
        if live.is_due(self.settings.snapshot_events):
            live.saving = True
            self.background(self.memory.save(live))
        return answers

    async def happens(self, name: str, kind: str, request: Any) -> bytes:
        """Let one thing happen; return the answer, or raise the refusal."""
        (result,) = await self.happen(name, kind, [request])
        if isinstance(result, Problem):
            raise result
        return result

    def _applied(
        self, live: Live, kind: str, requests: Sequence[Any]
    ) -> tuple[list[Event], list[bytes | Problem | Recall]]:
        events: list[Event] = []
        results: list[bytes | Problem | Recall] = []
        experiment, latest = live.experiment, live.experiment.around.latest
        for request in requests:
            now = self._clock()
            if now < latest:
                self.metrics.clock_went_back(latest - now)
            began, busy = time.perf_counter(), time.thread_time()
            try:
                limits.check(experiment, kind, request, self.settings)
                event, answer = experiment.apply(kind, request, now)
            except GlcbError as error:
                results.append(as_problem(error))
                continue
            live.took(time.thread_time() - busy)
            self.metrics.applied(kind, time.perf_counter() - began)
            results.append(answer)
            if event is not None:
                events.append(event)
        return events, results

    async def _recalled(self, live: Live, recall: Recall) -> bytes | Problem:
        """Return what was answered before."""
        before = await in_thread(self._storage.event, live.id, recall.sequence)
        if before is None:
            return Problem("closed_decision", "the answer to this key is no longer on record: use a new key")
        return before.outcome

    async def look(self, name: str, view: Callable[[Experiment], T]) -> T:
        """Return what ``view`` sees of an experiment, when all of that is on disk."""
        live = await self.memory.hold(name)
        live.used = time.monotonic()
        try:
            return await in_thread(view, live.experiment)
        finally:
            live.lock.release()
            await self.journal.put(live.generation, live.id, ())

    # ---- experiments come and go ----------------------------------------------------------------

    async def create(self, name: str, settings: Settings) -> tuple[ExperimentInfo, bool]:
        """Return an experiment with these settings, and whether it is new."""
        async with self._creating:
            if self._stale:
                await self.memory.look_up()
                self._stale = False
            if name in self.memory.known:
                other = await self.look(
                    name, lambda experiment: _differing(experiment.around.creation.settings, settings)
                )
                if other:
                    raise Problem(
                        "experiment_exists",
                        f"there is an experiment {name!r} with other settings ({', '.join(other)}): "
                        "choose another name",
                    )
                return await self.look(name, views.experiment), False
            limits.check_settings(settings, self.settings)
            if len(self.memory.known) >= self.settings.max_experiments:
                raise Problem(
                    "too_many", f"there are {len(self.memory.known):,} experiments already: delete one first"
                )
            self.memory.refuse_in_trouble()
            experiment, first = await in_thread(
                Experiment.create, new_creation(name, settings), self._clock()
            )
            self._stale = True  # until it is certain what the database holds
            number = await in_thread(self._storage.create, name, first)
            self._stale = False
            self.memory.add(number, experiment)
            self.activity.pop(name, None)
            return views.experiment(experiment), True

    async def delete(self, name: str) -> None:
        """Remove an experiment and everything of it."""
        async with self._creating:
            known = self.memory.find(name)
            live = await self.memory.forget(name)
            del self.memory.known[name]  # from now on nobody loads it
            try:
                await in_thread(self._storage.delete, known.id)
            except StorageError:
                self.memory.known[name] = known
                raise
        self.activity.pop(name, None)
        self.background(self._sweep(live))

    async def _sweep(self, live: Live | None) -> None:
        """Remove what is left of a deleted experiment, also the snapshot that was being taken of it."""
        while live is not None and live.saving:
            await asyncio.sleep(0.05)
        await asyncio.to_thread(self._storage.sweep)

    async def change(self, name: str, changes: Changes) -> ExperimentInfo:
        """Change settings or the state of an experiment; an archived one leaves the memory."""
        await self.happens(name, "change", changes)
        view = await self.look(name, views.experiment)
        if view.state == "archived" and name in self.loaded:
            await self.memory.unload(self.loaded[name])
        return view

    async def upload(self, name: str, content: bytes) -> None:
        """Put the bandit of a model file in the place of the experiment's own."""
        await in_thread(limits.check_model, content, self.settings)
        await self.happens(name, "upload", content)

    def refused(self, name: str | None, problem: Problem) -> None:
        """Count a refusal, if it is one of an experiment that there is."""
        if name in self.memory.known:
            self.activity[name].refused[problem.code] += 1

    def number(self, name: str) -> int:
        """Return the number under which the database has an experiment."""
        return self.memory.find(name).id

    async def listed(self, allowed: Callable[[str], bool]) -> list[ExperimentInfo]:
        """Return all experiments that are allowed to be seen; none with a snapshot is loaded for it."""
        found = [await self._listed(name) for name in sorted(filter(allowed, self.memory.known))]
        return [view for view in found if view is not None]

    async def _listed(self, name: str) -> ExperimentInfo | None:
        """Return an experiment as the list shows it, or None if it was deleted meanwhile."""
        known = self.memory.known.get(name)
        if known is None:
            return None
        if name in self.memory.broken:
            return views.broken(known, self.memory.broken[name])
        kept = None if name in self.loaded else views.parsed(known.summary)
        if kept is not None:
            return kept
        try:
            return await self.look(name, views.experiment)
        except Problem:  # it is deleted now, or known to be broken
            return await self._listed(name)


def _differing(ones: Settings, others: Settings) -> list[str]:
    """Return the names of the settings that differ."""
    return [name for name in ones.__struct_fields__ if getattr(ones, name) != getattr(others, name)]
