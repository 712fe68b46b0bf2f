"""OpenTelemetry spans for decisions and rewards.

Nothing is traced unless a bandit is wrapped, and nothing is exported unless the application has configured
OpenTelemetry.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from glcb._errors import GlcbError, MissingExtra, install_command
from glcb._types import Arm
from glcb._version import __version__
from glcb.bandit.encoding.values import to_row

try:
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, TracerProvider
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ModuleNotFoundError as error:
    raise MissingExtra(f"tracing needs {error.name}: {install_command('opentelemetry')}") from error

__all__ = ["TracedBandit"]

_MAX_LINKS = 10_000
_PROPAGATOR = TraceContextTextMapPropagator()


def provider_of(endpoint: str) -> Any:
    """Return a provider of the SDK that sends spans to a collector, as OTLP over HTTP.

    Raises
    ------
    MissingExtra
        The SDK or its exporter is not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as error:
        message = f"sending spans needs {error.name}: {install_command('opentelemetry')}"
        raise MissingExtra(message) from error
    named = Resource({SERVICE_NAME: "glcb"}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=named, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
    return provider


class Spans:
    """The attributes of spans, and the links from rewards to their decisions.

    Parameters
    ----------
    tracer_provider : opentelemetry.trace.TracerProvider, optional
        Default: the global one.
    """

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        self.tracer = trace.get_tracer("glcb", __version__, tracer_provider)
        self._decisions: OrderedDict[str, SpanContext] = OrderedDict()
        self._lock = threading.Lock()

    def start(self, name: str, parent: str, attributes: Mapping[str, Any], links: list[Link]) -> Span:
        """Start the span of a request, as a child of the span in the header ``traceparent``, if any."""
        return self.tracer.start_span(
            name,
            context=_PROPAGATOR.extract({"traceparent": parent}, Context()),
            kind=SpanKind.SERVER,
            attributes=attributes,
            links=links,
        )

    def links(self, decision: str) -> list[Link]:
        """Return a link to the span of a recent decision or ranking, if it is known."""
        with self._lock:
            linked = self._decisions.get(decision)
        return [] if linked is None else [Link(linked)]

    def describe(self, span: Span, decision: Any) -> None:
        """Set the attributes of a decision or a ranking, and remember its span for its reward."""
        if span.is_recording():
            span.set_attribute("glcb.decision.id", decision.id)
            if hasattr(decision, "arm"):
                span.set_attributes({"glcb.arm": str(decision.arm), "glcb.propensity": decision.propensity})
            else:
                span.set_attribute("glcb.arms", [str(arm) for arm in decision.arms])
                span.set_attribute("glcb.propensities", list(decision.propensities))
        if span.get_span_context().is_valid:
            with self._lock:
                self._decisions[decision.id] = span.get_span_context()
                while len(self._decisions) > _MAX_LINKS:
                    self._decisions.popitem(last=False)

    def fail(self, span: Span, error: BaseException, code: str | None = None) -> None:
        """Set the status and the name of an error."""
        span.set_status(Status(StatusCode.ERROR, str(error)))
        span.set_attribute("glcb.error", code or type(error).__name__)


class TracedBandit:
    """A bandit with a span for each decision and each reward. Other attributes come from the bandit.

    Spans are named ``decide NAME``, ``rank NAME`` and ``reward NAME``. The span of a reward links to the span
    of its decision. Attributes begin with ``glcb.``: ``experiment``, ``decision.id``, ``arm``, ``propensity``
    and ``reward``. A failed call has the status ``ERROR``, and the name of the exception as ``error``.

    Parameters
    ----------
    bandit : Bandit, or glcb.client.Experiment
        The bandit or experiment to trace.
    name : str
        The name in spans, such as the experiment name.
    record_context : bool, default False
        Whether spans record features, as ``glcb.context.FEATURE``. Features can be personal data.
    tracer_provider : opentelemetry.trace.TracerProvider, optional
        Default: the global one.

    Examples
    --------
    >>> from glcb import Bandit
    >>> bandit = TracedBandit(Bandit(arms=["sports", "news"]), "homepage")
    >>> decision = bandit.decide({"country": "FR"})
    >>> bandit.reward(decision.id, 1), bandit.counts["rewarded"]
    (True, 1)
    """

    def __init__(
        self,
        bandit: Any,
        name: str,
        *,
        record_context: bool = False,
        tracer_provider: TracerProvider | None = None,
    ) -> None:
        self.bandit = bandit
        self.name = name
        self._record_context = record_context
        self._spans = Spans(tracer_provider)

    def decide(self, context: Any, **arguments: Any) -> Any:
        """Choose an arm for a context, in a span.

        Parameters
        ----------
        context : Any
            The context.
        **arguments
            Arguments of the bandit's ``decide``.

        Returns
        -------
        BanditDecision or glcb.client.Decision
            The decision.
        """
        with self._span("decide") as span:
            decision = self.bandit.decide(context, **arguments)
            self._describe(span, context, decision)
            return decision

    def decide_many(self, contexts: Iterable[Any], *, eligible: Iterable[Arm] | None = None) -> list[Any]:
        """Choose an arm for each of many contexts, in a span with one child per decision.

        Parameters
        ----------
        contexts : frame, 2-D array, or iterable of contexts
            One context per row.
        eligible : iterable of str or int, optional
            The arms to choose from.

        Returns
        -------
        list
            One decision per context.
        """
        with self._span("decide_many") as batch:
            decisions: list[Any] = self.bandit.decide_many(contexts, eligible=eligible)
            batch.set_attribute("glcb.decisions", len(decisions))
            for decision in decisions:
                with self._span("decide") as span:
                    if isinstance(decision, GlcbError):  # the client returns the error of a rejected context
                        self._spans.fail(span, decision)
                    else:
                        self._describe(span, None, decision)
            return decisions

    def rank(self, context: Any, **arguments: Any) -> Any:
        """Choose several arms for a context, in a span.

        Parameters
        ----------
        context : Any
            The context.
        **arguments
            Arguments of the bandit's ``rank``.

        Returns
        -------
        Ranking
            The ranking.
        """
        with self._span("rank") as span:
            ranking = self.bandit.rank(context, **arguments)
            self._describe(span, context, ranking)
            return ranking

    def reward(self, decision: str, value: float, **arguments: Any) -> bool:
        """Learn a reward, in a span that links to the span of its decision.

        Parameters
        ----------
        decision : str
            The id of the decision or the ranking.
        value : float
            The reward.
        **arguments
            Arguments of the bandit's ``reward``.

        Returns
        -------
        bool
            False if the decision already had a reward with the same idempotency key.
        """
        with self._span("reward", self._spans.links(decision)) as span:
            span.set_attribute("glcb.decision.id", str(decision))
            accepted: bool = self.bandit.reward(decision, value, **arguments)
            span.set_attributes({"glcb.reward": float(value), "glcb.accepted": accepted})
            return accepted

    def __getattr__(self, name: str) -> Any:
        if name == "bandit":  # while it is unpickled
            raise AttributeError(name)
        return getattr(self.bandit, name)

    @contextmanager
    def _span(self, operation: str, links: list[Link] | None = None) -> Iterator[Span]:
        with self._spans.tracer.start_as_current_span(
            f"{operation} {self.name}",
            kind=SpanKind.INTERNAL,
            attributes={"glcb.experiment": self.name},
            links=links,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield span
            except Exception as error:
                self._spans.fail(span, error)
                raise

    def _describe(self, span: Span, context: Any, decision: Any) -> None:
        """Set the attributes of a decision or a ranking, and of its context if requested."""
        self._spans.describe(span, decision)
        if span.is_recording() and self._record_context and hasattr(context, "items"):
            for name, value in to_row(context)[0].items():
                shown = value if isinstance(value, bool | int | float | str) else repr(value)
                span.set_attribute(f"glcb.context.{name}", shown)
