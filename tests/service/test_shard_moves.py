"""Moves of shards: where they go, and what happens if a step fails. Ray and its actors are fakes."""

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from starlette.requests import Request
from starlette.responses import Response

from glcb._api.shards import NodeInfo, ShardList
from glcb._errors import StorageError
from glcb.service.config import ServiceSettings
from glcb.service.errors import ApiError
from glcb.service.http.admission import Admission
from glcb.service.http.errors import status_of
from glcb.service.http.operations import OPERATIONS
from glcb.service.process.metrics import HttpMetrics, exposition
from glcb.service.shards import answers as answers_module
from glcb.service.shards import coordinator
from glcb.service.shards.answers import LastKnown, ShardAnswers, node_metrics
from glcb.service.shards.client import ShardClient
from glcb.service.shards.cluster import Cluster, ShardLayout, actor_name
from glcb.service.shards.coordinator import Mover
from glcb.service.shards.front_end import OnRay
from glcb.service.shards.messages import Pulse
from glcb.service.shards.plan import (
    Node,
    Placed,
    ShardPlan,
    change_plan,
    next_move,
    plan_drain,
    plan_restart,
    stored_plan,
)
from glcb.service.storage.ownership import Owner, Shard, claim_shards, owner_of
from tests.support.builders import open_test_database


def node(name: str, cpus: float = 1.0, leaves: bool = False) -> Node:
    return Node(name, f"10.0.0.{ord(name)}", f"host-{name}", cpus, leaves)


def placed(nodes: str, generation: int = 1) -> list[Placed]:
    """Return shards on nodes with names of one letter; a capital letter is a shard that does not answer."""
    return [Placed(number, name.lower(), generation, name.islower()) for number, name in enumerate(nodes)]


def arranged(nodes: str, cluster: list[Node], plan: ShardPlan) -> tuple[str, int]:
    """Make all moves; return where the shards are, and the number of moves."""
    shards, count = placed(nodes), 0
    while (move := next_move(shards, cluster, plan)) is not None:
        assert shards[move.number].node != move.node
        shards[move.number] = shards[move.number]._replace(node=move.node)
        count += 1
        assert count < 100
    return "".join(shard.node or "-" for shard in shards), count


ABC = [node("a"), node("b"), node("c")]


@pytest.mark.parametrize(
    ("before", "moves", "counts"),
    [("aabb", 1, [2, 1, 1]), ("aaaaaa", 4, [2, 2, 2]), ("abcab", 0, [2, 2, 1]), ("aaaab", 2, [2, 2, 1])],
)
def test_a_new_node_gets_shards_with_as_few_moves_as_possible(
    before: str, moves: int, counts: list[int]
) -> None:
    after, made = arranged(before, ABC, ShardPlan())
    assert made == moves
    assert sorted(map(after.count, "abc"), reverse=True) == counts


@pytest.mark.parametrize("cluster", [ABC, [node("a", leaves=True), node("b"), node("c")]])
def test_shards_leave_a_node_that_is_drained_and_none_come_back(cluster: list[Node]) -> None:
    plan = ShardPlan(draining=() if cluster[0].leaves else ("a",))
    assert arranged("aaab", cluster, plan) == ("cbcb", 3)


def test_nodes_without_cpus_get_no_shards() -> None:
    assert arranged("aaa", [node("a"), node("b", cpus=0)], ShardPlan()) == ("aaa", 0)


def test_shards_stay_if_they_can_go_nowhere() -> None:
    assert next_move(placed("aa"), [node("a")], ShardPlan(draining=("a",))) is None
    assert next_move(placed("aa"), [node("a"), node("b")], ShardPlan(draining=("a",)), avoided={"b"}) is None


def test_a_shard_that_does_not_answer_delays_everything_but_draining() -> None:
    assert next_move(placed("aaA"), ABC, ShardPlan()) is None
    assert next_move(placed("aA"), ABC, ShardPlan(generations={0: 2})) is None
    move = next_move(placed("Aa"), ABC, ShardPlan(draining=("a",)))
    assert move is not None
    assert move.number == 1


