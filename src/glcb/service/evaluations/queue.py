"""The evaluations of a service: one runs at a time, in a process of its own, and the others wait."""

import asyncio
import contextlib
import logging
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import Counter
from collections.abc import Container
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import UNSET

from glcb._api.requests import EvaluationRequest, ExperimentSettings, encode
from glcb._api.responses import EvaluationInfo, EvaluationList, EvaluationResult
from glcb._errors import GlcbError, StorageError
from glcb.service.config import ServiceSettings
from glcb.service.core import limits
from glcb.service.errors import ApiError
from glcb.service.evaluations import policies, worker
from glcb.service.evaluations.worker import Job, Message
from glcb.service.process.background import run_in_thread
from glcb.service.process.clock import Clock
from glcb.service.storage import evaluations as stored
from glcb.service.storage.database import Database
from glcb.service.storage.evaluations import EvaluationRow

log = logging.getLogger("glcb.service")

_INFO = msgspec.json.Decoder(EvaluationInfo)
_MESSAGE = msgspec.json.Decoder(Message)
_RESULT = msgspec.json.Decoder(EvaluationResult)
_MAX_MESSAGE_BYTES = 64 << 20
_RETRY_SECONDS = 1.0
"""Pause before the outcome of an evaluation is stored again, if the database was unavailable."""


class _Failed(GlcbError):
    """An evaluation failed."""


class _QueuedEvaluation:
    """An evaluation that is queued or running."""

    def __init__(self, info: EvaluationInfo, job: Job) -> None:
        self.info = info
        self.job = job
        self.task: asyncio.Task[None] | None = None
        self.reason = ""
        """Why it was canceled."""
        self.is_over = False
        """Whether its process has ended, although its outcome may not be stored yet."""

    def cancel(self, reason: str) -> bool:
        """Cancel the evaluation; return False if it is over already."""
        if self.is_over or self.task is None:
            return False
        self.reason = reason
        return self.task.cancel()


