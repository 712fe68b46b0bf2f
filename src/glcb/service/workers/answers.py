"""What one worker answers for all: the list of experiments, metrics, readiness, and the workers."""

import asyncio
import contextlib
import re
from typing import Any

import msgspec
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from starlette.requests import Request
from starlette.responses import Response

from glcb._api.requests import encode
from glcb._api.responses import Status
from glcb._api.workers import MoveRequest, WorkerChanges, WorkerInfo, WorkerList
from glcb._errors import StorageError
from glcb.service.access.api_keys import ApiKey
from glcb.service.engine.engine import Engine
from glcb.service.errors import ApiError
from glcb.service.http import wire
from glcb.service.http.handlers import Handlers
from glcb.service.http.operations import Operation
from glcb.service.http.personalizer import configured_experiment
from glcb.service.http.wire import Scope
from glcb.service.process.metrics import exposition
from glcb.service.storage.database import Database
from glcb.service.workers import partitions
from glcb.service.workers.forwarding import Broken, NotSent, Peers, Reply
from glcb.service.workers.membership import Membership
from glcb.service.workers.partitions import WorkerRow, find_worker

_WORKERS_PATH = "/v1/workers"
_GATHER_SECONDS = 2.0
"""Time that all workers together have for their parts of an answer."""
_SAMPLE = re.compile(rb"^(\w+)(?:\{(.*)\})? ", re.MULTILINE)


class _Named(msgspec.Struct):
    name: str


class _Experiments(msgspec.Struct):
    """A list of experiments whose details are only passed on."""

    experiments: list[msgspec.Raw]
    missing: tuple[str, ...] = ()


_EXPERIMENTS = msgspec.json.Decoder(_Experiments)
_NAMED = msgspec.json.Decoder(_Named)
_WORKERS = msgspec.json.Decoder(WorkerList)
_CHANGES = msgspec.json.Decoder(WorkerChanges)
_MOVE = msgspec.json.Decoder(MoveRequest)


