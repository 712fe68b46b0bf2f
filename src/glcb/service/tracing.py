"""OpenTelemetry spans for the decisions, rankings and rewards of the service, sent to a collector.

Nothing of this runs unless the setting ``trace_endpoint`` names a collector. A span begins when a request has
been parsed and ends when its event is on disk. Its parent is the span that the header ``traceparent`` names.
"""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, TypeVar, cast

from msgspec.json import Decoder

from glcb._api.responses import Decision, Ranking
from glcb.service.core.engine import Engine, OnDone
from glcb.service.errors import ApiError
from glcb.service.http.wire import Header

E = TypeVar("E")
"""An engine, or the shards that have the experiments."""

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

    def trace(self, engine: E) -> E:
        """Return an engine whose decisions, rankings and rewards have spans."""
        return cast(E, TracedEngine(engine, self._provider))

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


class TracedEngine:
    """An engine with a span for each decision, ranking and reward. Everything else is passed on.

    Parameters
    ----------
    engine
        The engine.
    provider
        Where the spans go.
    """

    def __init__(self, engine: Any, provider: Any) -> None:
        from glcb.integrations.opentelemetry import Spans

        self._engine: Engine = engine
        self._spans = Spans(provider)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    async def apply_many(self, name: str, kind: str, requests: Sequence[Any]) -> list[bytes | ApiError]:
        """Apply requests as the engine does, in a span each."""
        if kind not in _ANSWERS:
            return await self._engine.apply_many(name, kind, requests)
        spans = [self._start(name, kind, request) for request in requests]
        results: Sequence[bytes | BaseException] = ()
        try:
            results = answers = await self._engine.apply_many(name, kind, requests)
            return answers
        except BaseException as error:
            results = [error] * len(spans)
            raise
        finally:
            for span, result in zip(spans, results, strict=True):
                self._finish(span, kind, result)

    async def apply(self, name: str, kind: str, request: Any) -> bytes:
        """Apply one request as the engine does, in a span."""
        (result,) = await self.apply_many(name, kind, [request])
        if isinstance(result, ApiError):
            raise result
        return result

    def apply_soon(self, name: str, kind: str, request: Any, done: OnDone) -> None:
        """Apply one decision or reward as the engine does, in a span."""
        span = self._start(name, kind, request)

        def finish(result: bytes | BaseException) -> None:
            self._finish(span, kind, result)
            done(result)

        self._engine.apply_soon(name, kind, request, finish)

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
