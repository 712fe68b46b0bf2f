"""The application in the long run: what requests leave behind, and whom they keep waiting."""

import asyncio
import gc
import weakref
from typing import Any

from glcb.service.http.app import Application
from tests.service.asgi import lifespan


class Scope(dict[str, Any]):
    """A scope of which one can tell whether it is still there."""


def test_refusals_at_the_start_keep_nothing_of_the_requests() -> None:
    async def send(_: object) -> None:
        return None

    async def refused(app: Application) -> weakref.ref[Scope]:
        scope = Scope(type="http", method="GET", path="/v1/experiments", headers=[])
        await app(scope, send, send)  # type: ignore[arg-type]  # of which nothing is read
        return weakref.ref(scope)

    app = Application(lifespan)
    scopes = [asyncio.run(refused(app)) for _ in range(3)]
    gc.collect()
    assert [scope() for scope in scopes] == [None] * 3
