"""Spans, read from the in-memory exporter of the SDK."""

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

from glcb import Bandit, InvalidContext, InvalidReward, ServiceUnavailable

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from glcb.integrations.opentelemetry import TracedBandit


class Traces:
    """A tracer provider that keeps its spans."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    def take(self) -> list[ReadableSpan]:
        spans = list(self.exporter.get_finished_spans())
        self.exporter.clear()
        return spans


@pytest.fixture
def traces() -> Traces:
    return Traces()


def traced(traces: Traces, **settings: Any) -> TracedBandit:
    bandit = Bandit(arms=["sports", "news"], policy="linucb")
    return TracedBandit(bandit, "homepage", tracer_provider=traces.provider, **settings)


def attributes(span: ReadableSpan) -> Mapping[str, Any]:
    assert span.attributes is not None
    return dict(span.attributes)


def test_a_decision_and_its_reward_are_spans_that_are_linked(traces: Traces) -> None:
    bandit = traced(traces)
    decision = bandit.decide({"country": "FR"})
    (decided,) = traces.take()
    assert decided.name == "decide homepage"
    assert attributes(decided) == {
        "glcb.experiment": "homepage",
        "glcb.decision.id": decision.id,
        "glcb.arm": decision.arm,
        "glcb.propensity": decision.propensity,
    }
    assert bandit.reward(decision.id, 1)
    (rewarded,) = traces.take()
    assert rewarded.name == "reward homepage"
    assert attributes(rewarded)["glcb.reward"] == 1.0
    assert [link.context for link in rewarded.links] == [decided.context]
    assert bandit.counts["rewarded"] == 1


def test_the_features_are_recorded_only_if_asked_for(traces: Traces) -> None:
    traced(traces, record_context=True).decide({"country": "FR", "tags": ["a"]})
    (span,) = traces.take()
    assert attributes(span)["glcb.context.country"] == "FR"
    assert attributes(span)["glcb.context.tags"] == "['a']"


def test_many_decisions_are_children_of_one_span(traces: Traces) -> None:
    decisions = traced(traces).decide_many([{"age": 31}, {"age": 45}], eligible=["news"])
    *children, batch = traces.take()
    assert attributes(batch)["glcb.decisions"] == 2
    assert [attributes(span)["glcb.decision.id"] for span in children] == [one.id for one in decisions]
    assert all(span.parent == batch.context for span in children)


def test_a_ranking_is_a_span(traces: Traces) -> None:
    ranking = traced(traces).rank({"age": 31}, k=2)
    (span,) = traces.take()
    assert attributes(span)["glcb.arms"] == ranking.arms
    assert attributes(span)["glcb.propensities"] == ranking.propensities


def test_a_refused_call_is_a_span_with_an_error(traces: Traces) -> None:
    bandit = traced(traces)
    with pytest.raises(InvalidContext):
        bandit.decide(7)
    decision = bandit.decide({"age": 31})
    with pytest.raises(InvalidReward):
        bandit.reward(decision.id, 19)
    refused, _, unrewarded = traces.take()
    for span, name in ((refused, "InvalidContext"), (unrewarded, "InvalidReward")):
        assert span.status.status_code == StatusCode.ERROR
        assert attributes(span)["glcb.error"] == name
        assert not span.events


def test_a_refused_context_of_a_batch_of_the_client_is_a_span_with_an_error(traces: Traces) -> None:
    class Experiment:
        def decide_many(self, contexts: object, *, eligible: object) -> list[object]:
            return [ServiceUnavailable("the service did not respond")]

    TracedBandit(Experiment(), "homepage", tracer_provider=traces.provider).decide_many([{}])
    child, _ = traces.take()
    assert attributes(child)["glcb.error"] == "ServiceUnavailable"


def test_nothing_is_kept_unless_tracing_is_configured() -> None:
    program = """
import sys
import glcb
from glcb import Bandit
Bandit(arms=["a", "b"], policy="ucb1").decide({})
print("opentelemetry" in sys.modules)
from glcb.integrations.opentelemetry import TracedBandit
bandit = TracedBandit(Bandit(arms=["a", "b"], policy="ucb1"), "homepage")
print(bandit.reward(bandit.decide({}).id, 1), len(bandit._spans._decisions))
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False", "True", "0"]
