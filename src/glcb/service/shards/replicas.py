"""Replicas of hot experiments: processes that compute the scores of decisions with copies of the model.

The shard that owns an experiment learns. It publishes its model through Ray's object store, and the replicas
load it. A front end lets a replica add scores to a request before it sends the request to the shard. Replicas
change nothing: if one is away, slow or behind, the shard computes the scores itself.
"""

import asyncio
import contextlib
import itertools
import logging
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from glcb._api.requests import DecisionRequest, encode
from glcb._errors import GlcbError
from glcb.service.background import log_failures, run_in_thread
from glcb.service.config import ServiceSettings
from glcb.service.core.engine import Engine
from glcb.service.core.experiment import Experiment
from glcb.service.core.scoring import Model, ModelScorer, model_of
from glcb.service.log_output import configure_logging
from glcb.service.shards.client import Find, ShardClient
from glcb.service.shards.messages import Pulse, decode_settings
from glcb.service.storage.database import Database
from glcb.service.storage.tables import read_about
from glcb.service.warmup import warm_up

log = logging.getLogger("glcb.service")

_SWITCH_SECONDS = 0.0005
_POLL_SECONDS = 0.01
_FIND_SECONDS = 1.0
"""How often a shard looks for replicas that it does not know yet."""
_SCORE_SECONDS = 0.5
"""A request waits this long for its scores."""
_MAX_WAITING = 256
"""Requests that may wait for one replica; others are sent to the shard without scores."""
_MAX_SHARE = 0.05
"""Share of the time that a shard spends on copies of one model."""
CPUS = 0.001
"""What a shard or a replica takes of the CPUs of its node: nodes without CPUs get none."""
_CONCURRENT_CALLS = 1000

_decode = msgspec.json.Decoder(DecisionRequest).decode


def namespace_of(database: Database) -> str:
    """Return the namespace of the actors of a service."""
    with database.read() as connection:
        return f"glcb-{read_about(connection, 'id')}"


# ---- the process --------------------------------------------------------------------------------


class Replica:
    """A process with copies of the models of hot experiments, as a Ray actor.

    Parameters
    ----------
    settings
        The settings of the service, as JSON.
    """

    def __init__(self, settings: bytes) -> None:
        decoded = decode_settings(settings)
        configure_logging(decoded.log_level, decoded.log_format)
        sys.setswitchinterval(_SWITCH_SECONDS)
        self._scorers: dict[str, ModelScorer] = {}
        self._warming: asyncio.Task[None] | None = None

    async def ping(self) -> Pulse:
        """Say that the process responds. The first call loads the kernels."""
        import ray

        if self._warming is None:
            self._warming = asyncio.ensure_future(warm_up())
        node, models = ray.get_runtime_context().get_node_id(), len(self._scorers)
        return Pulse("ready" if self._warming.done() else "starting", node, os.getpid(), models, models, None)

    async def load(self, name: str, reference: list[Any]) -> None:
        """Load a newer model of an experiment.

        Parameters
        ----------
        name
            The experiment.
        reference
            A list with the model in the object store.
        """
        model: Model = await reference[0]
        self._scorers[name] = await run_in_thread(ModelScorer, model)

    async def apply(self, items: list[tuple[str, str, bytes]]) -> tuple[int, list[bytes]]:
        """Return the requests of decisions, with scores if possible."""
        return 0, [self._scored(name, content) for name, _, content in items]

    def _scored(self, name: str, content: bytes) -> bytes:
        scorer = self._scorers.get(name)
        if scorer is None:
            return content
        with contextlib.suppress(GlcbError):  # the shard refuses the request
            return encode(scorer.scored(_decode(content), secrets.randbits(63)))
        return content


def find_replica(namespace: str, number: int) -> Any:
    """Return the actor of a replica; None if there is none."""
    import ray

    try:
        return ray.get_actor(_name(number), namespace)
    except ValueError:
        return None


def start_replica(namespace: str, number: int, settings: bytes) -> Any:
    """Return the actor of a replica; start it if there is none."""
    import ray

    replica = ray.remote(Replica).options(
        name=_name(number),
        namespace=namespace,
        lifetime="detached",
        get_if_exists=True,
        max_restarts=-1,
        max_task_retries=0,
        num_cpus=CPUS,
        scheduling_strategy="SPREAD",
        enable_task_events=False,
        max_concurrency=_CONCURRENT_CALLS,
    )
    return replica.remote(settings)


def _name(number: int) -> str:
    return f"replica-{number}"


# ---- in a shard ---------------------------------------------------------------------------------


class _Published(NamedTuple):
    """The last copy of a model, or the last attempt to copy it."""

    version: int
    rewards: int
    at: float
    seconds: float
    """Time that the copy took."""


