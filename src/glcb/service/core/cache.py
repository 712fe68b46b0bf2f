"""Which experiments are in memory: loaded when they are asked for, saved under way, unloaded when idle."""

import asyncio
import contextlib
import logging
import time

from glcb._api.responses import ExperimentInfo
from glcb._errors import GlcbError, StorageError
from glcb.service import views
from glcb.service.config import ServiceSettings
from glcb.service.core.experiment import Damaged, Experiment
from glcb.service.core.live import Live
from glcb.service.core.models import Frozen
from glcb.service.core.restore import restore
from glcb.service.errors import Problem
from glcb.service.storage import saving
from glcb.service.storage.journal import Journal
from glcb.service.storage.storage import Known, Storage
from glcb.service.work import in_thread

log = logging.getLogger("glcb.service")


class ExperimentCache:
    """Experiments that the database knows, and those of them that are loaded."""

    def __init__(self, storage: Storage, journal: Journal, settings: ServiceSettings) -> None:
        self.known: dict[str, Known] = {}
        self.loaded: dict[str, Live] = {}
        self._storage = storage
        self._journal = journal
        self._settings = settings
        self._loading: dict[str, asyncio.Task[Live]] = {}
        self.broken: dict[str, str] = {}
        """Why an experiment cannot be loaded, however often one tries."""

    async def look_up(self) -> None:
        """Ask the database which experiments there are."""
        self.known = {known.name: known for known in await in_thread(self._storage.known)}

    async def restore(self) -> None:
        """Load every experiment that has events which no snapshot contains, and take one."""
        for name, known in list(self.known.items()):
            if known.last > known.snapshot:
                with contextlib.suppress(GlcbError):  # it is in the log, and the others are well
                    await self._load_and_save(name)
                await self.make_room()

    async def _load_and_save(self, name: str) -> None:
        live = await self._load(name)
        try:
            await self.save(live)
        except Exception as error:
            self.drop(live)
            self.broken[name] = _told(error)
            log.exception("experiment cannot be saved", extra={"experiment": name})

    def find(self, name: str) -> Known:
        """Return what the database knows of an experiment."""
        known = self.known.get(name)
        if known is None:
            raise Problem("unknown_experiment", f"there is no experiment {name!r}: create it first")
        return known

    def refuse_in_trouble(self) -> None:
        """Refuse what would have to be written, if nothing can be."""
        if self._journal.trouble is not None:
            raise StorageError(self._journal.trouble)

    def add(self, number: int, experiment: Experiment) -> None:
        """Take in a new experiment."""
        live = Live(number, experiment, self._journal.generation, 0)
        self.known[live.name] = Known(number, live.name, 1, 0, b"")
        self.loaded[live.name] = live

    async def hold(self, name: str) -> Live:
        """Return an experiment that is ours alone until its lock is released."""
        while True:
            live = self.loaded.get(name) or await self._load(name)
            await live.lock.acquire()
            if not live.gone and live.generation == self._journal.generation:
                return live
            self.drop(live)
            live.lock.release()

    async def forget(self, name: str) -> Live | None:
        """Drop an experiment that is to be deleted, when nothing of it is under way any more."""
        last = None
        while name in self._loading or name in self.loaded:  # again, if somebody loads it meanwhile
            if name in self._loading:
                await asyncio.wait([self._loading[name]])
            live = self.loaded.get(name)
            if live is not None:
                async with live.lock:
                    with contextlib.suppress(StorageError):  # whatever is lost would be deleted anyway
                        await self._journal.put(live.generation, live.id, ())
                    self.drop(live)
                last = live
        self.broken.pop(name, None)
        return last

    async def _load(self, name: str) -> Live:
        known = self.find(name)
        if name in self.broken:
            raise self._refusal(name)
        task = self._loading.get(name)
        if task is None:
            task = self._loading[name] = asyncio.ensure_future(self._restored(known))
            task.add_done_callback(lambda _: self._loading.pop(name, None))
        return await asyncio.shield(task)

    async def _restored(self, known: Known) -> Live:
        self.refuse_in_trouble()
        generation = self._journal.generation
        await self._journal.put(generation, known.id, ())  # what is under way belongs to it
        began = time.perf_counter()
        try:
            experiment, saved = await in_thread(restore, self._storage, known.id)
        except Exception as error:
            why = _told(error)
            log.error("experiment cannot be loaded", extra={"experiment": known.name, "why": why})
            if isinstance(error, StorageError) and not isinstance(error, Damaged):
                raise  # the database cannot be read, which may be over soon
            self.broken[known.name] = why
            raise self._refusal(known.name) from error
        live = Live(known.id, experiment, generation, saved)
        self.loaded[known.name] = live
        log.info(
            "experiment loaded",
            extra={
                "experiment": known.name,
                "sequence": experiment.around.sequence,
                "replayed": live.unsaved,
                "seconds": round(time.perf_counter() - began, 3),
            },
        )
        return live

    def _refusal(self, name: str) -> Problem:
        """Return a new one each time: an error keeps hold of whatever it was raised through."""
        return Problem(
            "experiment_broken",
            f"the experiment {name!r} cannot be loaded: {self.broken[name]}; use an earlier copy of the "
            "data, or delete it",
        )

    def drop(self, live: Live) -> None:
        """Let an experiment leave the memory as it is; what is not on disk is lost."""
        live.gone = True
        if self.loaded.get(live.name) is live:
            del self.loaded[live.name]

    async def save(self, live: Live) -> None:
        """Take a snapshot while others go on, and write it when all it contains is on disk."""
        try:
            async with live.lock:
                if live.gone or live.generation != self._journal.generation:
                    return
                live.tried = live.experiment.around.sequence
                frozen = await in_thread(live.experiment.freeze)
                view = views.experiment(live.experiment)
                done = self._journal.put(live.generation, live.id, ())
            await done
            await self._write(live, frozen, view)
        except StorageError as error:
            self._not_saved(live, error)
        finally:
            live.saving = False

    async def unload(self, live: Live) -> None:
        """Let an experiment leave the memory, when everything of it is on disk."""
        async with live.lock:
            if live.gone:
                return
            try:
                await self._journal.put(live.generation, live.id, ())
                if live.unsaved:
                    frozen = await in_thread(live.experiment.freeze)
                    await self._write(live, frozen, views.experiment(live.experiment))
            except Exception as error:  # whatever it is, the others have to be unloaded too
                self._not_saved(live, error)
            self.drop(live)

    async def _write(self, live: Live, frozen: Frozen, view: ExperimentInfo) -> None:
        await in_thread(saving.save, self._storage, live.id, frozen, view, self._settings)
        live.saved = max(live.saved, frozen.sequence)
        known = self.known.get(live.name)
        if known is not None and known.id == live.id:
            self.known[live.name] = known._replace(snapshot=frozen.sequence, summary=views.encoded(view))

    def _not_saved(self, live: Live, error: Exception) -> None:
        """Tell it to the log only: the events are there, and will do until the next snapshot."""
        log.error("no snapshot", extra={"experiment": live.name, "why": _told(error)})

    async def make_room(self) -> None:
        """Unload those that were not asked for longest, if there are too many."""
        by_use = sorted(self.loaded.values(), key=lambda live: live.used)
        for live in by_use[: max(0, len(by_use) - self._settings.max_loaded)]:
            await self.unload(live)


def _told(error: Exception) -> str:
    """Return what went wrong; only our own errors say it in words that need nothing else."""
    return str(error) if isinstance(error, GlcbError) else f"{type(error).__name__}: {error}"
