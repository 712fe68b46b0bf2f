"""Error responses and limits of the HTTP API."""

import re
from collections import Counter
from typing import Any

import pytest

from glcb._api.errors import ERROR_CODES
from glcb.service.http.app import Application
from tests.support.asgi import (
    CREATION,
    SECURITY_HEADERS,
    E,
    Service,
    create_experiment,
    lifespan,
)

REFUSED: list[tuple[str, str, str, Any, str]] = [
    ("POST", f"{E}/decisions", "invalid_json", b'{"context": ', ""),
    ("POST", f"{E}/decisions", "invalid_json", b"\xff\xfe", ""),
    ("POST", f"{E}/decisions", "invalid_json", b'{"context":' + b"[" * 100_000, ""),
    ("POST", f"{E}/decisions", "invalid_request", {"context": {}, "extra": 1}, "extra"),
    ("POST", f"{E}/decisions", "invalid_request", {"context": "FR"}, "context"),
    ("POST", f"{E}/decisions", "invalid_request", {"context": {}, "idempotency_key": ""}, "idempotency_key"),
    ("POST", f"{E}/decisions", "unknown_arm", {"context": {}, "eligible": []}, "at least one arm"),
    ("POST", f"{E}/decisions", "invalid_context", {"context": [[1]]}, "flat"),
    ("POST", f"{E}/decisions", "too_many", {"context": [0] * 1001}, "1,000"),
    ("POST", f"{E}/decisions", "too_many", {"context": {"x": "v" * 100_000}}, "100,000 bytes"),
    (
        "POST",
        f"{E}/explanations",
        "too_many",
        {"context": {"x": "v" * 100_000}},
        "100,000 bytes in a context",
    ),
    ("POST", f"{E}/decisions/batch", "too_many", {"decisions": [{"context": {}}] * 1001}, "1,000"),
    ("POST", f"{E}/decisions", "too_large", b" " * 1_000_001, "1,000,000"),
    ("POST", f"{E}/decisions/5-00000000/reward", "unknown_decision", {"value": 1}, "5-00000000"),
    ("POST", f"{E}/decisions/5-00000000/reward", "invalid_request", {"value": "1"}, "float"),
    ("PUT", "/v1/experiments/Home", "invalid_request", CREATION, "Home"),
    ("PUT", "/v1/experiments/x", "invalid_request", {"arms": []}, "arms"),
    ("PUT", "/v1/experiments/x", "invalid_settings", {"arms": ["a", "a"]}, "more than once"),
    ("PUT", "/v1/experiments/x", "invalid_settings", {"arms": ["a"], "policy": "none"}, "no policy"),
    (
        "PUT",
        "/v1/experiments/x",
        "invalid_settings",
        {"arms": ["a"], "reward_aggregation": "sum"},
        "reward_timeout",
    ),
    ("PUT", "/v1/experiments/x", "invalid_request", {"arms": ["a"], "holdout": 2}, "holdout"),
    ("GET", "/v1/experiments/missing/stats", "unknown_experiment", None, "missing"),
    ("POST", "/v1/experiments/missing/decisions", "unknown_experiment", {"context": {}}, "missing"),
    ("GET", "/v1/nothing", "not_found", None, "openapi"),
    ("PUT", f"{E}/decisions", "method_not_allowed", {}, "POST"),
    ("TRACE", E, "method_not_allowed", None, "PATCH"),
]


