"""The ASGI application: routing to decisions or to the other handlers, and error responses."""

import logging
import time
from collections.abc import Awaitable, Callable, Sequence

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from glcb._errors import GlcbError
from glcb.integrations.personalizer import PREFIX, canonical_path
from glcb.service.errors import ApiError, as_api_error
from glcb.service.http import decisions, personalizer, publish, tracing, wire
from glcb.service.http.admission import Admission, Lease
from glcb.service.http.authentication import Authenticator
from glcb.service.http.backend import Backend
from glcb.service.http.cors import Cors
from glcb.service.http.decisions import Decisions
from glcb.service.http.errors import HttpError, status_of
from glcb.service.http.operations import LIVENESS, allowed_methods
from glcb.service.http.static import is_page, pages
from glcb.service.http.wire import JsonAnswer, Receive, Scope, Send

log = logging.getLogger("glcb.service")

Lifespan = Callable[[Receive, Send], Awaitable[None]]
Router = Callable[[Scope, Receive, Send], Awaitable[None]]

_CLIENT_CLOSED_REQUEST = 499
"""The status recorded for a request whose client disconnected."""
_MISDIRECTED_REQUEST = 421
"""The status recorded for a request whose experiment has moved to another worker."""
_QUIET_SECONDS = 60.0
"""Time for which an error that its client cannot see is not logged again."""
_SMALL_BYTES = 65_536
"""Smaller responses are not counted: the number of connections limits them."""


