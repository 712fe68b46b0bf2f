"""The one place that decides where a request is answered: here, or by the worker that owns its experiment."""

import asyncio
from collections.abc import Awaitable, Callable

from glcb._errors import GlcbError
from glcb.integrations.personalizer import PREFIX
from glcb.service.config import ServiceSettings
from glcb.service.errors import ApiError, as_api_error
from glcb.service.http import wire
from glcb.service.http.app import Application
from glcb.service.http.operations import DECISION_ROUTES
from glcb.service.http.wire import Message, Misdirected, Receive, Scope, Send
from glcb.service.storage.ownership import partition_of
from glcb.service.workers.forwarding import (
    EPOCH,
    MOVED,
    Broken,
    NotSent,
    Peer,
    PeerConnection,
    Peers,
    Reply,
    header_of,
    request_head,
    visible_headers,
)
from glcb.service.workers.inner import Hop, take_hop
from glcb.service.workers.membership import MOVE_SECONDS, Membership

_EXPERIMENTS = "/v1/experiments/"
_UPLOAD_TIMES = 10
"""A client may take this many times as long for a model file as for another body."""

_PAUSE_SECONDS = 0.02
_OWNER = b"glcb-worker"
"""The header with the name of the worker that has answered instead of this one."""
ExperimentOf = Callable[[Scope], Awaitable[str]]
"""Returns the experiment of a Personalizer request, through its API key; raises ApiError."""