async def test_a_request_that_is_nested_too_deeply_changes_nothing(service: Service) -> None:
    """Decoding permits a few levels more than encoding, which comes later."""
    await create_experiment(service)
    for _ in range(2):
        await service.ask("POST", f"{E}/decisions", {"context": {"x": 1}, "idempotency_key": "k"})
    loaded = service.engine.loaded["home"]
    for more in (b"", b',"idempotency_key":"k"'):
        codes = set()
        for levels in range(800, 1100):
            nested = b"[" * levels + b"0" + b"]" * levels
            answer = await service.ask(
                "POST", f"{E}/decisions", b'{"context":{"a":' + nested + b"}" + more + b"}"
            )
            codes.add(answer.code)
        assert codes <= {"invalid_json", "invalid_request", "invalid_context", "idempotency_key_reused"}
    assert service.engine.loaded["home"] is loaded


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"arms": ["a", "a"]}, "arms"),
        ({"policy": "none"}, "policy"),
        ({"policy_settings": {"none": 1}}, "policy_settings"),
        ({"rewards": [1, 0]}, "rewards"),
        ({"schema": {"age": "none"}}, "schema"),
        ({"shares": {"a": [0.6, 0.3]}}, "shares"),
        ({"shares": {"c": [0.1, 0.3]}}, "shares"),
        ({"reward_aggregation": "sum"}, "reward_timeout"),
        ({"default_reward": 2, "reward_timeout": 60}, "default_reward"),
        ({"control": "c"}, "control"),
        ({"paused_arms": ["a", "b"]}, "paused_arms"),
        ({"start_at": "2026-11-19T12:00:00Z", "end_at": "2026-11-19T11:00:00Z"}, "end_at"),
        ({"metrics": {"reward": {"range": [0, 1]}}}, "metrics"),
        ({"guardrails": [{"metric": "none", "max_fall": 0.1}]}, "guardrails"),
        ({"guardrails": [{"max_fall": 0.1, "max_rise": 0.1}]}, "guardrails"),
    ],
)
async def test_an_invalid_setting_is_named(service: Service, settings: dict[str, Any], field: str) -> None:
    answer = await service.ask("PUT", "/v1/experiments/x", {"arms": ["a", "b"], **settings})
    assert (answer.code, answer.data["error"].get("field")) == ("invalid_settings", field), answer.content


async def test_errors_have_one_shape_and_change_nothing(service: Service) -> None:
    await create_experiment(service)
    before = (await service.ask("GET", E)).data
    for method, path, code, body, expected in REFUSED:
        answer = await service.ask(method, path, body)
        assert (answer.code, answer.status) == (code, ERROR_CODES[code].status), (
            path,
            body,
            answer.content[:300],
        )
        assert expected in answer.data["error"]["message"]
        assert answer.headers.keys() >= SECURITY_HEADERS
    assert (await service.ask("GET", E)).data == before
    assert (await service.ask("PUT", f"{E}/decisions", {})).headers["allow"] == "POST"


async def test_each_refused_request_of_an_experiment_is_counted_once(service: Service) -> None:
    await create_experiment(service)
    for method, path, _, body, _ in REFUSED:
        await service.ask(method, path, body)
    await service.ask("POST", f"{E}/decisions", {"context": {}}, media="text/plain")
    rewards = [{"id": "5-00000000", "value": 1}] * 2
    assert (await service.ask("POST", f"{E}/rewards", {"rewards": rewards})).status == 200
    expected = Counter(code for _, path, code, _, _ in REFUSED if path.startswith(f"{E}/"))
    expected.update(["unsupported_media_type", "unknown_decision", "unknown_decision"])
    del expected["method_not_allowed"]
    assert (await service.ask("GET", f"{E}/stats")).data["errors"] == expected
    metrics = (await service.ask("GET", "/metrics")).content.decode()
    assert 'glcb_errors_total{code="invalid_json",experiment="home"} 3.0' in metrics
    assert service.engine.activity.keys() == {"home"}
    service.add_key("shop", "decide", ["other"])
    assert (await service.ask("POST", f"{E}/decisions", {})).code == "unauthorized"
    assert service.engine.activity["home"].errors == expected


async def test_bodies_must_be_declared_as_json(service: Service) -> None:
    await create_experiment(service)
    for media in (None, "text/plain", "application/x-www-form-urlencoded"):
        answer = await service.ask("POST", f"{E}/decisions", {"context": {}}, media=media)
        assert answer.code == "unsupported_media_type"
    answer = await service.ask(
        "POST", f"{E}/decisions", {"context": {}}, media="Application/JSON; charset=utf-8"
    )
    assert answer.status == 200