class WorkerAnswers:
    """Answers requests: as a service that is one process does, or for all workers together.

    Parameters
    ----------
    handlers
        Answers what is about the experiments of this worker.
    engine
        Has these experiments.
    database
        The database.
    membership
        Knows all workers.
    peers
        Asks the others.
    """

    def __init__(
        self, handlers: Handlers, engine: Engine, database: Database, membership: Membership, peers: Peers
    ) -> None:
        self._handlers = handlers
        self._engine = engine
        self._database = database
        self._membership = membership
        self._peers = peers

    def experiment_of(self, key: ApiKey) -> str:
        """Return the experiment of a Personalizer request."""
        name = configured_experiment(self._engine.settings, key)
        if name is None:
            raise ApiError(
                "unknown_experiment",
                "without API keys, Personalizer requests to several workers need an experiment: name one "
                "with `glcb serve --set personalizer_experiment=EXPERIMENT`",
            )
        return name

    def require(self, name: str) -> None:
        """Raise ApiError if there is no such experiment."""
        self._handlers.require(name)

    async def answer(self, operation: Operation, request: Request) -> Response:
        """Answer a request whose body is complete."""
        combined = getattr(self, f"_{operation.name}", None)
        if combined is None:
            return await self._handlers.answer(operation, request)
        if "glcb.inner" not in request.scope:
            response: Response = await combined(operation, request)
            return response
        if operation.name == "list_workers":
            return _json(WorkerList((self._own_info(),)))
        part = await self._handlers.answer(operation, request)
        await self._engine.confirm()  # or it may be outdated
        return part

    async def _ask_others(self, scope: Scope) -> dict[str, Reply | None]:
        """Return what the other workers answer, by name; None for those that do not."""
        others = self._membership.others()

        async def ask(row: WorkerRow) -> Reply | None:
            try:
                reply = await self._peers.ask(row, scope, _GATHER_SECONDS)
            except (NotSent, Broken):
                return None
            return reply if reply.status == 200 else None

        replies = await asyncio.gather(*map(ask, others))
        return {row.name: reply for row, reply in zip(others, replies, strict=True)}

    # ---- experiments ----------------------------------------------------------------------------

    async def _list_all(self, operation: Operation, request: Request) -> Response:
        own, replies = await asyncio.gather(
            self._handlers.answer(operation, request), self._ask_others(request.scope)
        )
        await self._engine.confirm()  # or the own part may be outdated
        parts = [bytes(own.body), *(reply.body for reply in replies.values() if reply is not None)]
        found = {
            _NAMED.decode(one).name: one for part in parts for one in _EXPERIMENTS.decode(part).experiments
        }
        missing: tuple[str, ...] = ()
        answered = {name for name, reply in replies.items() if reply is not None} | {
            self._membership.row.name
        }
        if not all(name in answered for name in self._owners().values()) or self._has_free():
            names = await self._database.threads.run(self._database.experiment_names)
            can_access = request.state.key.can_access
            missing = tuple(name for name in names if name not in found and can_access(name))
        return _json(_Experiments([found[name] for name in sorted(found)], missing))

    def _owners(self) -> dict[int, str]:
        """Return the names of the workers of all partitions that have one."""
        view = self._membership.view
        names = {one.incarnation: one.name for one in view.workers}
        return {number: names[owner.worker] for number, owner in view.owners.items() if owner.worker in names}

    def _has_free(self) -> bool:
        return len(self._owners()) < len(self._membership.view.owners)

    # ---- the service ----------------------------------------------------------------------------

    async def _ready(self, _operation: Operation, request: Request) -> Response:
        """Readiness probe: fail if this worker can neither answer by itself nor ask another one."""
        trouble = self._engine.journal.trouble()
        if trouble is not None and not any((await self._ask_others(request.scope)).values()):
            raise ApiError("storage_unavailable", trouble)
        return _json(Status("ready"))

    async def _metrics(self, operation: Operation, request: Request) -> Response:
        own, replies = await asyncio.gather(
            self._handlers.answer(operation, request), self._ask_others(request.scope)
        )
        texts = {name: reply.body for name, reply in replies.items() if reply is not None}
        texts[self._membership.row.name] = bytes(own.body)
        content = exposition(self._worker_metrics(set(texts))) + merge_metrics(texts)
        return Response(content, media_type="text/plain; version=0.0.4")

    def _worker_metrics(self, answered: set[str]) -> list[Metric]:
        label = ["worker"]
        up = GaugeMetricFamily("glcb_worker_up", "1 if the worker answers.", labels=label)
        owned = GaugeMetricFamily("glcb_worker_partitions", "Partitions of the worker.", labels=label)
        sent = GaugeMetricFamily(
            "glcb_worker_forwarded_requests",
            "Requests that the worker of this answer has forwarded to the worker.",
            labels=label,
        )
        waiting = GaugeMetricFamily(
            "glcb_worker_waiting_requests", "Those that wait for their response.", labels=label
        )
        owners, counts = list(self._owners().values()), self._peers.counts()
        for row in self._membership.view.workers:
            up.add_metric([row.name], int(row.name in answered))
            owned.add_metric([row.name], owners.count(row.name))
            for family, count in zip((sent, waiting), counts.get(row.name, (0, 0)), strict=True):
                family.add_metric([row.name], count)
        return [up, owned, sent, waiting]

    # ---- workers --------------------------------------------------------------------------------

    async def _list_workers(self, _operation: Operation, request: Request, status: int = 200) -> Response:
        with contextlib.suppress(StorageError):  # what is known may be a second old
            await self._membership.refresh()
        asked = {
            "method": "GET",
            "path": _WORKERS_PATH,
            "raw_path": _WORKERS_PATH.encode(),
            "query_string": b"",
        }
        replies = await self._ask_others({**request.scope, **asked})
        infos = {self._membership.row.name: self._own_info()}
        for name, reply in replies.items():
            if reply is not None:
                infos[name] = _WORKERS.decode(reply.body).workers[0]
        view, owners = self._membership.view, self._owners()
        listed = []
        for row in view.workers:
            info = infos.get(row.name) or self._info(row, "away")
            listed.append(info)
        is_open = any(row.advertise is not None for row in view.workers)
        return _json(
            WorkerList(
                tuple(listed),
                {str(number): name for number, name in owners.items()} if is_open else None,
                {str(number): name for number, name in view.pins.items()},
            ),
            status,
        )

    def _own_info(self) -> WorkerInfo:
        row = self._membership.row
        info = self._info(row, "stopping" if row.stopping else "ready")
        return msgspec.structs.replace(
            info,
            experiments=len(self._engine.cache.rows),
            loaded=len(self._engine.loaded),
            trouble=self._engine.journal.trouble(),
        )

    def _info(self, row: WorkerRow, state: Any) -> WorkerInfo:
        view = self._membership.view
        return WorkerInfo(
            name=row.name,
            state=state,
            host=row.host,
            process=row.process,
            partitions=list(self._owners().values()).count(row.name),
            experiments=0,
            loaded=0,
            trouble=None,
            draining=row.name in view.drained,
            restarting=row.restarts < view.restarts,
            url=row.advertise,
        )

    async def _restart_workers(self, operation: Operation, request: Request) -> Response:
        await self._database.threads.run(partitions.restart, self._database)
        return await self._list_workers(operation, request, 202)

    async def _change_worker(self, operation: Operation, request: Request) -> Response:
        name = request.path_params["worker"]
        changes = wire.decode(request.state.content, _CHANGES)
        await self._require_worker(name, changes.draining)
        await self._database.threads.run(partitions.drain, self._database, name, changes.draining)
        return await self._list_workers(operation, request)

    async def _move_experiment(self, operation: Operation, request: Request) -> Response:
        move = wire.decode(request.state.content, _MOVE)
        if move.worker is not None:
            await self._require_worker(move.worker)
        number = await self._database.threads.run(self._database.experiment_id, move.experiment)
        if number is None:
            raise ApiError(
                "unknown_experiment", f"there is no experiment {move.experiment!r}: create it first"
            )
        await self._database.threads.run(partitions.pin, self._database, move.experiment, move.worker)
        return await self._list_workers(operation, request, 202)

    async def _require_worker(self, name: str, must_be_there: bool = True) -> None:
        """Raise ApiError if there is no worker with this name."""
        await self._membership.refresh()
        view = self._membership.view
        if find_worker(view.workers, name) is None and (must_be_there or name not in view.drained):
            names = ", ".join(one.name for one in view.workers if one.is_live)
            raise ApiError("unknown_worker", f"there is no worker {name[:80]!r}: the workers are {names}")


