"""Front ends and shards without Ray: what happens to requests while a shard moves, hangs or is away."""

import asyncio
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from starlette.responses import Response
from typer.testing import CliRunner

from glcb import _ray
from glcb._api.requests import DecisionRequest, RewardItem, encode
from glcb._errors import StorageError
from glcb.cli import app
from glcb.service.access.api_keys import ANONYMOUS
from glcb.service.config import ServiceSettings
from glcb.service.errors import ApiError
from glcb.service.http.errors import status_of
from glcb.service.shards import actors, client, coordinator
from glcb.service.shards.actors import ShardActor
from glcb.service.shards.client import ShardClient
from glcb.service.shards.cluster import ShardLayout
from glcb.service.shards.coordinator import Coordinator
from glcb.service.shards.front_end import OnRay
from glcb.service.shards.messages import Call, Problem, Pulse, Reply, Result, decode_settings, encode_settings
from glcb.service.shards.plan import change_plan, plan_restart
from glcb.service.storage import locks
from glcb.service.storage.ownership import TAKEN_OVER, Epoch, Shard, claim_shards
from tests.support.builders import open_test_database

needs_ray = pytest.mark.ray
DECISION = DecisionRequest(context={"age": 31})


class FakeActor:
    """A shard whose answers the test chooses."""

    def __init__(self) -> None:
        self.state = "ready"
        self.hangs = False
        self.fails = False
        self.batches: list[list[Any]] = []
        self.late_answer = b"late"
        self.late_calls = 0
        self.generation = 1
        self.held: list[Callable[[], None]] | None = None
        """If it is a list, batches are answered when the test calls its members."""

    def __getattr__(self, name: str) -> Any:
        return _Method(self, getattr(type(self), f"_{name}"))

    def _ping(self) -> Pulse:
        return Pulse(self.state, "node", 1, 0, 0, None, self.generation)  # type: ignore[arg-type]

    def _apply(self, items: list[Any]) -> Any:
        if self.state == "moving":
            return None
        self.batches.append(items)
        problem = Problem.of(ApiError("unknown_experiment", "there is none"))
        answers = {"slow": None, "unknown": problem}
        return 7, [answers.get(name, name.encode()) for name, _, _ in items]

    def _late(self, number: int) -> list[tuple[int, bytes]]:
        """Return one late answer at a time."""
        assert number == 7
        self.late_calls += 1
        places = [place for place, (name, *_) in enumerate(self.batches[-1]) if name == "slow"]
        return [(places[self.late_calls - 1], self.late_answer)]

    def _perform(self, call: tuple[Any, ...]) -> Reply | None:
        return None if self.state == "moving" else Reply(200, "text/plain", call[0].encode())


class _Method:
    def __init__(self, actor: FakeActor, function: Callable[..., Any]) -> None:
        self._actor = actor
        self._function = function

    def remote(self, *arguments: Any) -> Any:
        if self._actor.fails:
            raise RuntimeError("the cluster is lost")
        result: Future[Any] = Future()
        if not self._actor.hangs:
            answer = self._function(self._actor, *arguments)
            if self._actor.held is not None and self._function.__name__ == "_apply":
                self._actor.held.append(lambda: result.set_result(answer))
            else:
                result.set_result(answer)
        return type("Reference", (), {"future": lambda _: result})()


async def sent(shard: ShardClient, name: str) -> bytes | BaseException:
    try:
        return await asyncio.wait_for(shard.send(name, "decide", DECISION), 10)
    except ApiError as error:
        return error


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


def with_client(
    scenario: Callable[[ShardClient, FakeActor], Awaitable[None]],
    max_waiting: int = 100,
    call_seconds: float = 5,
) -> None:
    async def run() -> None:
        actor = FakeActor()

        async def find(_: int) -> FakeActor:
            return actor

        shard = ShardClient(0, find, 0.3, call_seconds, max_waiting)
        watching = asyncio.ensure_future(shard.watch())
        await until(lambda: shard.is_ready)
        await scenario(shard, actor)
        watching.cancel()

    asyncio.run(run())


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_PROBE_SECONDS", 0.02)
    monkeypatch.setattr(client, "_QUIET_SECONDS", 0.1)


@needs_ray
def test_requests_that_arrive_together_share_a_call_and_slow_ones_are_fetched() -> None:
    async def scenario(shard: ShardClient, actor: FakeActor) -> None:
        names = ("a", "slow", "unknown", "b", "slow")
        answers = await asyncio.gather(*(sent(shard, name) for name in names))
        assert [answers[place] for place in (0, 1, 3, 4)] == [b"a", b"late", b"b", b"late"]
        assert isinstance(answers[2], ApiError)
        assert status_of(answers[2]) == 404
        assert [len(batch) for batch in actor.batches] == [5]
        assert actor.late_calls == 2

    with_client(scenario)