@pytest.mark.settings(request_seconds=0.05)
async def test_an_incomplete_request_times_out(service: Service) -> None:
    await create_experiment(service)
    scope_pieces = [b'{"context": {"a', b""]
    answer = await service.ask("POST", f"{E}/decisions", pieces=scope_pieces)
    assert answer.code == "invalid_json"
    stuck = service.ask("POST", f"{E}/decisions", pieces=[])
    assert (await stuck).code == "request_timeout"


async def test_only_the_dashboard_is_served_during_startup(service: Service) -> None:
    service.app = Application(lifespan)
    page = await service.ask("GET", "/")
    assert page.status == 200
    names = re.findall(r'(?:src|href)="(static/[^"]+)"', page.content.decode())
    assert len(names) > 10
    for name in names:
        assert (await service.ask("GET", f"/{name}")).status == 200
    assert (await service.ask("GET", "/static/0123/nonesuch.js")).code == "not_found"
    assert (await service.ask("GET", "/healthz")).status == 200
    for method, path in (
        ("GET", "/readyz"),
        ("PUT", E),
        ("POST", f"{E}/decisions"),
        ("GET", "/static/"),
        ("POST", "/"),
    ):
        refused = await service.ask(method, path, {})
        assert (refused.status, refused.code, refused.headers["retry-after"]) == (503, "starting", "1")
        assert "kernels are being loaded, or compiled" in refused.message


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        (f"{E}/decisions", b'{"contxt": {}}', "the fields are context, eligible, id, idempotency_key"),
        (
            f"{E}/decisions",
            b'{"context": {}, "a` - at `$.b[0]": 1}',
            "are context, eligible, id, idempotency_key",
        ),
        (
            f"{E}/decisions/batch",
            b'{"decisions": [{"context": {}, "k": 1}]}',
            "are context, eligible, id, idempotency_key",
        ),
        (f"{E}/rewards", b'{"reward": []}', "the fields are rewards"),
        (
            f"{E}/rewards",
            b'{"rewards": [{"id": "1", "val": 1}]}',
            "the fields are id, value, idempotency_key",
        ),
        (f"{E}/decisions", b'{"context": {"age": NaN}}', "NaN is not valid JSON: send null"),
        (f"{E}/decisions", b'{"context": [-Infinity]}', "Infinity is not valid JSON: send null"),
    ],
)
async def test_error_messages_say_what_to_send_instead(
    service: Service, path: str, body: bytes, expected: str
) -> None:
    await create_experiment(service)
    assert expected in (await service.ask("POST", path, body)).message


async def test_differing_settings_are_named(service: Service) -> None:
    await create_experiment(service)
    refused = await service.ask("PUT", E, {**CREATION, "arms": ["a"], "seed": 10_000})
    assert (refused.code, refused.status) == ("experiment_exists", 409)
    assert "(arms, seed)" in refused.message


async def test_requests_are_refused_when_the_service_is_overloaded_or_stopping(service: Service) -> None:
    await create_experiment(service)
    service.admission.slots["decisions"].used = 1000
    refused = await service.ask("POST", f"{E}/decisions", {"context": {}})
    assert (refused.status, refused.code, refused.headers["retry-after"]) == (503, "overloaded", "1")
    assert (await service.ask("GET", "/healthz")).status == 200
    assert (await service.ask("GET", "/readyz")).status == 200
    service.admission.slots["decisions"].used = 0
    service.engine.journal.depth = 10**6
    assert (await service.ask("POST", f"{E}/decisions", {"context": {}})).code == "overloaded"
    service.engine.journal.depth = 0
    assert (await service.ask("POST", f"{E}/decisions", {"context": {}})).status == 200
    service.app.close()
    stopping = await service.ask("POST", f"{E}/decisions", {"context": {}})
    assert (stopping.status, stopping.code) == (503, "stopping")
    assert (await service.ask("GET", "/readyz")).status == 503
    assert (await service.ask("GET", "/healthz")).status == 200


async def test_an_internal_error_reveals_no_details(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create_experiment(service)

    def fail(*_: Any) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr("glcb.service.views.stats.stats", fail)
    answer = await service.ask("GET", f"{E}/stats")
    assert (answer.status, answer.code) == (500, "internal_error")
    assert "secret" not in answer.content.decode()
