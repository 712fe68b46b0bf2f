"""The HTTP API, asked directly: every shape of refusal, and limits."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from glcb.service import auth as keys
from glcb.service.errors import STATUS
from glcb.service.http.app import Application
from tests.service.asgi import CREATION, SECURITY, E, House, created, in_house, lifespan

REFUSED: list[tuple[str, str, str, Any, str]] = [
    ("POST", f"{E}/decisions", "invalid_json", b'{"context": ', ""),
    ("POST", f"{E}/decisions", "invalid_json", b"\xff\xfe", ""),
    ("POST", f"{E}/decisions", "invalid_json", b'{"context":' + b"[" * 100_000, ""),
    ("POST", f"{E}/decisions", "invalid_request", {"context": {}, "extra": 1}, "extra"),
    ("POST", f"{E}/decisions", "invalid_request", {"context": "FR"}, "context"),
    ("POST", f"{E}/decisions", "invalid_request", {"context": {}, "idempotency_key": ""}, "idempotency_key"),
    ("POST", f"{E}/decisions", "unknown_arm", {"context": {}, "eligible": []}, "empty"),
    ("POST", f"{E}/decisions", "invalid_context", {"context": [[1]]}, "flat"),
    ("POST", f"{E}/decisions", "too_many", {"context": [0] * 1001}, "1,000"),
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
    ("GET", "/v1/experiments/nobody/stats", "unknown_experiment", None, "nobody"),
    ("POST", "/v1/experiments/nobody/decisions", "unknown_experiment", {"context": {}}, "nobody"),
    ("GET", "/v1/nothing", "not_found", None, "openapi"),
    ("PUT", f"{E}/decisions", "method_not_allowed", {}, "POST"),
    ("TRACE", E, "method_not_allowed", None, "PATCH"),
]


def test_refusals_have_one_shape_and_change_nothing(tmp_path: Path) -> None:
    async def play(house: House) -> None:
        await created(house)
        before = (await house.ask("GET", E)).data
        for method, path, code, body, said in REFUSED:
            answer = await house.ask(method, path, body)
            assert (answer.code, answer.status) == (code, STATUS[code]), (path, body, answer.content[:300])
            assert said in answer.data["error"]["message"]
            assert answer.headers.keys() >= SECURITY
        assert (await house.ask("GET", E)).data == before
        assert (await house.ask("PUT", f"{E}/decisions", {})).headers["allow"] == "POST"

    in_house(tmp_path, play)


def test_whatever_is_refused_of_an_experiment_is_counted_once(tmp_path: Path) -> None:
    async def play(house: House) -> None:
        await created(house)
        for method, path, _, body, _ in REFUSED:
            await house.ask(method, path, body)
        await house.ask("POST", f"{E}/decisions", {"context": {}}, media="text/plain")
        given = [{"id": "5-00000000", "value": 1}] * 2
        assert (await house.ask("POST", f"{E}/rewards", {"rewards": given})).status == 200
        expected = Counter(code for _, path, code, _, _ in REFUSED if path.startswith(f"{E}/"))
        expected.update(["unsupported_media_type", "unknown_decision", "unknown_decision"])
        del expected["method_not_allowed"]
        assert (await house.ask("GET", f"{E}/stats")).data["refused"] == expected
        told = (await house.ask("GET", "/metrics")).content.decode()
        assert 'glcb_refused_total{code="invalid_json",experiment="home"} 3.0' in told
        assert house.engine.activity.keys() == {"home"}
        keys.add(house.storage, "shop", "decide", ["other"])
        house.door.keyring.refresh()
        assert (await house.ask("POST", f"{E}/decisions", {})).code == "unauthorized"
        assert house.engine.activity["home"].refused == expected

    in_house(tmp_path, play)


def test_only_json_is_read(tmp_path: Path) -> None:
    async def play(house: House) -> None:
        await created(house)
        for media in (None, "text/plain", "application/x-www-form-urlencoded"):
            answer = await house.ask("POST", f"{E}/decisions", {"context": {}}, media=media)
            assert answer.code == "unsupported_media_type"
        answer = await house.ask(
            "POST", f"{E}/decisions", {"context": {}}, media="Application/JSON; charset=utf-8"
        )
        assert answer.status == 200

    in_house(tmp_path, play)


def test_half_a_request_is_given_up(tmp_path: Path) -> None:
    async def play(house: House) -> None:
        await created(house)
        scope_pieces = [b'{"context": {"a', b""]
        answer = await house.ask("POST", f"{E}/decisions", pieces=scope_pieces)
        assert answer.code == "invalid_json"
        stuck = house.ask("POST", f"{E}/decisions", pieces=[])
        assert (await stuck).code == "request_timeout"

    in_house(tmp_path, play, request_seconds=0.05)


def test_at_the_start_there_is_the_page_and_nothing_else(tmp_path: Path) -> None:
    async def play(house: House) -> None:
        house.app = Application(lifespan)
        page = await house.ask("GET", "/")
        assert page.status == 200
        names = re.findall(r'(?:src|href)="(static/[^"]+)"', page.content.decode())
        assert len(names) > 10
        for name in names:
            assert (await house.ask("GET", f"/{name}")).status == 200
        assert (await house.ask("GET", "/static/0123/nonesuch.js")).code == "not_found"
        assert (await house.ask("GET", "/healthz")).status == 200
        for method, path in (
            ("GET", "/readyz"),
            ("PUT", E),
            ("POST", f"{E}/decisions"),
            ("GET", "/static/"),
            ("POST", "/"),
        ):
            refused = await house.ask(method, path, {})
            assert (refused.status, refused.code, refused.headers["retry-after"]) == (503, "starting", "1")
            assert "compiles the kernels" in refused.message

    in_house(tmp_path, play)


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        (f"{E}/decisions", b'{"contxt": {}}', "the fields are context, eligible, idempotency_key"),
        (
            f"{E}/decisions",
            b'{"context": {}, "a` - at `$.b[0]": 1}',
            "are context, eligible, idempotency_key",
        ),
        (
            f"{E}/decisions/batch",
            b'{"decisions": [{"context": {}, "k": 1}]}',
            "are context, eligible, idempotency_key",
        ),
        (f"{E}/rewards", b'{"reward": []}', "the fields are rewards"),
        (
            f"{E}/rewards",
            b'{"rewards": [{"id": "1", "val": 1}]}',
            "the fields are id, value, idempotency_key",
        ),
        (f"{E}/decisions", b'{"context": {"age": NaN}}', "NaN is no JSON: send null"),
        (f"{E}/decisions", b'{"context": [-Infinity]}', "Infinity is no JSON: send null"),
    ],
)
def test_refusals_say_what_to_send_instead(tmp_path: Path, path: str, body: bytes, told: str) -> None:
    async def play(house: House) -> None:
        await created(house)
        assert told in (await house.ask("POST", path, body)).message

    in_house(tmp_path, play)


def test_other_settings_are_named(tmp_path: Path) -> None:
    async def play(house: House) -> None:
        await created(house)
        refused = await house.ask("PUT", E, {**CREATION, "arms": ["a"], "seed": 10_000})
        assert (refused.code, refused.status) == ("experiment_exists", 409)
        assert "(arms, seed)" in refused.message

    in_house(tmp_path, play)


def test_too_many_requests_at_once_are_refused(tmp_path: Path) -> None:
    async def play(house: House) -> None:
        await created(house)
        house.engine.metrics.in_flight = 1000
        refused = await house.ask("POST", f"{E}/decisions", {"context": {}})
        assert (refused.status, refused.code, refused.headers["retry-after"]) == (503, "overloaded", "1")
        assert (await house.ask("GET", "/healthz")).status == 200
        assert (await house.ask("GET", "/readyz")).status == 200
        house.engine.metrics.in_flight = 0
        house.engine.journal.depth = 10**6
        assert (await house.ask("POST", f"{E}/decisions", {"context": {}})).code == "overloaded"
        house.engine.journal.depth = 0
        assert (await house.ask("POST", f"{E}/decisions", {"context": {}})).status == 200
        house.app.end()
        stopping = await house.ask("POST", f"{E}/decisions", {"context": {}})
        assert (stopping.status, stopping.code) == (503, "stopping")
        assert (await house.ask("GET", "/readyz")).status == 503
        assert (await house.ask("GET", "/healthz")).status == 200

    in_house(tmp_path, play)


def test_an_error_of_ours_is_told_but_not_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(house: House) -> None:
        await created(house)

        def fails(*_: Any) -> None:
            raise RuntimeError("a secret of the inside")

        monkeypatch.setattr("glcb.service.stats.stats", fails)
        answer = await house.ask("GET", f"{E}/stats")
        assert (answer.status, answer.code) == (500, "internal_error")
        assert "secret" not in answer.content.decode()

    in_house(tmp_path, play)
