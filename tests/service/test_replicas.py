"""Replicas without Ray: what is published when, and what happens if a replica is away."""

import asyncio
import pickle
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from glcb._api.requests import DecisionRequest, ExperimentChanges, RewardItem, encode
from glcb._errors import InvalidSettings
from glcb.service.config import ServiceSettings, load
from glcb.service.core.engine import Engine
from glcb.service.core.scoring import Model, ScoredRequest
from glcb.service.shards import client, replicas
from glcb.service.shards.messages import Item, Pulse
from glcb.service.shards.replicas import Publisher, Replica, Replicas
from tests.service.builders import settings
from tests.service.engine_harness import FailingDatabase, decide_and_reward, verified, with_engine
from tests.service.test_shards import until

HOT = ServiceSettings(hot_experiments=("home",), workers=2, publish_rewards=3, publish_seconds=60)
DECISION = DecisionRequest(context={"age": 31, "country": "A"}, idempotency_key="K")


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "configure_logging", lambda *_: None)
    monkeypatch.setattr(sys, "setswitchinterval", lambda _: None)
    monkeypatch.setattr(client, "_PROBE_SECONDS", 0.02)


class LocalReplica:
    """A replica in this process, which can fail."""

    def __init__(self) -> None:
        self.replica = Replica(msgspec.json.encode(HOT))
        self.versions: list[int] = []
        self.fails = False
        self.load = self

    def remote(self, name: str, reference: list[Any]) -> Awaitable[None]:
        return self._load(name, reference)

    async def _load(self, name: str, reference: list[Any]) -> None:
        if self.fails:
            raise RuntimeError("the process is gone")
        await self.replica.load(name, reference)
        self.versions.append(self.replica._scorers[name].version)

    async def scored(self, request: DecisionRequest, name: str = "home") -> ScoredRequest:
        _, (content,) = await self.replica.apply([(name, "decide", encode(request))])
        return Item(name, "decide", content).request()  # type: ignore[no-any-return]


class Reference:
    def __init__(self, model: Model) -> None:
        self.model: Model = pickle.loads(pickle.dumps(model))

    def __await__(self) -> Any:
        yield from asyncio.sleep(0).__await__()
        return self.model


def with_publisher(
    folder: Path, scenario: Callable[[Engine, Publisher, LocalReplica], Awaitable[None]]
) -> None:
    async def run(engine: Engine, database: FailingDatabase) -> None:
        local = LocalReplica()
        publisher = Publisher(engine, lambda number: local if number == 0 else None, Reference)
        await engine.create("home", settings())
        await scenario(engine, publisher, local)
        verified(database)

    fields = ("hot_experiments", "publish_rewards", "publish_seconds", "max_lag")
    with_engine(folder, run, **{name: getattr(HOT, name) for name in fields}, replicas=2)


async def published(publisher: Publisher) -> None:
    await publisher.publish_due()
    await until(lambda: not publisher._loading)


def test_a_model_is_published_after_rewards_and_changes_and_only_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "_MAX_SHARE", 1e9)

    async def scenario(engine: Engine, publisher: Publisher, local: LocalReplica) -> None:
        await published(publisher)
        assert local.versions == []  # there is no model yet
        for pairs in (2, 2, 1, 3):
            await decide_and_reward(engine, pairs)
            await published(publisher)
        expected = [5, 11, 17]  # after 2, 5 and 8 rewards
        assert local.versions == expected
        await engine.change("home", ExperimentChanges(exploration=0.3))
        await published(publisher)
        await published(publisher)
        assert local.versions == [*expected, 18]

        scored = await local.scored(DECISION)
        assert scored.scores is not UNSET
        assert scored.scores.version == 18
        first = await engine.apply("home", "decide", scored)
        assert await engine.apply("home", "decide", DECISION) == first
        text = engine.metrics.text(lambda _: True).decode()
        assert 'glcb_replica_lag_events{experiment="home",replica="0"} 1.0' in text
        assert b"glcb_replica_lag_events{" not in engine.metrics.text(lambda _: False)

    with_publisher(tmp_path, scenario)


def test_copies_take_a_small_share_of_the_time(tmp_path: Path) -> None:
    async def scenario(engine: Engine, publisher: Publisher, local: LocalReplica) -> None:
        await decide_and_reward(engine, 2)
        await published(publisher)
        last = publisher._published["home"]
        publisher._published["home"] = last._replace(seconds=1000)
        await decide_and_reward(engine, 10)
        await published(publisher)
        assert local.versions == [5]

    with_publisher(tmp_path, scenario)


def test_a_replica_that_fails_is_found_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(engine: Engine, publisher: Publisher, local: LocalReplica) -> None:
        await decide_and_reward(engine, 2)
        local.fails = True
        await published(publisher)
        assert publisher._replicas == {}
        local.fails = False
        publisher._looked_at = publisher._published["home"].at - 10
        publisher._published.clear()
        await published(publisher)
        assert local.versions == [5]

    with_publisher(tmp_path, scenario)
    assert "a replica is away" in caplog.text