class Dispatcher:
    """The ASGI application of a worker. Requests of clients and of other workers come here.

    Parameters
    ----------
    app
        The application of a service that is one process.
    settings
        Its settings.
    """

    def __init__(self, app: Application, settings: ServiceSettings) -> None:
        self.inner = InnerApplication(self)
        """Answers the requests of other workers."""
        self._app = app
        self._settings = settings
        self._membership: Membership | None = None

    def open(
        self,
        membership: Membership,
        peers: Peers,
        confirm: Callable[[], Awaitable[None]],
        experiment_of: ExperimentOf,
        admit: Callable[[Scope], Awaitable[None]],
    ) -> None:
        """Divide requests among the workers from now on.

        Parameters
        ----------
        membership
            Knows who owns what.
        peers
            The other workers.
        confirm
            Returns once it is certain that this worker has not been replaced; raises StorageError.
        experiment_of
            Finds the experiment of Personalizer requests.
        admit
            Raises ApiError if a request has no valid API key. Its owner checks what the key permits.
        """
        self._peers, self._confirm, self._experiment_of = peers, confirm, experiment_of
        self._admit = admit
        self._membership = membership

    def close(self) -> None:
        """Reject requests from now on."""
        self._app.close()

    async def reject(self, problem: ApiError, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that the server could not parse."""
        await self._app.reject(problem, scope, receive, send)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request of a client."""
        if scope["type"] != "http" or self._membership is None:
            await self._app(scope, receive, send)
            return
        await self.answer(scope, receive, send, None)

    async def answer(self, scope: Scope, receive: Receive, send: Send, hop: Hop | None) -> None:
        """Answer a request of a client, or one that another worker has sent with a hop mark."""
        try:
            name = await self._experiment(scope)
            if name is None or scope["method"] == "OPTIONS":
                await self._app(scope, receive, send)
            else:
                await self._answer_for(partition_of(name), scope, receive, send, hop)
        except wire.Disconnected:
            raise
        except GlcbError as error:
            await self._app.refuse(as_api_error(error), scope, send)

    async def _experiment(self, scope: Scope) -> str | None:
        """Return the experiment of a request; None if it is not about one."""
        path: str = scope["path"]
        if path.startswith(_EXPERIMENTS):
            return path[len(_EXPERIMENTS) :].partition("/")[0]
        if path.startswith(PREFIX):
            return await self._experiment_of(scope)
        return None

    async def _answer_for(
        self, partition: int, scope: Scope, receive: Receive, send: Send, hop: Hop | None
    ) -> None:
        """Answer a request where its partition is, and follow the partition if it moves."""
        assert self._membership is not None
        membership, body = self._membership, _Body(receive)
        while True:
            if membership.is_open(partition) or await membership.settled(partition):
                visit = _PartitionVisit(membership, partition, scope, body, send, self._confirm)
                try:
                    await self._app(scope, visit.receive, visit.send)
                    return
                except Misdirected:  # it moved while the request was being read
                    continue
                finally:
                    visit.end()
            if hop is None:
                if await self._forward(partition, scope, body, send):
                    return
            elif membership.owner_of(partition)[1] < hop.epoch:  # the sender knows more
                await membership.refresh()
                hop = hop._replace(epoch=0)
            else:
                await _say_moved(membership.owner_of(partition)[1], send)
                return

    # ---- forwarding -----------------------------------------------------------------------------

    async def _forward(self, partition: int, scope: Scope, body: "_Body", send: Send) -> bool:
        """Send a request to the owner of its partition; return False if that is this worker by now."""
        assert self._membership is not None
        membership, loop = self._membership, asyncio.get_running_loop()
        deadline = loop.time() + MOVE_SECONDS
        row, epoch = await membership.wait_for_owner(partition)
        while row is not None and row.incarnation != membership.row.incarnation:
            try:
                newer = await self._exchange(self._peers.to(row), scope, body, epoch, send)
            except NotSent as error:
                newer, reason = epoch + 1, str(error)
            else:
                reason = "its partition moves"
            if newer is None:
                return True
            if newer <= epoch:  # it has not seen yet that it is the owner
                await asyncio.sleep(_PAUSE_SECONDS)
            await membership.refresh()
            known = membership.owner_of(partition)
            if loop.time() > deadline or (known == (row, epoch) and newer > epoch):
                self._peers.to(row).report(reason)
                raise _unavailable()
            row, epoch = known
        if row is None:
            raise _unavailable()
        while not await membership.settled(partition):  # its experiments cannot be listed
            if membership.owner_of(partition)[0] != row:
                return False
            if loop.time() > deadline:
                raise _unavailable()
            await asyncio.sleep(_PAUSE_SECONDS)
        return False

    async def _exchange(self, peer: Peer, scope: Scope, body: "_Body", epoch: int, send: Send) -> int | None:
        """Send a request once, and its response on; return the epoch instead if the partition has moved."""
        settings, path = self._settings, scope["path"]
        if body.is_gone:
            raise _unavailable()
        is_model = path.endswith("/model")
        is_large = (
            is_model
            and scope["method"] == "PUT"
            and not body.is_complete
            and wire.content_length(scope) > settings.max_body_bytes
        )
        hop = Hop(epoch, scope.get("client"))
        await self._admit(scope)
        with peer.place() as place:
            if body.is_complete:
                place.hold(body.size)
            elif not is_large:
                body.replay()
                most, seconds = settings.max_body_bytes, settings.request_seconds
                await wire.read_body(scope, body.receive, most, seconds, place.hold)
            has_own = is_model or path.endswith("/export")
            connection = await peer.acquire(has_own)
            try:
                if is_large:
                    reply = await self._upload(connection, scope, body, hop)
                else:
                    length = body.size if body.size or scope["method"] not in ("GET", "HEAD") else None
                    reply = await connection.ask(request_head(scope, hop, length), body.content)
                if reply.status == MOVED:
                    return int(header_of(reply, EPOCH) or 0)
                if peer.row.advertise is not None:
                    reply.headers.append((_OWNER, peer.row.name.encode()))
                await _send_on(reply, send)
            except Broken:
                peer.report("the connection is broken")
                raise _unavailable() from None
            finally:
                peer.release(connection, has_own)
        return None

    async def _upload(self, connection: PeerConnection, scope: Scope, body: "_Body", hop: Hop) -> Reply:
        """Send a large body in parts, once the owner permits it."""
        length = wire.content_length(scope)
        reply = await connection.permitted(request_head(scope, hop, length, expect=True))
        if reply is not None:
            return reply
        async with asyncio.timeout(_UPLOAD_TIMES * self._settings.request_seconds):
            more = True
            while more:
                message = await body.receive()
                if message["type"] == "http.disconnect":
                    raise wire.Disconnected
                await connection.send_part(message["body"])
                body.forget()
                body.is_gone = True
                more = message["more_body"]
            return await connection.reply()


async def _send_on(reply: Reply, send: Send) -> None:
    """Send the response of another worker to the client."""
    headers = visible_headers(reply)
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    if reply.more is not None:
        try:
            async for part in reply.more:
                await send({"type": "http.response.body", "body": part, "more_body": True})
        except Broken:
            raise wire.Disconnected from None  # the client must see that the response is incomplete
    await send({"type": "http.response.body", "body": reply.body})


def _unavailable() -> ApiError:
    return ApiError(
        "worker_unavailable",
        "the worker that owns this experiment does not respond, or is being replaced: retry",
    )


async def _say_moved(epoch: int, send: Send) -> None:
    """Answer that the partition is not here; nothing has been done."""
    headers = [(EPOCH, b"%d" % epoch), (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": MOVED, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


class InnerApplication:
    """Answers the requests of other workers, which have a hop mark."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        hop = take_hop(scope)
        scope["client"] = hop.client
        scope["glcb.inner"] = True
        await self._dispatcher.answer(scope, receive, send, hop)

    async def reject(self, problem: ApiError, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that could not be parsed."""
        await self._dispatcher.reject(problem, scope, receive, send)


class _Body:
    """The body of a request, which is needed again if the partition moves while it is being received."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._parts: list[bytes] = []
        self._next = 0
        self.size = 0
        self.is_complete = False
        self.is_gone = False
        """Whether parts of it were passed on, and not kept."""

    @property
    def content(self) -> bytes:
        """The whole body."""
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)

    def replay(self) -> None:
        """Begin again with what was received."""
        self._next = 0

    def forget(self) -> None:
        """Keep nothing of what was received: it will not be needed again."""
        self._parts.clear()
        self._next = 0

    async def receive(self) -> Message:
        """Receive the next part, which may have been received before."""
        if self._next == len(self._parts):
            message = await self._receive()
            if message["type"] != "http.request":
                return message
            self._parts.append(message.get("body", b""))
            self.size += len(self._parts[-1])
            self.is_complete = not message.get("more_body", False)
        part = self._parts[self._next]
        self._next += 1
        more = self._next < len(self._parts) or not self.is_complete
        return {"type": "http.request", "body": part, "more_body": more}


class _PartitionVisit:
    """A request in a partition of this worker: from the end of its body to the beginning of its response."""

    def __init__(
        self,
        membership: Membership,
        partition: int,
        scope: Scope,
        body: _Body,
        send: Send,
        confirm: Callable[[], Awaitable[None]],
    ) -> None:
        self._membership = membership
        self._partition = partition
        self._scope = scope
        self._body = body
        self._send = send
        self._confirm = confirm
        self._is_inside = False
        self._has_started = False
        body.replay()

    async def receive(self) -> Message:
        """Receive a part of the body. With the last one, the request enters the partition."""
        message = await self._body.receive()
        if message["type"] == "http.request" and not message["more_body"] and not self._is_inside:
            if not self._membership.is_open(self._partition):
                raise Misdirected
            self._membership.enter(self._partition)
            self._is_inside = True
            self._body.forget()
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the response. With the first one, the request leaves the partition.

        A decision or a reward is on disk by now. Anything else is sent only if this worker has not been
        replaced: what it has read may be outdated.
        """
        if not self._has_started:
            status = message["status"]
            if status < 500 and not (status < 300 and self._scope.get("glcb.route") in DECISION_ROUTES):
                await self._confirm()
            self._has_started = True
            self.end()
        await self._send(message)

    def end(self) -> None:
        """Leave the partition."""
        if self._is_inside:
            self._is_inside = False
            self._membership.exit(self._partition)
