"""The application asked directly, without a socket in between."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from glcb.service.auth import Keyring
from glcb.service.config import ServiceSettings
from glcb.service.core.engine import Engine
from glcb.service.http import wire
from glcb.service.http.access import Door
from glcb.service.http.app import Application
from glcb.service.http.handlers import Cold
from glcb.service.http.wire import Message
from glcb.service.storage.storage import Storage
from tests.service.made import storage as made

E = "/v1/experiments/home"
CREATION = {"arms": ["a", "b", "c"], "policy": "linucb"}
SECURITY = {name.decode() for name, _ in wire.SECURITY}


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def data(self) -> Any:
        return msgspec.json.decode(self.content)

    @property
    def code(self) -> str:
        return str(self.data["error"]["code"])

    @property
    def message(self) -> str:
        return str(self.data["error"]["message"])


class House:
    """An application and what is behind it."""

    def __init__(self, app: Application, engine: Engine, storage: Storage, door: Door) -> None:
        self.app = app
        self.door = door
        self.engine = engine
        self.storage = storage

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = None,
        pieces: list[bytes] | None = None,
        host: str = "localhost",
        media: str | None = "application/json",
        query: str = "",
    ) -> Answer:
        if pieces is None:
            pieces = [body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)]
        headers = [(b"host", host.encode())]
        if media is not None:
            headers.append((b"content-type", media.encode()))
        if key is not None:
            headers.append((b"authorization", b"Bearer " + key.encode()))
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": headers,
            "root_path": "",
        }
        waiting = [
            {"type": "http.request", "body": piece, "more_body": number < len(pieces) - 1}
            for number, piece in enumerate(pieces)
        ]
        sent: list[Message] = []

        async def receive() -> Message:
            if waiting:
                return waiting.pop(0)
            await asyncio.sleep(3600)
            raise AssertionError

        async def send(message: Message) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        told = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return Answer(sent[0]["status"], told, b"".join(message.get("body", b"") for message in sent[1:]))


async def lifespan(*_: Any) -> None:
    return None


@asynccontextmanager
async def house(folder: Path, clock: Callable[[], float] = time.time, **changes: Any) -> Any:
    storage = made(folder)
    settings = ServiceSettings(**changes)
    engine = Engine(storage, settings, clock)
    await engine.start()
    app = Application(lifespan)
    door = Door(Keyring(storage), settings.host)
    app.begin(engine, door, Cold(engine, storage, door).app)
    yield House(app, engine, storage, door)
    await engine.stop()


def in_house(folder: Path, play: Callable[[House], Awaitable[None]], **changes: Any) -> None:
    """Let something happen in a house."""

    async def run() -> None:
        async with house(folder, **changes) as own:
            await play(own)

    asyncio.run(run())


async def created(house: House, **changes: Any) -> None:
    """Make an experiment, the one at ``E``."""
    answer = await house.ask("PUT", E, {**CREATION, **changes})
    assert answer.status == 201, answer.content
