"""The service sends spans to a collector: a small one that keeps what it receives."""

import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from glcb._errors import MissingExtra
from glcb.service.access.api_keys import add_key
from glcb.service.http import tracing
from tests.support.asgi import CREATION, E, running_service

pytest.importorskip("opentelemetry.proto")

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
HEADER = {"traceparent": f"00-{TRACE}-{PARENT}-01"}


class Collector:
    """Receives spans over HTTP."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        requests = self.requests

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["content-length"]))
                requests.append(ExportTraceServiceRequest.FromString(content))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1/traces"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def spans(self) -> list[Span]:
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


@pytest.fixture
def collector() -> Iterator[Collector]:
    one = Collector()
    yield one
    one.close()


def attributes(span: Span) -> dict[str, Any]:
    return {
        one.key: getattr(one.value, one.value.WhichOneof("value") or "string_value")
        for one in span.attributes
    }


async def test_decisions_and_rewards_are_spans_of_the_trace_of_their_request(
    tmp_path: Path, collector: Collector
) -> None:
    decided: list[dict[str, Any]] = []

    async with running_service(tmp_path, trace_endpoint=collector.url) as service:
        await service.ask("PUT", E, {**CREATION, "policy": "linucb"})
        for age in (31, 45):
            body = {"context": {"age": age}}
            decided.append((await service.ask("POST", f"{E}/decisions", body, more_headers=HEADER)).data)
        statuses = [
            (
                await service.ask("POST", f"{E}/decisions/{name}/reward", {"value": 1}, more_headers=HEADER)
            ).status
            for name in (decided[0]["id"], "unknown")
        ]
        assert statuses == [200, 404]
        batch = {"decisions": [{"context": {"age": 20}}, {"context": {"age": 60}}]}
        assert (await service.ask("POST", f"{E}/decisions/batch", batch)).status == 200
    *spans, first, second = sorted(collector.spans, key=lambda span: span.start_time_unix_nano)
    assert [span.name.split()[0] for span in spans] == ["decide", "decide", "reward", "reward"]
    for span, decision in zip(spans, decided, strict=False):
        found = attributes(span)
        assert found.pop("glcb.experiment") == E.rsplit("/", 1)[1]
        assert found == {
            "glcb.decision.id": decision["id"],
            "glcb.arm": decision["arm"],
            "glcb.propensity": decision["propensity"],
        }
    for span in spans:
        assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
        assert span.kind == Span.SPAN_KIND_SERVER
    rewarded, refused = spans[2:]
    assert attributes(rewarded)["glcb.reward"] == 1.0
    assert [link.span_id for link in rewarded.links] == [spans[0].span_id]
    assert refused.status.code == Status.STATUS_CODE_ERROR
    assert attributes(refused)["glcb.error"] == "unknown_decision"
    for span in (first, second):
        assert span.name.startswith("decide")
        assert not span.parent_span_id


async def test_a_traced_experiment_can_be_changed_and_names_who_did_it(
    tmp_path: Path, collector: Collector
) -> None:
    async with running_service(tmp_path, trace_endpoint=collector.url) as service:
        key = add_key(service.storage, "ops", "admin")
        service.authenticator.keyring.refresh()
        await service.ask("PUT", E, CREATION, key=key)
        requests: list[tuple[str, str, object]] = [
            ("POST", f"{E}/arms", {"name": "d"}),
            ("PATCH", f"{E}/arms/d", {"paused": True}),
            ("DELETE", f"{E}/arms/d", None),
            ("PATCH", E, {"state": "paused"}),
        ]
        for method, path, body in requests:
            answer = await service.ask(method, path, body, key=key)
            assert answer.status in (200, 201), answer.content
        changes = (await service.ask("GET", f"{E}/changes", key=key)).data["changes"]
        assert {change["by"] for change in changes} == {"ops"}
        assert [change["action"] for change in reversed(changes)] == [
            "created",
            "arm_added",
            "arm_paused",
            "arm_removed",
            "settings_changed",
        ]
    assert not collector.spans, "only decisions, rankings and rewards have spans"


@pytest.mark.parametrize("operation", ["rankings", "rankings/batch", "decisions/batch", "rewards"])
async def test_every_way_to_decide_or_reward_has_spans(
    tmp_path: Path, collector: Collector, operation: str
) -> None:
    bodies: dict[str, object] = {
        "rankings": {"context": {}, "k": 2},
        "rankings/batch": {"rankings": [{"context": {}, "k": 2}]},
        "decisions/batch": {"decisions": [{"context": {}}]},
        "rewards": {"rewards": [{"id": "unknown", "value": 1}]},
    }

    async with running_service(tmp_path, trace_endpoint=collector.url) as service:
        await service.ask("PUT", E, CREATION)
        assert (await service.ask("POST", f"{E}/{operation}", bodies[operation])).status == 200
    assert len(collector.spans) == 1


async def test_a_collector_that_is_down_delays_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracing, "_SHUTDOWN_SECONDS", 0.2)

    began = time.monotonic()
    async with running_service(tmp_path, trace_endpoint="http://127.0.0.1:9/v1/traces") as service:
        await service.ask("PUT", E, {**CREATION, "policy": "linucb"})
        assert (await service.ask("POST", f"{E}/decisions", {"context": {}})).status == 200
    assert time.monotonic() - began < 30


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(MissingExtra, match="opentelemetry"):
        tracing.Tracing("http://127.0.0.1:4318/v1/traces")
