"""Requests other than single decisions: forwarded to the shard of their experiment, or combined."""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from starlette.requests import Request
from starlette.responses import Response

from glcb._api.requests import encode
from glcb._api.responses import Status
from glcb._api.shards import NodeChanges, NodeInfo, ShardList
from glcb.service.access.api_keys import ApiKey
from glcb.service.errors import ApiError
from glcb.service.http import wire
from glcb.service.http.admission import Admission
from glcb.service.http.handlers import export_response, openapi_document
from glcb.service.http.operations import Operation
from glcb.service.http.personalizer import configured_experiment
from glcb.service.http.static import pages
from glcb.service.process.background import log_failures
from glcb.service.process.metrics import exposition
from glcb.service.shards.cluster import Cluster
from glcb.service.shards.messages import Call
from glcb.service.shards.plan import Node, ShardPlan, drained, plan_drain, plan_restart, stored_plan
from glcb.service.storage.database import Database

if TYPE_CHECKING:
    from glcb.service.shards.front_end import Shards

_READ_SECONDS = 2.0
"""Time that Ray has to list the nodes, and PostgreSQL to return the plan."""
T = TypeVar("T")
_SAMPLE = re.compile(rb"^(\w+)(?:\{(.*)\})? ", re.MULTILINE)


class _Named(msgspec.Struct):
    name: str


class _Experiments(msgspec.Struct):
    """A list of experiments whose details are only passed on."""

    experiments: list[msgspec.Raw]


_EXPERIMENTS = msgspec.json.Decoder(_Experiments)
_NAMED = msgspec.json.Decoder(_Named)
_NODE_CHANGES = msgspec.json.Decoder(NodeChanges)


