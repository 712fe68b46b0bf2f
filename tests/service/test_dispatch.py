"""Where a worker answers a request: here, or at the owner of the partition, which can move meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from glcb._errors import StorageError
from glcb.service.config import ServiceSettings
from glcb.service.errors import ApiError
from glcb.service.http import wire
from glcb.service.http.wire import Message, Receive, Scope, Send, read_body
from glcb.service.workers import dispatch
from glcb.service.workers.dispatch import Dispatcher
from glcb.service.workers.forwarding import EPOCH, MOVED, Broken, NotSent, Place, Reply
from glcb.service.workers.inner import Hop
from glcb.service.workers.partitions import WorkerRow

ME = WorkerRow("a", "a1", "/a", None, "host", 1, False, 0)
OTHER = WorkerRow("b", "b1", "/b", "http://b", "host", 2, False, 0)
ROUTE = "/v1/experiments/{name}/decisions"


class FakeMembership:
    """A worker that knows one partition."""

    def __init__(self, owner: WorkerRow | None) -> None:
        self.row = ME
        self.owner = owner
        self.epoch = 1
        self.is_usable = True
        self.inside = 0
        self.refreshes = 0
        self.on_refresh: Callable[[], None] = lambda: None

    def is_open(self, _partition: int) -> bool:
        return self.is_usable and self.owner is ME

    async def settled(self, _partition: int) -> bool:
        return self.is_usable and self.owner is ME

    def enter(self, _partition: int) -> None:
        self.inside += 1

    def exit(self, _partition: int) -> None:
        self.inside -= 1

    def owner_of(self, _partition: int) -> tuple[WorkerRow | None, int]:
        return self.owner, self.epoch

    async def wait_for_owner(self, partition: int) -> tuple[WorkerRow | None, int]:
        return self.owner_of(partition)

    async def refresh(self) -> None:
        self.refreshes += 1
        self.on_refresh()

    def move(self, owner: WorkerRow | None) -> None:
        self.owner, self.epoch = owner, self.epoch + 1


class FakePeer:
    """Another worker: what it answers, and what it has received."""

    max_waiting = 10
    max_bytes = 1_000_000

    def __init__(self) -> None:
        self.row = OTHER
        self.waiting = self.bytes = self.forwarded = 0
        self.received: list[bytes] = []
        self.answers: list[Reply | Exception] = []

    def place(self) -> Place:
        return Place(self)  # type: ignore[arg-type]

    async def acquire(self, _is_large: bool = False) -> "FakePeer":
        return self

    def release(self, _connection: object, _is_large: bool = False) -> None:
        pass

    def report(self, _reason: str) -> None:
        pass

    async def ask(self, head: bytes, body: bytes = b"") -> Reply:
        answer = self.answers.pop(0) if self.answers else Reply(200, [], b"there", None)
        if isinstance(answer, Exception):
            raise answer
        self.received.append(head + body)
        return answer

    def to(self, _row: WorkerRow) -> "FakePeer":
        return self


class Here:
    """An application that reads the body, and answers."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.status = 200
        self.inside: list[int] = []
        self.membership: FakeMembership | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(scope, receive, 1000, 10, lambda _: None)
        self.bodies.append(body)
        assert self.membership is not None
        self.inside.append(self.membership.inside)
        scope["glcb.route"] = ROUTE
        await send({"type": "http.response.start", "status": self.status, "headers": []})
        self.inside.append(self.membership.inside)
        await send({"type": "http.response.body", "body": b"here"})

    async def refuse(self, problem: ApiError, _scope: Scope, send: Send) -> None:
        await wire.send_json(send, wire.error_answer(problem))


class World:
    def __init__(self, owner: WorkerRow | None) -> None:
        self.membership, self.peer, self.here = FakeMembership(owner), FakePeer(), Here()
        self.here.membership = self.membership
        self.admitted = self.confirmed = 0
        self.is_replaced = False
        app: Any = self.here
        self.dispatcher = Dispatcher(app, ServiceSettings())
        known: Any = self.membership
        peers: Any = self.peer

        async def experiment_of(_scope: Scope) -> str:
            return "home"

        async def admit(_scope: Scope) -> None:
            self.admitted += 1

        self.dispatcher.open(known, peers, self._confirm, experiment_of, admit)

    async def _confirm(self) -> None:
        self.confirmed += 1
        if self.is_replaced:
            raise StorageError("another service has taken over")

    async def ask(
        self,
        *parts: bytes,
        between: Callable[[], None] = lambda: None,
        hop: Hop | None = None,
        path: str = "/v1/experiments/home/decisions",
    ) -> tuple[int, dict[bytes, bytes], bytes]:
        remaining, sent = list(parts or (b"",)), list[Message]()

        async def receive() -> Message:
            if len(remaining) < len(parts):
                between()
            part = remaining.pop(0)
            return {"type": "http.request", "body": part, "more_body": bool(remaining)}

        async def send(message: Message) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "headers": []}
        scope |= {"query_string": b"", "client": ("10.0.0.1", 80)}
        await self.dispatcher.answer(scope, receive, send, hop)
        body = b"".join(one.get("body", b"") for one in sent[1:])
        return sent[0]["status"], dict(sent[0]["headers"]), body


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        await asyncio.wait_for(scenario(), 10)

    asyncio.run(limited())


