"""The ASGI application: admission, routing to the fast path or the handlers, and error responses."""

import logging
import time
from collections.abc import Awaitable, Callable

from starlette.exceptions import HTTPException

from glcb._errors import GlcbError
from glcb.service.core.engine import Engine
from glcb.service.errors import ApiError, as_api_error
from glcb.service.http import access, fast_path, wire
from glcb.service.http.operations import LIVENESS, READINESS, allowed_methods
from glcb.service.http.static import is_page, pages
from glcb.service.http.wire import Receive, Scope, Send

log = logging.getLogger("glcb.service")

Lifespan = Callable[[Receive, Send], Awaitable[None]]
Router = Callable[[Scope, Receive, Send], Awaitable[None]]

_CLIENT_CLOSED_REQUEST = 499
"""The status recorded for a request whose client disconnected."""


class Application:
    """The ASGI application. It answers with 503 until :meth:`open` and after :meth:`close`.

    Parameters
    ----------
    lifespan
        Handles the ASGI lifespan messages.
    """

    def __init__(self, lifespan: Lifespan) -> None:
        self._lifespan = lifespan
        self._serving: tuple[Engine, access.Authenticator, Router] | None = None
        # Code and message. A raised exception would keep a reference to the request.
        self._unavailable = (
            "starting",
            "the service is starting; the first start compiles kernels, which takes 20 to 30 seconds: retry",
        )

    def open(self, engine: Engine, authenticator: access.Authenticator, router: Router) -> None:
        """Start serving requests; ``router`` handles all routes outside the fast path."""
        self._serving = engine, authenticator, router

    def close(self) -> None:
        """Refuse requests from now on."""
        self._unavailable = ("stopping", "the service is stopping: retry in a moment")
        self._serving = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, or the lifespan of the server."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["path"] == LIVENESS and scope["method"] in ("GET", "HEAD"):
            await wire.send_json(send, 200, b'{"status":"alive"}')
        elif self._serving is None:
            await self._refuse_all_but_the_page(scope, receive, send)
        else:
            await self._serve(*self._serving, scope, receive, send)

    async def _refuse_all_but_the_page(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the dashboard, which shows the state of the service and reconnects automatically."""
        try:
            if not is_page(scope["method"], scope["path"]):
                raise ApiError(*self._unavailable)
            await pages().app(scope, receive, send)
        except ApiError as error:
            await _send_error(send, error)

    async def _serve(
        self,
        engine: Engine,
        authenticator: access.Authenticator,
        router: Router,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        metrics, began = engine.metrics, time.perf_counter()
        if metrics.in_flight >= engine.settings.max_concurrent_requests and scope["path"] != READINESS:
            metrics.add_request("any", 503, 0.0)
            await _send_error(send, ApiError("overloaded", "the service has too many open requests: retry"))
            return
        metrics.in_flight += 1
        recorder = _StatusRecorder(send)
        try:
            match = fast_path.match(scope["method"], scope["path"])
            if match is None:
                scope["app"] = self  # makes Starlette raise errors instead of answering them itself
                await router(scope, receive, recorder)
            else:
                scope["glcb.route"], name, decision = match
                access.authorize(await authenticator.authenticate(scope), "decide", name)
                scope["glcb.experiment"] = name
                content = await fast_path.handle(engine, name, decision, scope, receive)
                await wire.send_json(recorder, 200, content)
        except wire.Disconnected:
            recorder.status = _CLIENT_CLOSED_REQUEST
        except Exception as error:
            if recorder.started:
                raise  # the response is incomplete: the server closes the connection
            problem = _as_problem(error, scope)
            engine.count_error(scope.get("glcb.experiment"), problem)
            await _send_error(recorder, problem)
        finally:
            metrics.in_flight -= 1
            metrics.add_request(scope.get("glcb.route", "none"), recorder.status, time.perf_counter() - began)


class _StatusRecorder:
    """Forwards ASGI messages and records the status of the response."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False
        self.status = 500

    async def __call__(self, message: wire.Message) -> None:
        if message["type"] == "http.response.start":
            self.started, self.status = True, message["status"]
        await self._send(message)


def _as_problem(error: Exception, scope: Scope) -> ApiError:
    if isinstance(error, GlcbError):
        return as_api_error(error)
    if isinstance(error, HTTPException):
        methods = ", ".join(allowed_methods(scope["path"]))
        if methods:
            message = f"this route does not support {scope['method']}, only {methods}"
            return ApiError("method_not_allowed", message, allow=methods)
        return ApiError("not_found", "there is no such route: /openapi.json lists all routes")
    log.error("a request failed", exc_info=error, extra={"route": scope.get("glcb.route", "none")})
    return ApiError("internal_error", "the service failed: see its log for details")


async def _send_error(send: Send, error: ApiError) -> None:
    await wire.send_json(send, error.status, wire.error_body(error), wire.error_headers(error))