class LastKnown(Generic[T]):
    """What a function returned last, for as long as it fails or hangs. It is not called again while it hangs.

    Parameters
    ----------
    function
        The function.
    value
        The value before the first result.
    """

    def __init__(self, function: Callable[[], Coroutine[Any, Any, T]], value: T) -> None:
        self._function = function
        self._value = value
        self._reading: asyncio.Task[None] | None = None

    async def read(self) -> T:
        """Return the current value, or the last known one."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.ensure_future(log_failures(self._refresh()))
        await asyncio.wait([self._reading], timeout=_READ_SECONDS)
        return self._value

    async def _refresh(self) -> None:
        self._value = await self._function()


class ShardAnswers:
    """Answers requests by means of the shards.

    Parameters
    ----------
    shards
        The shards.
    storage
        The database, for exports.
    admission
        Limits exports.
    cluster
        Knows the nodes.
    """

    def __init__(self, shards: "Shards", storage: Database, admission: Admission, cluster: Cluster) -> None:
        self._shards = shards
        self._storage = storage
        self._admission = admission
        self._nodes = LastKnown[list[Node]](lambda: asyncio.to_thread(cluster.nodes), [])
        self._plan = LastKnown(lambda: storage.threads.run(stored_plan, storage), ShardPlan())

    def experiment_of(self, key: ApiKey) -> str:
        """Return the experiment of a Personalizer request."""
        name = configured_experiment(self._shards.settings, key)
        if name is None:
            raise ApiError(
                "unknown_experiment",
                "without API keys, Personalizer requests to a service with shards need an experiment: name "
                "one with `glcb serve --set personalizer_experiment=EXPERIMENT`",
            )
        return name

    def require(self, name: str) -> None:
        """Do nothing: the shard of the experiment knows whether it exists."""

    async def answer(self, operation: Operation, request: Request) -> Response:
        """Answer a request whose body is complete."""
        own = getattr(self, f"_{operation.name}", None)
        if own is not None:
            response: Response = await own(request)
            return response
        name = request.scope["glcb.experiment"]
        return (await self._shards.of(name).perform(Call.of(operation.name, request))).response()

    async def _list_all(self, request: Request) -> Response:
        parts = await self._ask_all("list_all", request)
        infos = [one for part in parts for one in _EXPERIMENTS.decode(part).experiments]
        infos.sort(key=lambda info: _NAMED.decode(info).name)
        return Response(encode(_Experiments(infos)), media_type="application/json")

    async def _ask_all(self, operation: str, request: Request) -> list[bytes]:
        call = Call.of(operation, request)
        replies = await asyncio.gather(*(client.perform(call) for client in self._shards.clients))
        return [reply.content for reply in replies]

    async def _export(self, request: Request) -> Response:
        name = request.path_params["name"]
        number = await self._storage.threads.run(self._storage.experiment_id, name)
        if number is None:
            raise ApiError("unknown_experiment", f"there is no experiment {name!r}: create it first")
        return export_response(self._storage, number, request, self._admission)

    # ---- shards and nodes -----------------------------------------------------------------------

    async def _list_shards(self, _request: Request) -> Response:
        return await self._shard_list(await self._plan.read())

    async def _restart_shards(self, _request: Request) -> Response:
        settings, count = self._shards.settings, len(self._shards.clients)
        plan = await self._storage.threads.run(plan_restart, self._storage, count, settings)
        return await self._shard_list(plan, 202)

    async def _change_node(self, request: Request) -> Response:
        name: str = request.path_params["node"]
        changes = wire.decode(request.state.content, _NODE_CHANGES)
        found = [node for node in await self._nodes.read() if node.is_called(name)]
        if len(found) != 1:
            raise ApiError(
                "unknown_node",
                f"{len(found)} nodes have the id, address or host {name[:80]!r}: name one by its id, which "
                "GET /v1/shards lists",
            )
        (node,) = found
        plan = await self._storage.threads.run(plan_drain, self._storage, node.id, changes.draining)
        (info,) = self._node_infos([node], plan)
        return Response(encode(info), media_type="application/json")

    async def _shard_list(self, plan: ShardPlan, status: int = 200) -> Response:
        wanted = plan.generations
        shards = tuple(client.info(wanted.get(client.number, 0)) for client in self._shards.clients)
        listed = ShardList(shards, self._node_infos(await self._nodes.read(), plan))
        return Response(encode(listed), status, media_type="application/json")

    def _node_infos(self, nodes: list[Node], plan: ShardPlan) -> tuple[NodeInfo, ...]:
        leaving = drained(nodes, plan)
        pulses = (client.pulse for client in self._shards.clients)
        counts = Counter(pulse.node for pulse in pulses if pulse is not None)
        return tuple(
            NodeInfo(
                id=node.id,
                address=node.address,
                host=node.host,
                cpus=node.cpus,
                draining=node.id in leaving,
                shards=counts[node.id],
            )
            for node in nodes
        )

    async def _ready(self, _request: Request) -> Response:
        """Readiness probe: fail if no shard can answer."""
        clients = self._shards.clients
        if not any(client.is_ready for client in clients):
            raise ApiError("shard_unavailable", "no shard responds: retry")
        troubles = [client.pulse.trouble for client in clients if client.pulse is not None]
        if all(troubles):
            raise ApiError("storage_unavailable", troubles[0] or "")
        return Response(encode(Status("ready")), media_type="application/json")

    async def _metrics(self, request: Request) -> Response:
        """Return the metrics of this front end, and those of all shards that respond."""
        call = Call.of("metrics", request)
        clients = [client for client in self._shards.clients if client.is_ready]
        replies = await asyncio.gather(*(client.perform(call) for client in clients), return_exceptions=True)
        texts = {
            client.number: reply.content
            for client, reply in zip(clients, replies, strict=True)
            if not isinstance(reply, BaseException)
        }
        nodes = self._node_infos(await self._nodes.read(), await self._plan.read())
        own = exposition([*self._shards.metrics.http_metrics(), *self._shard_metrics(), *node_metrics(nodes)])
        return Response(merge_metrics(own, texts), media_type="text/plain; version=0.0.4")

    def _shard_metrics(self) -> list[Metric]:
        up = GaugeMetricFamily("glcb_shard_up", "1 if the shard answers requests.", labels=["shard"])
        silent = GaugeMetricFamily(
            "glcb_shard_silent_seconds", "Seconds since the shard last responded.", labels=["shard"]
        )
        replaced = GaugeMetricFamily(
            "glcb_shard_replacements",
            "Processes without a response that this front end had replaced.",
            labels=["shard"],
        )
        moves = GaugeMetricFamily(
            "glcb_shard_moves",
            "Moves and restarts of the shard on purpose that this front end has seen.",
            labels=["shard"],
        )
        for client in self._shards.clients:
            label = [str(client.number)]
            up.add_metric(label, int(client.is_ready))
            silent.add_metric(label, client.info().silent)
            replaced.add_metric(label, client.replaced)
            moves.add_metric(label, client.moves)
        return [up, silent, replaced, moves]

    async def _openapi(self, _request: Request) -> Response:
        return Response(openapi_document(), media_type="application/json")

    async def _javascript(self, request: Request) -> Response:
        return pages().javascript(request)

    async def _home(self, _request: Request) -> Response:
        return pages().home()


def node_metrics(nodes: tuple[NodeInfo, ...]) -> list[Metric]:
    """Return the metrics of the nodes of a cluster."""
    shards = GaugeMetricFamily("glcb_node_shards", "Shards on the node.", labels=["node", "host"])
    draining = GaugeMetricFamily(
        "glcb_node_draining", "1 if the shards of the node move to other nodes.", labels=["node", "host"]
    )
    for node in nodes:
        shards.add_metric([node.id, node.host], node.shards)
        draining.add_metric([node.id, node.host], int(node.draining))
    return [shards, draining]


def merge_metrics(own: bytes, shards: dict[int, bytes]) -> bytes:
    r"""Return metrics of this process and of shards, which get the label ``shard``.

    >>> shard = b'# TYPE a gauge\na 1.0\n# TYPE b gauge\nb{x="y"} 2.0\n# TYPE glcb_http_requests gauge\n'
    >>> print(merge_metrics(b"", {0: shard, 1: shard}).decode())
    # TYPE a gauge
    a{shard="0"} 1.0
    a{shard="1"} 1.0
    # TYPE b gauge
    b{shard="0",x="y"} 2.0
    b{shard="1",x="y"} 2.0
    <BLANKLINE>
    """
    families: dict[bytes, list[bytes]] = {}
    for number, text in shards.items():
        family = b""
        label = b'shard="%d"' % number

        def labeled(match: re.Match[bytes], label: bytes = label) -> bytes:
            return b"%b{%b} " % (match[1], b",".join(filter(None, (label, match[2]))))

        for line in text.splitlines():
            if line.startswith(b"#"):
                _, kind, family, *_ = line.split(b" ")
                if family.startswith(b"glcb_http_"):  # shards have no HTTP requests of their own
                    continue
                lines = families.setdefault(family, [])
                if number == min(shards) or not any(one.startswith(b"# " + kind) for one in lines):
                    lines.append(line)
            elif not family.startswith(b"glcb_http_"):
                families[family].append(_SAMPLE.sub(labeled, line))
    return own + b"".join(b"%b\n" % line for lines in families.values() for line in lines)