def test_shards_are_restarted_where_they_are_one_after_the_other() -> None:
    plan = ShardPlan(generations={0: 2, 1: 2})
    first = next_move(placed("ab"), ABC[:2], plan)
    assert first == (0, "a", "restart")
    second = next_move([placed("ab", 2)[0], placed("ab")[1]], ABC[:2], plan)
    assert second == (1, "b", "restart")
    assert next_move(placed("ab", 2), ABC[:2], plan) is None


def test_plans_of_two_administrators_are_both_kept(tmp_path: Path) -> None:
    storage = open_test_database(tmp_path)
    with storage.write() as connection:
        claim = claim_shards(connection, "token", 2)
    storage.take_shard(claim, Shard(1, 2), generation=4)
    plan_drain(storage, "a", True)
    plan_restart(storage, 2, ServiceSettings(database="postgresql://x:secret@y/z", unload_seconds=7))
    plan_drain(storage, "b", True)
    plan_drain(storage, "a", False)
    plan = stored_plan(storage)
    assert (plan.draining, plan.generations) == (("b",), {0: 1, 1: 5})
    assert plan.settings is not None
    assert plan.settings["unload_seconds"] == 7
    assert "database" not in plan.settings
    with storage.write() as connection:
        claim_shards(connection, "another service", 2)
    assert stored_plan(storage) == ShardPlan()
    storage.close()


class FakeActor:
    """A process whose calls fail if the test wants it."""

    def __init__(self, calls: list[str], name: str, pulse: Pulse, fails: str) -> None:
        self.calls, self.name, self.pulse, self.fails = calls, name, pulse, fails

    def __getattr__(self, method: str) -> Any:
        from ray.exceptions import RayError

        def remote() -> Any:
            self.calls.append(f"{self.name} {method}")
            if self.fails == f"{self.name} {method}":
                return RayError(method)
            return self.pulse if method == "ping" else self.pulse.node

        return type("Method", (), {"remote": staticmethod(remote)})


class FakeCluster:
    """One shard on node a; node b is empty, and gets it if a is drained."""

    def __init__(self, fails: str = "", has_taken: bool = False) -> None:
        self.calls: list[str] = []
        self.old = FakeActor(self.calls, "old", Pulse("ready", "a", 1, 0, 0, None, 1), fails)
        self.new = FakeActor(self.calls, "new", Pulse("starting", "b", 2, 0, 0, None, 2), fails)
        self.has_taken = has_taken

    def nodes(self) -> list[Node]:
        return [node("a"), node("b")]

    def owner(self, _number: int) -> Owner:
        return Owner("1", 2 if self.has_taken and "new take" in self.calls else 1)

    def shard(self, _number: int, _owner: Owner | None = None) -> FakeActor:
        return self.old

    def start_shard(self, _number: int, generation: int, _layout: ShardLayout, node: str) -> FakeActor:
        assert (generation, node) == (2, "b")
        return self.new

    def kill(self, actor: FakeActor, no_restart: bool) -> None:
        self.calls.append(f"{actor.name} {'end' if no_restart else 'again'}")