class Publisher:
    """Sends the models of the hot experiments of a shard to the replicas.

    Parameters
    ----------
    engine
        The experiments of the shard.
    find
        Returns the actor of a replica, or None; called in a thread.
    put
        Copies a model into the object store; called in a thread.
    """

    def __init__(
        self, engine: Engine, find: Callable[[int], Any], put: Callable[[Model], Any] | None = None
    ) -> None:
        self._engine = engine
        self._settings = engine.settings
        self._find = find
        self._put = put or _put
        self._replicas: dict[int, Any] = {}
        self._looked_at = 0.0
        self._published: dict[str, _Published] = {}
        self._loading: dict[int, asyncio.Task[None]] = {}
        self._versions: dict[tuple[int, str], int] = {}
        """The model that a replica has."""
        engine.metrics.further.append(self._metrics)

    async def run(self) -> None:
        """Publish models forever."""
        while True:
            await log_failures(self.publish_due())
            await asyncio.sleep(_POLL_SECONDS)

    async def publish_due(self) -> None:
        """Publish the models for which it is time."""
        if time.monotonic() - self._looked_at > _FIND_SECONDS:
            self._looked_at = time.monotonic()
            await self._find_replicas()
        if self._idle():
            for name in self._settings.hot_experiments:
                if self._is_due(name):
                    await log_failures(self._publish(name))

    async def _find_replicas(self) -> None:
        for number in range(self._settings.replicas):
            if number not in self._replicas:
                found = await run_in_thread(self._find, number)
                if found is not None:
                    self._replicas[number] = found

    def _idle(self) -> list[int]:
        """Return the replicas that do not load a model."""
        return [number for number in self._replicas if number not in self._loading]

    def _is_due(self, name: str) -> bool:
        loaded, last = self._engine.loaded.get(name), self._published.get(name)
        if loaded is None or not loaded.experiment.has_decisions:
            return False
        experiment = loaded.experiment
        if last is None or last.version > experiment.state.sequence:  # it was deleted and created again
            return True
        passed = time.monotonic() - last.at
        if experiment.state.sequence == last.version or passed < last.seconds / _MAX_SHARE:
            return False
        rewards = experiment.bandit.counts["rewarded"] - last.rewards
        return (
            experiment.model_since > last.version
            or rewards >= self._settings.publish_rewards
            or passed >= self._settings.publish_seconds
        )

    async def _publish(self, name: str) -> None:
        began = time.monotonic()
        experiment = self._engine.loaded[name].experiment
        version, rewards = experiment.state.sequence, experiment.bandit.counts["rewarded"]
        try:
            reference, version, rewards = await self._engine.read(name, self._copy)
        finally:  # one that cannot be copied is tried again when the next one is due
            now = time.monotonic()
            self._published[name] = _Published(version, rewards, now, now - began)
        if reference is not None:
            for number in self._idle():
                load = self._load(number, name, version, reference)
                self._loading[number] = asyncio.ensure_future(log_failures(load))

    def _copy(self, experiment: Experiment) -> tuple[Any, int, int]:
        """Put the model into the object store, which copies it; return it, its version and its rewards."""
        model = model_of(experiment, copy=False)
        reference = None if model is None else self._put(model)
        return reference, experiment.state.sequence, experiment.bandit.counts["rewarded"]

    async def _load(self, number: int, name: str, version: int, reference: Any) -> None:
        """Let a replica load a model, and wait for it."""
        try:
            await self._replicas[number].load.remote(name, [reference])
            self._versions[number, name] = version
        except Exception as error:  # whatever happened to it, the shard does not need it
            log.warning("a replica is away", extra={"replica": number, "reason": str(error)[:200]})
            del self._replicas[number]
            self._versions = {key: one for key, one in self._versions.items() if key[0] != number}
        finally:
            del self._loading[number]

    def _metrics(self, can_access: Callable[[str], bool]) -> Iterator[Metric]:
        lag = GaugeMetricFamily(
            "glcb_replica_lag_events",
            "Events that the model of a replica does not reflect.",
            labels=["experiment", "replica"],
        )
        for (number, name), version in list(self._versions.items()):
            loaded = self._engine.loaded.get(name)
            if loaded is not None and can_access(name):
                lag.add_metric([name, str(number)], loaded.experiment.state.sequence - version)
        yield lag


def _put(model: Model) -> Any:
    import ray

    return ray.put(model)


# ---- in a front end -----------------------------------------------------------------------------


class _ReplicaClient(ShardClient):
    role = "replica"


class Replicas:
    """Lets replicas add scores to requests for decisions of hot experiments.

    Parameters
    ----------
    settings
        The settings of the service.
    find
        Returns the actor of a replica; starts it if there is none.
    """

    def __init__(self, settings: ServiceSettings, find: Find) -> None:
        self._hot = frozenset(settings.hot_experiments)
        self.clients = [
            _ReplicaClient(number, find, settings.shard_seconds, _SCORE_SECONDS, _MAX_WAITING)
            for number in range(settings.replicas if self._hot else 0)
        ]
        self._turns = itertools.cycle(self.clients)

    def score(self, name: str, kind: str, request: Any, send: Callable[[Any], None]) -> None:
        """Call ``send`` with a request: that of a decision of a hot experiment with scores, if possible."""
        replica = self._next() if kind == "decide" and name in self._hot and request.arms is None else None
        if replica is None:
            send(request)
        else:
            replica.send(
                name, kind, request, lambda scored: send(scored if isinstance(scored, bytes) else request)
            )

    def _next(self) -> ShardClient | None:
        """Return the next replica that is ready."""
        turns = itertools.islice(self._turns, len(self.clients))
        return next((client for client in turns if client.is_ready), None)

    def metrics(self) -> Metric:
        """Return which replicas respond."""
        up = GaugeMetricFamily("glcb_replica_up", "1 if the replica computes scores.", labels=["replica"])
        for client in self.clients:
            up.add_metric([str(client.number)], int(client.is_ready))
        return up