@needs_ray
def test_requests_gather_while_a_batch_is_on_its_way() -> None:
    async def scenario(shard: ShardClient, actor: FakeActor) -> None:
        actor.held = []
        waiting = []
        for name in "abc":
            waiting.append(asyncio.ensure_future(sent(shard, name)))
            for _ in range(5):
                await asyncio.sleep(0)
        await until(lambda: len(actor.batches) == 2)  # although the first one is not answered
        assert [len(batch) for batch in actor.batches] == [1, 2]
        for answer in actor.held:
            answer()
        assert await asyncio.gather(*waiting) == [b"a", b"b", b"c"]

    with_client(scenario)


@needs_ray
def test_requests_wait_for_a_shard_that_moves() -> None:
    async def scenario(shard: ShardClient, actor: FakeActor) -> None:
        actor.state = "moving"
        waiting = [asyncio.ensure_future(sent(shard, name)) for name in ("a", "b")]
        call = Call("show", "a", ANONYMOUS, "/", {}, b"", b"")
        other = asyncio.ensure_future(shard.perform(call))
        await until(lambda: shard.is_moving)
        await asyncio.sleep(0.3)  # longer than a shard may be silent
        assert not any(task.done() for task in (*waiting, other))
        actor.state = "starting"
        await asyncio.sleep(0.1)
        actor.state = "ready"
        assert await asyncio.gather(*waiting) == [b"a", b"b"]
        assert (await other).content == b"show"
        assert shard.info().state == "ready"

    with_client(scenario)


@needs_ray
def test_requests_follow_a_shard_to_another_process_and_late_answers_come_from_the_old_one() -> None:
    async def scenario(shard: ShardClient, actor: FakeActor) -> None:
        actor.late_answer = b"from the old process"
        new = FakeActor()
        new.generation = 2

        async def find(_: int) -> FakeActor:
            return new

        shard._find = find
        first = asyncio.ensure_future(sent(shard, "slow"))
        await until(lambda: bool(actor.batches))
        actor.state = "moving"
        others = [asyncio.ensure_future(sent(shard, name)) for name in ("a", "b")]
        assert await asyncio.gather(first, *others) == [b"from the old process", b"a", b"b"]
        assert [len(batch) for batch in new.batches] == [2]
        assert shard.moves == 1
        assert shard.info().generation == 2

    with_client(scenario)