def test_a_request_is_inside_of_its_partition_until_its_response_begins() -> None:
    async def scenario() -> None:
        world = World(ME)
        assert (await world.ask(b"bo", b"dy"))[2] == b"here"
        assert world.here.bodies == [b"body"]
        assert world.here.inside == [1, 0]

    run(scenario)


def test_a_response_without_an_event_is_confirmed_and_one_of_a_replaced_worker_is_not_sent() -> None:
    async def scenario() -> None:
        world = World(ME)
        await world.ask()
        assert world.confirmed == 0  # the event is on disk
        world.here.status = 404
        await world.ask()
        assert world.confirmed == 1
        world.is_replaced = True
        status, _, body = await world.ask()
        assert (status, b"storage_unavailable" in body) == (503, True)
        assert world.membership.inside == 0

    run(scenario)


def test_a_request_whose_partition_moves_while_it_arrives_follows_with_its_whole_body() -> None:
    async def scenario() -> None:
        world = World(ME)
        _, _, body = await world.ask(b"bo", b"dy", between=lambda: world.membership.move(OTHER))
        assert body == b"there"
        assert world.here.bodies == []
        (request,) = world.peer.received
        assert request.endswith(b"content-length: 4\r\n\r\nbody")
        assert b"glcb-hop: 2 10.0.0.1 80" in request
        assert (world.peer.waiting, world.peer.bytes, world.membership.inside) == (0, 0, 0)

    run(scenario)


def test_a_request_follows_a_partition_that_has_moved_and_may_end_here() -> None:
    async def scenario() -> None:
        world = World(OTHER)
        world.peer.answers = [Reply(MOVED, [(EPOCH, b"2")], b"", None)]
        world.membership.on_refresh = lambda: world.membership.move(ME)
        assert (await world.ask(b"body"))[2] == b"here"
        assert world.here.bodies == [b"body"]

    run(scenario)


def test_a_request_waits_for_an_owner_that_does_not_know_yet_that_it_is_one() -> None:
    async def scenario() -> None:
        world = World(OTHER)
        world.peer.answers = [Reply(MOVED, [(EPOCH, b"1")], b"", None)] * 3
        assert (await world.ask(b"body"))[2] == b"there"
        assert len(world.peer.received) == 4

    run(scenario)


def test_a_worker_that_cannot_be_reached_costs_one_503_unless_it_was_replaced() -> None:
    async def scenario() -> None:
        world = World(OTHER)
        world.peer.answers = [NotSent("nobody listens")]
        status, _, body = await world.ask()
        assert (status, b"worker_unavailable" in body) == (503, True)
        world.peer.answers = [NotSent("nobody listens")]
        world.membership.on_refresh = lambda: world.membership.move(OTHER)
        assert (await world.ask())[2] == b"there"

    run(scenario)


def test_a_request_is_not_sent_again_after_its_connection_broke() -> None:
    async def scenario() -> None:
        world = World(OTHER)
        world.peer.answers = [Broken()]
        assert (await world.ask())[0] == 503
        assert world.peer.received == []
        assert world.membership.refreshes == 0

    run(scenario)


def test_a_partition_of_this_worker_that_cannot_be_opened_is_503_and_blocks_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(dispatch, "MOVE_SECONDS", 0.1)
        world = World(ME)
        world.membership.is_usable = False
        waiting = asyncio.ensure_future(world.ask())
        await asyncio.sleep(0.01)  # others run
        assert (await waiting)[0] == 503

    run(scenario)


def test_a_free_partition_is_503() -> None:
    async def scenario() -> None:
        assert (await World(None).ask())[0] == 503

    run(scenario)


@pytest.mark.parametrize(("epoch", "refreshes"), [(1, 0), (2, 1)])
def test_a_request_of_another_worker_is_not_forwarded_again(epoch: int, refreshes: int) -> None:
    async def scenario() -> None:
        world = World(OTHER)
        status, headers, _ = await world.ask(b"body", hop=Hop(epoch, None))
        assert (status, headers[EPOCH]) == (MOVED, b"1")
        assert world.peer.received == world.here.bodies == []
        assert world.membership.refreshes == refreshes

    run(scenario)


def test_a_worker_learns_from_a_request_that_it_is_the_owner() -> None:
    async def scenario() -> None:
        world = World(OTHER)
        world.membership.on_refresh = lambda: world.membership.move(ME)
        assert (await world.ask(b"body", hop=Hop(2, None)))[2] == b"here"

    run(scenario)


def test_the_entry_applies_the_body_limit_and_names_the_owner() -> None:
    async def scenario() -> None:
        world = World(OTHER)
        status, _, body = await world.ask(b"x" * 600_000, b"x" * 600_000)
        assert (status, b"too_large" in body) == (413, True)
        assert world.peer.received == []
        assert world.peer.bytes == 0
        _, headers, _ = await world.ask(b"body")
        assert headers[b"glcb-worker"] == b"b"

    run(scenario)