def with_fake_ray(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    def get(result: Any, timeout: float) -> Any:
        assert timeout > 0
        if isinstance(result, Exception):
            raise result
        return result

    monkeypatch.setattr(ray, "get", get)
    monkeypatch.setattr(ray, "kill", cluster.kill)
    monkeypatch.setattr(coordinator, "_LEAVE_SECONDS", 0)


def steps(cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int = 1) -> list[str]:
    """Drain node a; return the calls of some steps, without pings."""
    with_fake_ray(cluster, monkeypatch)
    storage = open_test_database(tmp_path)
    with storage.write() as connection:
        claim_shards(connection, "token", 1)
    plan_drain(storage, "a", True)
    mover = Mover(storage, cluster, 1, lambda: ShardLayout("1", 1, b""))  # type: ignore[arg-type]
    for _ in range(count):
        mover.step()
    storage.close()
    return [call for call in cluster.calls if not call.endswith("ping")]


@pytest.mark.ray
@pytest.mark.parametrize(
    ("fails", "calls"),
    [
        ("", ["new prepare", "old drain", "new take", "old end"]),
        ("new prepare", ["new prepare", "new end"]),  # and no further attempt with this node
        ("old drain", ["new prepare", "old drain", "new take", "old end"]),
        ("new take", ["new prepare", "old drain", "new take", "new end", "old again"]),  # and no further one
    ],
)
def test_a_step_of_a_move_fails(
    fails: str, calls: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = FakeCluster(fails)
    assert steps(cluster, tmp_path, monkeypatch, count=2 if "new" in fails else 1) == calls


@pytest.mark.ray
@pytest.mark.parametrize("has_taken", [False, True])
def test_the_old_process_takes_the_shard_again_if_the_new_one_has_not(
    has_taken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = steps(FakeCluster("new take", has_taken), tmp_path, monkeypatch)
    assert calls == ["new prepare", "old drain", "new take", *([] if has_taken else ["new end", "old again"])]


@pytest.mark.ray
def test_a_restart_that_is_requested_during_a_move_is_not_satisfied_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = FakeCluster()
    with_fake_ray(cluster, monkeypatch)
    storage = open_test_database(tmp_path)
    with storage.write() as connection:
        claim = claim_shards(connection, "token", 1)
    storage.take_shard(claim, Shard(0, 1), generation=1)
    plan_drain(storage, "a", True)
    prepare = cluster.new.prepare.remote

    def prepare_during_a_request() -> Any:
        plan_restart(storage, 1, ServiceSettings(unload_seconds=7))
        return prepare()

    cluster.new.prepare = SimpleNamespace(remote=prepare_during_a_request)  # type: ignore[attr-defined]
    Mover(storage, cluster, 1, lambda: ShardLayout("1", 1, b"")).step()  # type: ignore[arg-type]
    assert stored_plan(storage).generations == {0: 3}  # not that of the process that was being prepared
    storage.close()


@pytest.mark.ray
def test_a_restart_goes_on_until_every_shard_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class OneNode(FakeCluster):
        def nodes(self) -> list[Node]:
            return [node("b")]

    ends: list[int] = []
    monkeypatch.setattr(os, "_exit", ends.append)
    cluster = OneNode("new prepare")
    with_fake_ray(cluster, monkeypatch)
    storage = open_test_database(tmp_path)
    with storage.write() as connection:
        claim = claim_shards(connection, "token", 1)
    storage.take_shard(claim, Shard(0, 1), generation=1)
    plan_restart(storage, 1, ServiceSettings())
    mover = Mover(storage, cluster, 1, lambda: ShardLayout("1", 1, b""))  # type: ignore[arg-type]
    for _ in range(3):
        mover.step()
    attempts = [call for call in cluster.calls if not call.endswith("ping")]
    assert attempts == ["new prepare", "new end"]  # the only node is avoided for a while
    assert ends == []
    mover._avoided.clear()
    cluster.new.fails = ""
    mover.step()
    assert cluster.calls[-1] == "old end"
    cluster.old = cluster.new
    cluster.new.pulse = cluster.new.pulse._replace(state="ready")
    mover.step()
    assert ends == [0]  # Ray starts the coordinator again, too
    storage.close()


def test_a_front_end_finds_the_process_that_another_one_starts_meanwhile() -> None:
    class Started:
        """A cluster in which another front end starts the process of the shard before the layout is known."""

        generation = 0

        def owner(self, _number: int) -> Owner:
            return Owner("1", self.generation)

        def shard(self, number: int, owner: Owner | None = None) -> str | None:
            generation = (owner or self.owner(number)).generation
            return f"process {generation}" if generation else None

        def start_shard(self, _number: int, generation: int, _layout: ShardLayout) -> str:
            return f"a second process {generation}"

    front_end: Any = object.__new__(OnRay)
    front_end._cluster = cluster = Started()

    def layout() -> ShardLayout:
        cluster.generation = 1
        return ShardLayout("1", 1, b"")

    front_end._layout = layout
    assert front_end._find_shard(0) == "process 1"


def test_processes_of_another_claim_have_other_names(tmp_path: Path) -> None:
    storage = open_test_database(tmp_path)
    cluster = Cluster(storage)
    names = []
    for token in ("first", "second"):
        with storage.write() as connection:
            claim = claim_shards(connection, token, 1)
            assert owner_of(connection, 0) == Owner(claim, 0)
        storage.take_shard(claim, Shard(0, 1), generation=1)
        assert cluster.owner(0) == Owner(claim, 1)
        names.append(actor_name(0, cluster.owner(0)))
    assert len(set(names)) == 2
    storage.close()


@pytest.mark.ray
def test_nodes_that_have_left_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = open_test_database(tmp_path)
    with storage.write() as connection:
        claim_shards(connection, "token", 1)
    change_plan(storage, lambda _plan, _connection: ShardPlan(draining=("gone", "b")))
    monkeypatch.setattr(Mover, "_placed", lambda _: placed("a"))
    Mover(storage, FakeCluster(), 1, lambda: ShardLayout("1", 1, b"")).step()  # type: ignore[arg-type]
    assert stored_plan(storage).draining == ("b",)
    storage.close()


def test_the_last_known_value_is_returned_while_a_function_fails_or_hangs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(answers_module, "_READ_SECONDS", 0.01)

    async def scenario() -> None:
        calls = []
        free = asyncio.Event()

        async def count() -> int:
            calls.append(1)
            if len(calls) == 2:
                raise StorageError("the database is away")
            if len(calls) == 3:
                await free.wait()
            return len(calls)

        known = LastKnown(count, 0)
        assert [await known.read() for _ in range(4)] == [1, 1, 1, 1]
        assert len(calls) == 3  # not again while it hangs
        free.set()
        assert [await known.read() for _ in range(2)] == [3, 4]

    asyncio.run(scenario())
    assert "background task failed" in caplog.text


def test_administrators_change_the_plan_and_see_it(tmp_path: Path) -> None:
    storage = open_test_database(tmp_path)
    with storage.write() as connection:
        claim_shards(connection, "token", 2)

    async def find(_: int) -> None: ...

    clients = [ShardClient(number, find, 1, 1, 1) for number in range(2)]
    clients[0].pulse = Pulse("ready", "a", 41, 3, 2, None, 1)
    settings = ServiceSettings(unload_seconds=7)
    shards: Any = SimpleNamespace(settings=settings, clients=clients, metrics=HttpMetrics())
    answers = ShardAnswers(shards, storage, Admission(settings), FakeCluster())  # type: ignore[arg-type]

    async def asked(name: str, node: str = "", body: bytes = b"") -> Response:
        scope = {"type": "http", "path_params": {"node": node}, "state": {"content": body}}
        operation = next(one for one in OPERATIONS if one.name == name)
        return await answers.answer(operation, Request(scope))

    async def scenario() -> None:
        drained = await asked("change_node", "host-a", b'{"draining":true}')
        info = msgspec.json.decode(drained.body, type=NodeInfo)
        assert (info.id, info.draining, info.shards) == ("a", True, 1)
        assert stored_plan(storage).draining == ("a",)
        for node in ("c", "10.0.0"):
            with pytest.raises(ApiError, match=f"0 nodes have the id, address or host '{node}'") as caught:
                await asked("change_node", node, b'{"draining":false}')
            assert status_of(caught.value) == 404
        with pytest.raises(ApiError, match="unknown field"):
            await asked("change_node", "a", b'{"drained":false}')
        restarted = await asked("restart_shards")
        assert restarted.status_code == 202
        assert stored_plan(storage).generations == {0: 1, 1: 1}
        wanted = msgspec.json.decode(restarted.body, type=ShardList).shards
        assert [(one.generation, one.wanted) for one in wanted] == [(1, 1), (0, 1)]
        listed = msgspec.json.decode((await asked("list_shards")).body, type=ShardList)
        assert [(one.state, one.node, one.generation) for one in listed.shards] == [
            ("ready", "a", 1),
            ("away", None, 0),
        ]
        assert [(one.id, one.draining, one.shards) for one in listed.nodes] == [
            ("a", True, 1),
            ("b", False, 0),
        ]
        text = exposition([*answers._shard_metrics(), *node_metrics(listed.nodes)]).decode()
        for line in (
            'glcb_shard_up{shard="0"} 1.0',
            'glcb_shard_up{shard="1"} 0.0',
            'glcb_shard_moves{shard="0"} 0.0',
            'glcb_shard_silent_seconds{shard="1"}',
            'glcb_node_shards{host="host-a",node="a"} 1.0',
            'glcb_node_draining{host="host-b",node="b"} 0.0',
        ):
            assert line in text

    asyncio.run(scenario())
    storage.close()