@needs_ray
def test_a_shard_that_hangs_is_replaced_and_its_requests_get_503(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    killed = []

    async def scenario(shard: ShardClient, actor: FakeActor) -> None:
        def kill(victim: FakeActor, no_restart: bool) -> None:
            assert not no_restart
            killed.append(victim)
            victim.hangs = False

        monkeypatch.setattr(ray, "kill", kill)
        actor.hangs = True
        first = await sent(shard, "a")
        assert isinstance(first, ApiError)
        assert (first.code, status_of(first)) == ("shard_unavailable", 503)
        assert shard.info().state == "away"
        second = await asyncio.wait_for(sent(shard, "a"), 0.05)  # without waiting for the shard
        assert isinstance(second, ApiError)
        await until(lambda: bool(killed))
        assert killed == [actor]
        assert shard.replaced == 1

    with_client(scenario)


@needs_ray
def test_other_requests_to_a_silent_shard_get_503_before_their_time_is_up() -> None:
    async def scenario(shard: ShardClient, actor: FakeActor) -> None:
        actor.hangs = True
        with pytest.raises(ApiError, match="does not respond"):
            await asyncio.wait_for(shard.perform(Call("show", "a", ANONYMOUS, "/", {}, b"", b"")), 10)
        assert not shard._open

    with_client(scenario, call_seconds=60)


@needs_ray
def test_a_call_that_cannot_be_made_is_logged_and_gets_503(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(shard: ShardClient, actor: FakeActor) -> None:
        actor.fails = True
        answer = await sent(shard, "a")
        assert isinstance(answer, ApiError)
        assert status_of(answer) == 503
        actor.fails = False
        assert await sent(shard, "a") == b"a"
        assert shard._waiting == 0

    with_client(scenario)
    assert "the cluster is lost" in caplog.text


@needs_ray
def test_requests_do_not_wait_forever_for_a_shard_that_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(shard: ShardClient, actor: FakeActor) -> None:
        monkeypatch.setattr(client, "_MOVE_SECONDS", 0.2)
        actor.state = "moving"
        await until(lambda: shard.is_moving)
        refused = await sent(shard, "a")
        assert isinstance(refused, ApiError)
        assert status_of(refused) == 503

    with_client(scenario, call_seconds=0.05)


@needs_ray
def test_every_request_is_answered_when_a_shard_is_back_after_their_time_was_up() -> None:
    async def scenario(shard: ShardClient, actor: FakeActor) -> None:
        actor.state = "moving"
        await until(lambda: shard.is_moving)
        waiting = [asyncio.ensure_future(sent(shard, "a")) for _ in range(300)]
        await asyncio.sleep(0.1)
        actor.state = "ready"
        answers = await asyncio.gather(*waiting)
        assert all(one == b"a" or isinstance(one, ApiError) for one in answers)
        assert shard._waiting == 0

    with_client(scenario, max_waiting=300, call_seconds=0.05)


@needs_ray
def test_the_time_of_a_move_does_not_count_as_that_of_the_requests_that_wait_for_it() -> None:
    async def scenario(shard: ShardClient, actor: FakeActor) -> None:
        actor.state = "moving"
        await until(lambda: shard.is_moving)
        waiting = [asyncio.ensure_future(sent(shard, "a")) for _ in range(client._MAX_BATCH * 3)]
        await asyncio.sleep(0)
        shard._queue = deque(one._replace(deadline=time.monotonic() - 1) for one in shard._queue)
        assert shard._moves_until is not None
        shard._moves_until -= 10  # it takes ten seconds
        actor.held = []
        actor.state = "ready"
        await until(lambda: len(actor.batches) == 2)
        await asyncio.sleep(5 * client._PROBE_SECONDS)  # the last batch waits for the first ones
        for place in range(3):
            await until(lambda place=place: len(actor.held or ()) > place)  # type: ignore[misc]
            actor.held[place]()
        assert set(await asyncio.gather(*waiting)) == {b"a"}

    with_client(scenario, max_waiting=300)


@needs_ray
def test_a_shard_cannot_have_more_than_its_share_of_the_requests() -> None:
    async def scenario(shard: ShardClient, actor: FakeActor) -> None:
        actor.state = "moving"
        await until(lambda: shard.is_moving)
        waiting = [asyncio.ensure_future(sent(shard, "a")) for _ in range(3)]
        await asyncio.sleep(0)
        refused = await sent(shard, "a")
        assert isinstance(refused, ApiError)
        assert refused.code == "overloaded"
        actor.state = "ready"
        assert await asyncio.gather(*waiting) == [b"a"] * 3

    with_client(scenario, max_waiting=3)


def test_a_shard_restores_its_experiments_and_answers_nothing_once_it_was_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_warm_up() -> None:
        return None

    monkeypatch.setattr(actors, "warm_up", no_warm_up)
    monkeypatch.setattr(actors, "warm_up_rest", no_warm_up)
    monkeypatch.setattr(actors, "configure_logging", lambda *_: None)
    monkeypatch.setattr(sys, "setswitchinterval", lambda _: None)
    storage = open_test_database(tmp_path)
    with storage.write() as connection:
        claim = claim_shards(connection, "token", 1)
    settings = encode_settings(ServiceSettings(data=str(tmp_path / "glcb.db")))
    body = encode({"arms": ["a", "b"], "policy": "uniform"})

    async def started() -> ShardActor:
        shard = ShardActor(settings, claim, 0, 1)
        (refused,) = await applied(shard, [("home", "decide", b"")])
        assert isinstance(refused, Problem)
        assert refused.code == "starting"
        shard._begin()
        await until(lambda: shard._state == "ready")
        assert shard._ticking is not None
        shard._ticking.cancel()  # it would end this process
        return shard

    async def applied(shard: ShardActor, items: list[tuple[str, str, bytes]]) -> list[Result]:
        answer = await shard.apply(items)
        assert answer is not None
        number, results = answer
        while None in results:
            for place, result in await shard.late(number):
                results[place] = result
        return results

    def call(operation: str, content: bytes = b"") -> tuple[Any, ...]:
        path = "/v1/experiments/home"
        return tuple(Call(operation, "home", ANONYMOUS, path, {"name": "home"}, b"", content))

    async def scenario() -> None:
        first = await started()
        created = await first.perform(call("create", body))
        assert isinstance(created, Reply)
        assert created.status == 201
        decision = ("home", "decide", encode(DECISION))
        unknown = ("elsewhere", "decide", encode(DECISION))
        invalid = ("home", "decide", b'{"field_of_a_later_version":1}')
        answers = await applied(first, [decision, unknown, invalid, decision])
        assert [type(one) for one in answers] == [bytes, Problem, Problem, bytes]

        second = await started()
        reward = ("home", "reward", encode(RewardItem(id="x", value=1)))
        stale = await applied(first, [decision, unknown, reward])
        for problem in (*stale, await first.perform(call("show")), await first.perform(call("list_all"))):
            assert isinstance(problem, Problem)
            assert (problem.code, problem.message) == ("storage_unavailable", TAKEN_OVER)
        shown = await second.perform(call("show"))
        assert isinstance(shown, Reply)
        assert b'"decisions":2,' in shown.content

        third = ShardActor(settings, claim, 0, 1, generation=2, waits=True)
        assert isinstance((await applied(third, [decision]))[0], Problem)
        monkeypatch.setattr(actors, "_FETCH_WHILE_MOVING_SECONDS", 0.05)
        second._keep_late(1, actors._Batch([asyncio.sleep(0, b"")]))  # no front end will ask for its answer
        await asyncio.wait_for(second.drain(), 10)
        assert await second.apply([decision]) is None
        assert await second.perform(call("show")) is None
        await third.take()
        shown = await third.perform(call("show"))
        assert isinstance(shown, Reply)
        assert b'"decisions":2,' in shown.content
        assert third._ticking is not None
        third._ticking.cancel()
        await third._engine.journal.stop()
        await first._engine.journal.stop()

    asyncio.run(scenario())
    for outdated in (("0", 0, 1), (claim, 0, 1)):  # another service's, and one before the shard moved
        with pytest.raises(StorageError, match="another service has taken over"):
            ShardActor(settings, *outdated)
    restarted = ShardActor(settings, claim, 0, 1, generation=2, waits=True)
    assert restarted._is_owner  # it has had the shard before, and waits for nobody


def test_the_coordinator_claims_the_database_again_after_another_service_had_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FreeLock:
        def __init__(self, _engine: Any) -> None:
            pass

        def acquire(self) -> bool:
            return True

        check = close = lambda self: None

    monkeypatch.setattr(locks, "AdvisoryLock", FreeLock)
    monkeypatch.setattr(Coordinator, "_watch", lambda _: None)
    monkeypatch.setattr(Coordinator, "_move_shards", lambda _: None)
    monkeypatch.setattr(coordinator, "configure_logging", lambda *_: None)
    storage = open_test_database(tmp_path)
    settings = ServiceSettings(data=str(tmp_path / "glcb.db"), unload_seconds=7)
    one = Coordinator(encode_settings(settings), "token")
    claim, _, shared = one.layout()
    assert one.layout().claim == claim
    assert decode_settings(shared) == settings
    plan_restart(storage, 1, msgspec.structs.replace(settings, unload_seconds=8, database="postgresql://x"))
    assert decode_settings(one.layout().settings) == msgspec.structs.replace(settings, unload_seconds=8)
    later = {"unload_seconds": 9, "setting_of_a_later_version": 1}
    change_plan(storage, lambda plan, _connection: msgspec.structs.replace(plan, settings=later))
    assert decode_settings(one.layout().settings).unload_seconds == 9
    with storage.write() as connection:
        Epoch().take_database(connection)
    again, _, shared = one.layout()
    assert again != claim
    assert decode_settings(shared) == settings
    storage.take_shard(again, Shard(0, 1))
    one._stack.close()
    storage.close()


@needs_ray
def test_a_front_end_waits_for_a_coordinator_that_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray
    from ray.exceptions import ActorUnavailableError

    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    layout = ShardLayout("1", 1, b"")
    answers: list[ShardLayout | Exception] = [*[ActorUnavailableError("it starts", None)] * 20, layout]

    def get(_reference: Any, timeout: float) -> ShardLayout:
        assert timeout > 0
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(ray, "get", get)
    placed: Any = object.__new__(OnRay)
    placed._settings = ServiceSettings()
    calls = SimpleNamespace(layout=SimpleNamespace(remote=lambda: None))
    placed._cluster = SimpleNamespace(coordinator=lambda *_: calls)
    assert placed._layout() == layout
    assert len(pauses) == 20
    assert sum(pauses) >= 20


def test_a_response_keeps_its_headers() -> None:
    original = Response("page", 201, {"content-security-policy": "none"}, "text/html")
    assert sorted(Reply.of(original).response().raw_headers) == sorted(original.raw_headers)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--workers", "2"], "need PostgreSQL"),
        (["--executor", "ray"], "need PostgreSQL"),
        (
            ["--workers", "2", "--database", "postgresql://x@/x", "--set", "high_water_file=m"],
            "have no high_water_file",
        ),
    ],
)
def test_settings_that_shards_cannot_have_are_refused(
    flags: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = CliRunner().invoke(app, ["serve", "--port", "0", *flags])
    assert ran.exit_code != 0
    assert message in str(ran.exception) + ran.output


def test_without_ray_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ray, "find_spec", lambda _: None)
    flags = ["--port", "0", "--workers", "2", "--database", "postgresql://x@/x?host=/nowhere"]
    ran = CliRunner().invoke(app, ["serve", *flags])
    assert ran.exit_code != 0
    assert "'.[ray]'" in str(ran.exception) + ran.output
