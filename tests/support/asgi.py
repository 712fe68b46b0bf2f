"""Requests to the application without a socket."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from glcb.service.access import api_keys
from glcb.service.access.api_keys import Keyring
from glcb.service.access.sessions import Sessions
from glcb.service.config import ServiceSettings
from glcb.service.engine.engine import Engine
from glcb.service.http import wire
from glcb.service.http.admission import Admission
from glcb.service.http.app import Application
from glcb.service.http.authentication import Authenticator
from glcb.service.http.handlers import Handlers
from glcb.service.http.people import People, SessionHandlers
from glcb.service.http.routes import Routes
from glcb.service.http.tracing import Tracing
from glcb.service.http.wire import Message
from glcb.service.storage.database import Database
from tests.support.builders import open_test_database as made

E = "/v1/experiments/home"
CREATION = {"arms": ["a", "b", "c"], "policy": "linucb"}
SECURITY_HEADERS = {name.decode() for name, _ in wire.SECURITY_HEADERS}


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


class Service:
    """An application with its engine and storage."""

    def __init__(
        self,
        app: Application,
        engine: Engine,
        storage: Database,
        authenticator: Authenticator,
        admission: Admission,
    ) -> None:
        self.app = app
        self.admission = admission
        self.authenticator = authenticator
        self.engine = engine
        self.storage = storage

    def add_key(self, name: str, role: str, experiments: Sequence[str] = ()) -> str:
        """Return the secret of a new API key, which the service knows at once."""
        secret = api_keys.add_key(self.storage, name, role, experiments)
        self.authenticator.keyring.refresh()
        return secret

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
        more_headers: Mapping[str, str] | None = None,
        client: str = "127.0.0.1",
    ) -> Answer:
        if pieces is None:
            pieces = [body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)]
        headers = [(b"host", host.encode())]
        if media is not None:
            headers.append((b"content-type", media.encode()))
        if key is not None:
            headers.append((b"authorization", b"Bearer " + key.encode()))
        headers.extend((name.encode(), value.encode()) for name, value in (more_headers or {}).items())
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": headers,
            "root_path": "",
            "client": (client, 40_000),
        }
        messages = [
            {"type": "http.request", "body": piece, "more_body": number < len(pieces) - 1}
            for number, piece in enumerate(pieces)
        ]
        sent: list[Message] = []

        async def receive() -> Message:
            if messages:
                return messages.pop(0)
            await asyncio.sleep(3600)
            raise AssertionError

        async def send(message: Message) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        headers_sent = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        return Answer(
            sent[0]["status"], headers_sent, b"".join(message.get("body", b"") for message in sent[1:])
        )


async def lifespan(*_: Any) -> None:
    return None


@asynccontextmanager
async def running_service(folder: Path, **changes: Any) -> Any:
    storage = made(folder)
    settings = ServiceSettings(**changes)
    engine = Engine(storage, settings)
    await engine.start()
    app = Application(lifespan, settings.cors_origins)
    keyring = Keyring(storage)
    keyring.refreshed_at = 0.0  # look for new keys at once
    people = People(settings, Sessions(storage, keyring, settings.session_hours * 3600))
    authenticator = Authenticator(keyring, settings.host, settings.require_keys, people)
    admission = Admission(settings)
    tracing = None if settings.trace_endpoint is None else Tracing(settings.trace_endpoint)
    traced = engine if tracing is None else tracing.trace(engine)
    answers = Handlers(engine, storage, admission, traced)
    session_routes = SessionHandlers(people, authenticator.find, settings.request_seconds)
    routes = Routes(answers, session_routes, settings, authenticator, admission)
    app.open(traced, authenticator, admission, routes.app)
    yield Service(app, engine, storage, authenticator, admission)
    await engine.stop()
    if tracing is not None:
        await tracing.close()


def with_service(folder: Path, scenario: Callable[[Service], Awaitable[None]], **changes: Any) -> None:
    """Run a scenario with a service of its own; ``changes`` are service settings."""

    async def run() -> None:
        async with running_service(folder, **changes) as service:
            await scenario(service)

    asyncio.run(run())


async def create_experiment(service: Service, **changes: Any) -> None:
    """Create the experiment at ``E``."""
    answer = await service.ask("PUT", E, {**CREATION, **changes})
    assert answer.status == 201, answer.content