def _json(content: object, status: int = 200) -> Response:
    return Response(encode(content), status, media_type="application/json")


def merge_metrics(texts: dict[str, bytes]) -> bytes:
    r"""Return the metrics of all workers, with the label ``worker``.

    >>> text = b'# TYPE a gauge\na 1.0\n# TYPE b gauge\nb{x="y"} 2.0\n'
    >>> print(merge_metrics({"w-0": text, "w-1": text}).decode())
    # TYPE a gauge
    a{worker="w-0"} 1.0
    a{worker="w-1"} 1.0
    # TYPE b gauge
    b{worker="w-0",x="y"} 2.0
    b{worker="w-1",x="y"} 2.0
    <BLANKLINE>
    """
    families: dict[bytes, list[bytes]] = {}
    for name, text in sorted(texts.items()):
        family = b""
        label = b'worker="%b"' % name.encode()

        def labeled(match: re.Match[bytes], label: bytes = label) -> bytes:
            return b"%b{%b} " % (match[1], b",".join(filter(None, (label, match[2]))))

        for line in text.splitlines():
            if line.startswith(b"#"):
                _, kind, family, *_ = line.split(b" ")
                lines = families.setdefault(family, [])
                if not any(one.startswith(b"# " + kind) for one in lines):
                    lines.append(line)
            else:
                families[family].append(_SAMPLE.sub(labeled, line))
    return b"".join(b"%b\n" % line for lines in families.values() for line in lines)
