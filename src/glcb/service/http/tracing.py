"""OpenTelemetry spans for the decisions, rankings and rewards of the service, sent to a collector.

Nothing of this runs unless the setting ``trace_endpoint`` names a collector. A span begins when a request has
been parsed and ends when its event is on disk. Its parent is the span that the header ``traceparent`` names.
"""

import asyncio
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from msgspec.json import Decoder

from glcb._api.responses import Decision, Ranking
from glcb.service.config import ServiceSettings
from glcb.service.errors import ApiError
from glcb.service.http.backend import Backend
from glcb.service.http.wire import Header
from glcb.service.process.metrics import Activity, HttpMetrics

_ANSWERS: dict[str, Decoder[Decision] | Decoder[Ranking] | None] = {
    "decide": Decoder(Decision),
    "rank": Decoder(Ranking),
    "reward": None,
}
"""The kinds of events that have spans, and what answers them."""
_HEADER = b"traceparent"
_SHUTDOWN_SECONDS = 5.0

_parent: ContextVar[str] = ContextVar("traceparent", default="")


def parent_of(headers: Sequence[Header]) -> str:
    """Return the header ``traceparent``, or an empty string."""
    return next((value.decode("latin-1") for name, value in headers if name == _HEADER), "")


@contextmanager
def within(parent: str) -> Iterator[None]:
    """Let the spans that begin inside be children of the one that a header ``traceparent`` names."""
    token = _parent.set(parent)
    try:
        yield
    finally:
        _parent.reset(token)


class Tracing:
    """Sends spans to a collector until it is closed.

    Parameters
    ----------
    endpoint
        URL to which spans are sent, as OTLP over HTTP.

    Raises
    ------
    MissingExtra
        The extra ``opentelemetry`` is not installed.
    """

    def __init__(self, endpoint: str) -> None:
        from glcb.integrations.opentelemetry import provider_of

        self._provider = provider_of(endpoint)

    def trace(self, backend: Backend) -> Backend:
        """Return a backend whose decisions, rankings and rewards have spans."""
        return TracedBackend(backend, self._provider)

    async def close(self) -> None:
        """Send the remaining spans, if the collector takes them within a few seconds."""
        loop, finished = asyncio.get_running_loop(), asyncio.Event()

        def shut_down() -> None:
            self._provider.shutdown()
            with suppress(RuntimeError):  # the loop has ended: nobody waits
                loop.call_soon_threadsafe(finished.set)

        # A daemon: a collector that does not respond must not keep the process from ending.
        threading.Thread(target=shut_down, name="glcb-tracing", daemon=True).start()
        with suppress(TimeoutError):
            await asyncio.wait_for(finished.wait(), _SHUTDOWN_SECONDS)


class TracedBackend:
    """A backend with a span for each decision, ranking and reward.

    Parameters
    ----------
    backend
        The backend without spans.
    provider
        Where the spans go.
    """

    def __init__(self, backend: Backend, provider: Any) -> None:
        from glcb.integrations.opentelemetry import Spans

        self._backend = backend
        self._spans = Spans(provider)

    @property
    def settings(self) -> ServiceSettings:
        """The settings of the service."""
        return self._backend.settings

    @property
    def metrics(self) -> HttpMetrics:
        """The counters of this process."""
        return self._backend.metrics

    @property
    def activity(self) -> defaultdict[str, Activity]:
        """The counters of each experiment."""
        return self._backend.activity

    def count_error(self, name: str | None, error: ApiError) -> None:
        """Count an error response."""
        self._backend.count_error(name, error)

    async def apply_many(self, name: str, kind: str, requests: Sequence[Any]) -> list[bytes | ApiError]:
        """Apply requests, each in a span."""
        if kind not in _ANSWERS:
            return await self._backend.apply_many(name, kind, requests)
        spans = [self._start(name, kind, request) for request in requests]
        results: Sequence[bytes | BaseException] = ()
        try:
            results = answers = await self._backend.apply_many(name, kind, requests)
            return answers
        except BaseException as error:
            results = [error] * len(spans)
            raise
        finally:
            for span, result in zip(spans, results, strict=True):
                self._finish(span, kind, result)

    async def apply(self, name: str, kind: str, request: Any) -> bytes:
        """Apply one request in a span."""
        (result,) = await self.apply_many(name, kind, [request])
        if isinstance(result, ApiError):
            raise result
        return result

    def _start(self, name: str, kind: str, request: Any) -> Any:
        attributes: dict[str, Any] = {"glcb.experiment": name}
        links = []
        if kind == "reward":
            attributes |= {"glcb.decision.id": request.id, "glcb.reward": float(request.value)}
            links = self._spans.links(request.id)
        return self._spans.start(f"{kind} {name}", _parent.get(), attributes, links)

    def _finish(self, span: Any, kind: str, result: bytes | BaseException) -> None:
        answer = _ANSWERS[kind]
        if isinstance(result, BaseException):
            self._spans.fail(span, result, result.code if isinstance(result, ApiError) else None)
        elif answer is not None and span.is_recording():
            self._spans.describe(span, answer.decode(result))
        span.end()