def test_a_model_that_cannot_be_copied_is_tried_again_when_the_next_one_is_due(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(engine: Engine, publisher: Publisher, local: LocalReplica) -> None:
        attempts = []

        def fail(model: Model) -> None:
            attempts.append(model.version)
            raise MemoryError("the object store is full")

        publisher._put = fail
        await decide_and_reward(engine, 2)
        for _ in range(3):
            await published(publisher)
        assert attempts == [5]
        publisher._put = Reference
        publisher._published["home"] = publisher._published["home"]._replace(at=0.0)
        await decide_and_reward(engine, 1)
        await published(publisher)
        assert local.versions == [7]

    with_publisher(tmp_path, scenario)
    assert "the object store is full" in caplog.text


@pytest.mark.ray
def test_replicas_need_a_node_with_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    class Options:
        def __init__(self, kind: type) -> None:
            assert kind is Replica

        def options(self, **options: Any) -> Any:
            assert options["num_cpus"] > 0
            return self

        def remote(self, settings: bytes) -> bytes:
            return settings

    monkeypatch.setattr(ray, "remote", Options)
    assert replicas.start_replica("glcb", 0, b"settings") == b"settings"


def test_a_replica_leaves_alone_what_it_cannot_score(tmp_path: Path) -> None:
    async def scenario(engine: Engine, publisher: Publisher, local: LocalReplica) -> None:
        assert (await local.scored(DECISION)).scores is UNSET  # it has no model
        await decide_and_reward(engine, 2)
        await published(publisher)
        assert (await local.scored(DECISION)).scores is not UNSET
        assert (await local.scored(DECISION, name="other")).scores is UNSET
        wrong = DecisionRequest(context=[31, "A"])
        assert (await local.scored(wrong)).scores is UNSET

    with_publisher(tmp_path, scenario)


# ---- in a front end -----------------------------------------------------------------------------


class Answering:
    """A replica that adds to every request, or hangs."""

    def __init__(self) -> None:
        self.hangs = False
        self.requests = 0
        self.ping = _Call(lambda: Pulse("ready", "node", 1, 0, 0, None), self)
        self.apply = _Call(self._apply, self)

    def _apply(self, items: list[tuple[str, str, bytes]]) -> tuple[int, list[bytes]]:
        self.requests += len(items)
        return 0, [content + b"+" for _, _, content in items]


class _Call:
    def __init__(self, function: Callable[..., Any], replica: Answering) -> None:
        self._function, self._replica = function, replica

    def remote(self, *arguments: Any) -> Any:
        from concurrent.futures import Future

        result: Future[Any] = Future()
        if not self._replica.hangs:
            result.set_result(self._function(*arguments))
        return type("Reference", (), {"future": lambda _: result})()


@pytest.mark.ray
def test_requests_get_scores_from_the_replicas_in_turn_and_never_wait_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(replicas, "_SCORE_SECONDS", 0.1)

    async def run() -> None:
        processes = [Answering(), Answering()]

        async def find(number: int) -> Answering:
            return processes[number]

        fleet = Replicas(msgspec.structs.replace(HOT, replicas=2, shard_seconds=60), find)

        async def sent(name: str, kind: str, request: Any) -> Any:
            answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            fleet.score(name, kind, request, answer.set_result)
            return await asyncio.wait_for(answer, 10)

        assert await sent("home", "decide", DECISION) is DECISION  # no replica is ready
        watching = [asyncio.ensure_future(one.watch()) for one in fleet.clients]
        await until(lambda: all(one.is_ready for one in fleet.clients))
        for _ in range(4):
            assert await sent("home", "decide", DECISION) == encode(DECISION) + b"+"
        assert [one.requests for one in processes] == [2, 2]
        reward = RewardItem(id="x", value=1)
        assert await sent("home", "reward", reward) is reward
        assert await sent("cold", "decide", DECISION) is DECISION
        candidates = DecisionRequest(context={}, arms={"a": {}})
        assert await sent("home", "decide", candidates) is candidates
        processes[0].hangs = True
        assert DECISION in [await sent("home", "decide", DECISION) for _ in range(2)]
        for task in watching:
            task.cancel()

    asyncio.run(run())


def test_replicas_need_several_processes() -> None:
    with pytest.raises(InvalidSettings, match="hot_experiments need several processes"):
        load({}, None, {}, ["hot_experiments=home"])
    assert load({}, None, {}, ["hot_experiments=home", "workers=2"]).hot_experiments == ("home",)
    assert Replicas(ServiceSettings(replicas=4), None).clients == []  # type: ignore[arg-type]