class Evaluations:
    """The evaluations of all experiments.

    Parameters
    ----------
    database
        Where they are stored.
    settings
        The limits of the service.
    clock
        The time of the service.
    """

    def __init__(self, database: Database, settings: ServiceSettings, clock: Clock) -> None:
        self._database = database
        self._settings = settings
        self._clock = clock
        self._active: dict[int, _QueuedEvaluation] = {}
        self._turn = asyncio.Lock()
        self._submitting = asyncio.Lock()
        self._stopping = False
        self.outcomes: Counter[str] = Counter()
        """Number of evaluations since the start, by final state."""

    @property
    def active(self) -> int:
        """Number of evaluations that are queued or running."""
        return len(self._active)

    # ---- start and stop -------------------------------------------------------------------------

    async def start(self, experiments: Container[int] | None = None) -> None:
        """Mark the evaluations that were queued or running when the service crashed as failed.

        Parameters
        ----------
        experiments
            The ids of the experiments that this worker has adopted; None for all experiments.
        """
        for row in await self._run(stored.unfinished):
            if experiments is not None and row.experiment not in experiments:
                continue
            content = row.info
            if (info := _decode(row)) is not None:
                content = encode(
                    self._ended(info, "failed", "the service ended unexpectedly: start it again")
                )
            await self._run(stored.save, row.id, "failed", content)

    async def stop(self) -> None:
        """Cancel all evaluations."""
        self._stopping = True
        await self._cancel(list(self._active.values()), "the service was stopped: start it again")

    async def cancel(self, experiments: Container[int], reason: str) -> None:
        """Cancel the evaluations of some experiments."""
        own = [entry for entry in self._active.values() if entry.job.experiment in experiments]
        await self._cancel(own, reason)

    async def _cancel(self, entries: list[_QueuedEvaluation], reason: str) -> None:
        for entry in entries:
            entry.cancel(reason)
        tasks = [entry.task for entry in entries if entry.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=self._database.deadline)

    # ---- requests -------------------------------------------------------------------------------

    async def submit(
        self, experiment: int, settings: ExperimentSettings, request: EvaluationRequest
    ) -> EvaluationInfo:
        """Queue an evaluation.

        Parameters
        ----------
        experiment
            The id of the experiment.
        settings
            Its settings.
        request
            What to evaluate.

        Raises
        ------
        GlcbError
            The request is invalid, too many evaluations are queued, or the evaluation cannot be stored.
        """
        async with self._submitting:
            if self.active >= self._settings.max_evaluations:
                raise ApiError(
                    "too_many",
                    f"there can be at most {self._settings.max_evaluations} queued and running evaluations: "
                    "wait until one has finished, or cancel one",
                )
            planned = await run_in_thread(self._plan, request, settings)
            info = EvaluationInfo(id=0, state="queued", created_at=self._time(), request=request)
            number = await self._run(
                stored.add, experiment, info.state, encode(info), self._settings.keep_evaluations
            )
            job = Job(
                url=self._database.url.render_as_string(hide_password=False),
                deadline=self._database.deadline,
                experiment=experiment,
                now=self._clock(),
                request=request,
                policies=planned,
                settings=settings,
                max_model_memory=self._settings.max_model_memory,
            )
            entry = _QueuedEvaluation(msgspec.structs.replace(info, id=number), job)
            self._active[number] = entry
            entry.task = asyncio.ensure_future(self._process(entry))
            await asyncio.sleep(0)  # a task that is canceled before its first step would store nothing
        return entry.info

    def _plan(self, request: EvaluationRequest, settings: ExperimentSettings) -> dict[str, policies.Planned]:
        with limits.memory(self._settings):
            return policies.plan(request, settings, self._settings)

    async def show(self, experiment: int, number: int) -> bytes:
        """Return an encoded ``EvaluationInfo``; raise ApiError if there is none."""
        entry = self._active.get(number)
        if entry is not None and entry.job.experiment == experiment:
            return encode(entry.info)
        content: bytes | None = await self._run(_load, experiment, number)
        if content is None:
            raise _unknown(number)
        return content

    async def page(self, experiment: int, before: int | None, limit: int) -> EvaluationList:
        """Return the evaluations of an experiment with ids below ``before``, newest first."""
        rows = await self._run(stored.page, experiment, before, limit + 1)
        infos = (
            self._active[row.id].info if row.id in self._active else _decode(row) for row in rows[:limit]
        )
        readable = tuple(info for info in infos if info is not None)
        return EvaluationList(readable, rows[limit - 1].id if len(rows) > limit else None)

    async def remove(self, experiment: int, number: int) -> None:
        """Cancel an evaluation, or delete one that is over; raise ApiError if there is none."""
        entry = self._active.get(number)
        if entry is not None and entry.job.experiment == experiment and entry.cancel("it was canceled"):
            assert entry.task is not None
            await asyncio.wait([entry.task], timeout=self._database.deadline)
            return
        if await self._run(stored.load, experiment, number) is None:
            raise _unknown(number)
        await self._run(stored.remove, number)

    # ---- running --------------------------------------------------------------------------------

    async def _process(self, entry: _QueuedEvaluation) -> None:
        """Wait for the turn of an evaluation, run it and store its outcome."""
        result: bytes | None = None
        try:
            async with self._turn:
                entry.info = msgspec.structs.replace(entry.info, state="running", started_at=self._time())
                message = await self._evaluate(entry)
            assert message.result is not UNSET
            result = bytes(message.result)
            info = self._ended(entry.info, "finished")
            info = msgspec.structs.replace(info, conclusion=message.conclusion, level=message.level)
        except asyncio.CancelledError:
            info = self._ended(entry.info, "canceled", entry.reason)
        except _Failed as error:
            info = self._ended(entry.info, "failed", str(error))
        except Exception as error:
            log.exception("evaluation failed")
            info = self._ended(entry.info, "failed", f"{type(error).__name__}: {error}")
        entry.is_over = True
        try:
            await self._store(info, result)
        finally:
            self.outcomes[info.state] += 1
            del self._active[info.id]

    async def _evaluate(self, entry: _QueuedEvaluation) -> Message:
        """Run the process of an evaluation; return its last message."""
        try:
            process = await asyncio.create_subprocess_exec(
                *worker.COMMAND,
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                env={**os.environ, **worker.ENVIRONMENT},
                limit=_MAX_MESSAGE_BYTES,
                start_new_session=True,  # Ctrl-C in a terminal stops the service, which then ends the process
            )
        except OSError as error:
            raise _Failed(f"its process cannot be started: {error.strerror or error}") from error
        try:
            return await self._converse(entry, process)
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            assert process.stdin is not None
            process.stdin.close()
            await process.wait()

    async def _converse(self, entry: _QueuedEvaluation, process: Process) -> Message:
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(ConnectionError):  # it has ended already
            process.stdin.write(encode(entry.job) + b"\n")
            await process.stdin.drain()
        while line := await process.stdout.readline():
            message = _MESSAGE.decode(line)
            if message.trace:
                log.error("evaluation failed", extra={"id": entry.info.id, "trace": message.trace})
            if message.failure is not None:
                raise _Failed(message.failure)
            if message.result is not UNSET:
                return message
            entry.info = msgspec.structs.replace(entry.info, progress=message.progress)
        raise _Failed(_death(await process.wait()))

    async def _store(self, info: EvaluationInfo, result: bytes | None) -> None:
        """Store the outcome of an evaluation, as soon as the database is available."""
        while True:
            try:
                await self._run(stored.save, info.id, info.state, encode(info), result)
                return
            except StorageError as error:
                log.warning("cannot store an evaluation", extra={"id": info.id, "reason": str(error)})
            if self._stopping:
                return
            await asyncio.sleep(_RETRY_SECONDS)

    def _ended(self, info: EvaluationInfo, state: Any, reason: str | None = None) -> EvaluationInfo:
        return msgspec.structs.replace(
            info, state=state, finished_at=self._time(), progress=None, reason=reason
        )

    def _time(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)

    async def _run(self, function: Any, *arguments: Any) -> Any:
        """Call a function of ``storage.evaluations`` in a thread."""
        return await self._database.threads.run(function, self._database, *arguments)


def _decode(row: EvaluationRow) -> EvaluationInfo | None:
    """Return what is stored about an evaluation, or None if it is damaged."""
    try:
        return msgspec.structs.replace(_INFO.decode(row.info), id=row.id)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        log.error("an evaluation is damaged", extra={"id": row.id, "reason": str(error)})
        return None


def _load(database: Database, experiment: int, number: int) -> bytes | None:
    """Return an encoded ``EvaluationInfo`` with its result, or None."""
    row = stored.load(database, experiment, number)
    if row is None:
        return None
    try:
        result = None if row.result is None else _RESULT.decode(row.result)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged(number) from error
    if (info := _decode(row)) is None:
        raise _damaged(number)
    return encode(msgspec.structs.replace(info, result=result))


def _damaged(number: int) -> ApiError:
    return ApiError(
        "experiment_broken",
        f"the stored data of evaluation {number} is damaged: delete it, and start it again",
    )


def _unknown(number: int) -> ApiError:
    return ApiError("unknown_evaluation", f"the experiment has no evaluation {number}")


def _death(code: int) -> str:
    """Return why a process ended without a result."""
    if code >= 0:
        return f"its process ended with the status {code}"
    with contextlib.suppress(ValueError):
        return f"its process was killed by {signal.Signals(-code).name}, perhaps because memory ran out"
    return f"its process was killed by the signal {-code}"