class Application:
    """The ASGI application. It answers with 503 until :meth:`open` and after :meth:`close`.

    Parameters
    ----------
    lifespan
        Handles the ASGI lifespan messages.
    cors_origins
        The origins of web pages that may call the service.
    """

    def __init__(self, lifespan: Lifespan, cors_origins: Sequence[str] = ()) -> None:
        self._lifespan = lifespan
        self._cors = Cors(cors_origins) if cors_origins else None
        self._serving: _Serving | None = None
        # Code and message. A raised exception would keep a reference to the request.
        self._unavailable = (
            "starting",
            "the service is starting: kernels are being loaded, or compiled on the first start, which takes "
            "about 10 seconds: retry",
        )

    def open(
        self, engine: Backend, authenticator: Authenticator, admission: Admission, router: Router
    ) -> None:
        """Start serving requests; ``router`` handles all routes except those of single decisions."""
        self._serving = _Serving(engine, authenticator, admission, router)

    def close(self) -> None:
        """Refuse requests from now on."""
        self._unavailable = ("stopping", "the service is stopping: retry in a moment")
        self._serving = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, or the lifespan of the server."""
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif self._cors is not None and self._cors.is_preflight(scope):
            await self._cors.answer_preflight(scope, send)
        else:
            await self._serve(scope, receive, send if self._cors is None else self._cors.permit(scope, send))

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == LIVENESS and scope["method"] in ("GET", "HEAD"):
            await wire.send_json(send, JsonAnswer(200, b'{"status":"alive"}'))
        elif self._serving is None:
            await self._refuse_all_but_the_page(scope, receive, send)
        else:
            scope["app"] = self  # makes Starlette raise errors instead of answering them itself
            if self._serving.engine.settings.trace_endpoint is None:
                await self._serving.serve(scope, receive, send)
            else:
                with tracing.within(tracing.parent_of(scope["headers"])):
                    await self._serving.serve(scope, receive, send)

    async def _refuse_all_but_the_page(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the dashboard, which shows the state of the service and reconnects automatically."""
        try:
            if not is_page(scope["method"], scope["path"]):
                raise ApiError(*self._unavailable)
            await pages().app(scope, receive, send)
        except ApiError as error:
            await wire.send_json(send, wire.error_answer(error))

    async def refuse(self, problem: ApiError, scope: Scope, send: Send) -> None:
        """Answer with an error before the application sees the request."""
        answer = personalizer.error_answer if scope["path"].startswith(PREFIX) else wire.error_answer
        await wire.send_json(send if self._cors is None else self._cors.permit(scope, send), answer(problem))

    async def reject(self, problem: ApiError, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that the server could not parse."""
        if self._serving is not None:
            self._serving.engine.metrics.add_request("none", status_of(problem), 0.0)
        await wire.send_json(send, wire.error_answer(problem))


class _Serving:
    """Answers requests while the service runs."""

    def __init__(
        self, engine: Backend, authenticator: Authenticator, admission: Admission, router: Router
    ) -> None:
        self.engine = engine
        self._decisions = Decisions(engine, authenticator, admission)
        self._router = router
        self._withheld: dict[str, float] = {}
        """When errors of each code are logged again."""

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        metrics, began = self.engine.metrics, time.perf_counter()
        metrics.in_flight += 1
        recorder = _Recorder(send, scope)
        try:
            refusal = await self._respond(scope, receive, recorder)
            if refusal is not None:
                await wire.send_json(recorder, refusal)
        except (wire.Disconnected, ClientDisconnect):
            recorder.status = _CLIENT_CLOSED_REQUEST
        except wire.Misdirected:
            recorder.status = _MISDIRECTED_REQUEST
            raise
        finally:
            lease: Lease | None = scope.get("glcb.lease")
            if lease is not None:
                lease.close()
            metrics.in_flight -= 1
            metrics.add_request(scope.get("glcb.route", "none"), recorder.status, time.perf_counter() - began)

    async def _respond(self, scope: Scope, receive: Receive, recorder: "_Recorder") -> JsonAnswer | None:
        """Answer a request, or return the error response to send instead.

        The error itself ends here, in no variable: its traceback refers to the response that it replaces,
        which can be large.
        """
        try:
            asked = decisions.match(scope["method"], scope["path"])
            if asked is None:
                if scope["path"].startswith(PREFIX):
                    scope["path"] = canonical_path(scope["path"])
                await self._router(scope, receive, recorder)
            else:
                content = await self._decisions.answer(asked, scope, receive)
                await wire.send_json(recorder, JsonAnswer(200, content))
        except (wire.Disconnected, wire.Misdirected, ClientDisconnect):
            raise
        except Exception as error:
            if recorder.has_started:
                raise  # the response is incomplete: the server closes the connection
            return self._refusal(error, scope)
        return None

    def _refusal(self, error: Exception, scope: Scope) -> JsonAnswer:
        """Count an error and return its response."""
        problem = _as_problem(error, scope)
        self.engine.count_error(scope.get("glcb.experiment"), problem)
        answer = personalizer.error_answer if scope["path"].startswith(PREFIX) else wire.error_answer
        return answer(self._visible(problem, scope))

    def _visible(self, problem: ApiError, scope: Scope) -> ApiError:
        """Return an error as the client can see it; now and then, log what it cannot see."""
        shown, now = publish.visible_error(scope.get("glcb.key"), problem), time.monotonic()
        if shown is not problem and now > self._withheld.get(problem.code, 0.0):
            self._withheld[problem.code] = now + _QUIET_SECONDS
            extra = {"code": problem.code, "reason": str(problem), "route": scope.get("glcb.route", "none")}
            log.warning("a request failed, and its client cannot see why", extra=extra)
        return shown


class _Recorder:
    """Forwards ASGI messages, records the status and counts the memory of the response."""

    def __init__(self, send: Send, scope: Scope) -> None:
        self._send = send
        self._scope = scope
        self._start: wire.Message | None = None
        self.has_started = False
        self.status = 500

    async def __call__(self, message: wire.Message) -> None:
        if message["type"] == "http.response.start":
            self._start, self.status = message, message["status"]
            return
        if self._start is not None:
            lease: Lease | None = self._scope.get("glcb.lease")
            lengths = (int(value) for name, value in self._start["headers"] if name == b"content-length")
            size = next(lengths, len(message.get("body", b"")))
            if lease is not None and size > _SMALL_BYTES:
                lease.take(size)
            start, self._start = self._start, None
            await self._send(start)  # a worker may find here that it has been replaced
            self.has_started = True
        await self._send(message)


def _as_problem(error: BaseException, scope: Scope) -> ApiError:
    if isinstance(error, GlcbError):
        return as_api_error(error)
    if isinstance(error, HTTPException):
        methods = ", ".join(allowed_methods(scope["path"]))
        if methods:
            message = f"this route does not support {scope['method']}, only {methods}"
            return HttpError("method_not_allowed", message, allow=methods)
        return ApiError("not_found", "there is no such route: /openapi.json lists all routes")
    log.error("a request failed", exc_info=error, extra={"route": scope.get("glcb.route", "none")})
    return ApiError("internal_error", "the service failed: see its log for details")
