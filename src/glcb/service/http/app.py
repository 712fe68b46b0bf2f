"""The ASGI application: who comes in, what is hot, and what becomes of trouble."""

import logging
import time
from collections.abc import Awaitable, Callable

from starlette.exceptions import HTTPException

from glcb._errors import GlcbError
from glcb.service.core.engine import Engine
from glcb.service.errors import Problem, as_problem
from glcb.service.http import access, wire
from glcb.service.http import fast_path as hot
from glcb.service.http.operations import ALIVE, allowed
from glcb.service.http.static import is_page, pages
from glcb.service.http.wire import Receive, Scope, Send

log = logging.getLogger("glcb.service")

Lifespan = Callable[[Receive, Send], Awaitable[None]]
Cold = Callable[[Scope, Receive, Send], Awaitable[None]]

_OPEN = "/readyz"
"""Who asks this is answered however much there is to do."""
_GONE = 499
"""Stands for the status of a request whose sender did not wait for the answer."""


class Application:
    """Answers requests, if there are not too many already."""

    def __init__(self, lifespan: Lifespan) -> None:
        self._lifespan = lifespan
        self._ready: tuple[Engine, access.Door, Cold] | None = None
        self._why_not = (
            "starting",
            "the service is starting; the first start compiles the kernels, which takes some 20 seconds: "
            "try again",
        )
        """Code and message; a refusal is made anew each time: it keeps hold of what it was raised through."""

    def begin(self, engine: Engine, door: access.Door, cold: Cold) -> None:
        """Answer from now on."""
        self._ready = engine, door, cold

    def end(self) -> None:
        """Refuse whatever comes from now on."""
        self._why_not = ("stopping", "the service is stopping: try again in a moment")
        self._ready = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Deal with one request."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["path"] == ALIVE and scope["method"] in ("GET", "HEAD"):
            await wire.answer(send, 200, b'{"status":"alive"}')
        elif self._ready is None:
            await self._not_ready(scope, receive, send)
        else:
            await self._counted(*self._ready, scope, receive, send)

    async def _not_ready(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Show the page all the same: it tells how things are, and goes on by itself."""
        try:
            if not is_page(scope["method"], scope["path"]):
                raise Problem(*self._why_not)
            await pages().app(scope, receive, send)
        except Problem as problem:
            await _refuse(send, problem)

    async def _counted(
        self, engine: Engine, door: access.Door, cold: Cold, scope: Scope, receive: Receive, send: Send
    ) -> None:
        metrics, began = engine.metrics, time.perf_counter()
        if metrics.in_flight >= engine.settings.max_requests and scope["path"] != _OPEN:
            metrics.answered("any", 503, 0.0)
            await _refuse(send, Problem("overloaded", "there is too much to do: try again"))
            return
        metrics.in_flight += 1
        noted = _Noted(send)
        try:
            found = hot.matched(scope["method"], scope["path"])
            if found is None:
                scope["app"] = self  # then Starlette raises what it would otherwise answer in its own way
                await cold(scope, receive, noted)
            else:
                scope["glcb.route"], name, decision = found
                access.check(await door.who(scope), "decide", name)
                scope["glcb.experiment"] = name
                content = await hot.answered(engine, name, decision, scope, receive)
                await wire.answer(noted, 200, content)
        except wire.Disconnected:
            noted.status = _GONE
        except Exception as error:
            if noted.begun:
                raise  # half an answer: the connection is closed
            problem = _problem(error, scope)
            engine.refused(scope.get("glcb.experiment"), problem)
            await _refuse(noted, problem)
        finally:
            metrics.in_flight -= 1
            metrics.answered(scope.get("glcb.route", "none"), noted.status, time.perf_counter() - began)


class _Noted:
    """Sends on, and notes the status."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.begun = False
        self.status = 500

    async def __call__(self, message: wire.Message) -> None:
        if message["type"] == "http.response.start":
            self.begun, self.status = True, message["status"]
        await self._send(message)


def _problem(error: Exception, scope: Scope) -> Problem:
    """Return what is told of an error."""
    if isinstance(error, GlcbError):
        return as_problem(error)
    if isinstance(error, HTTPException):
        methods = ", ".join(allowed(scope["path"]))
        if methods:
            told = f"{scope['method']} is not possible here, only {methods}"
            return Problem("method_not_allowed", told, allow=methods)
        return Problem("not_found", "there is nothing here: /openapi.json tells what there is")
    log.error("a request failed", exc_info=error, extra={"route": scope.get("glcb.route", "none")})
    return Problem("internal_error", "something went wrong: the log of the service tells more")


async def _refuse(send: Send, problem: Problem) -> None:
    await wire.answer(send, problem.status, wire.refusal(problem), wire.refusal_headers(problem))
