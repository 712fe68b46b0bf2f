"""The HTTP API, asked directly: every route, every shape of refusal, limits and keys."""

import io
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from glcb.bandit import Bandit
from glcb.service import keys
from glcb.service.http import openapi, wire
from glcb.service.http.app import Application
from glcb.service.http.routes import OPERATIONS
from glcb.service.problems import STATUS
from tests.service.asgi import House, in_house, lifespan

E = "/v1/experiments/home"
CREATION = {"arms": ["a", "b", "c"], "policy": "linucb"}
SECURITY = {name.decode() for name, _ in wire.SECURITY}


async def created(house: House, **changes: Any) -> None:
    answer = await house.ask("PUT", E, {**CREATION, **changes})
    assert answer.status == 201, answer.content


def test_a_life_of_an_experiment(tmp_path: Path) -> None:
    async def play(house: House) -> None:
        await created(house, holdout=0.0)
        assert (await house.ask("PUT", E, CREATION | {"holdout": 0.0})).status == 200
        assert (await house.ask("PUT", E, CREATION)).code == "experiment_exists"
        decided = await house.ask("POST", f"{E}/decisions", {"context": {"age": 31}, "eligible": ["a", "b"]})
        assert decided.status == 200
        assert decided.data["arm"] in ("a", "b")
        assert sum(decided.data["probabilities"].values()) == pytest.approx(1)
        assert decided.data["probabilities"]["c"] == 0
        path = f"{E}/decisions/{decided.data['id']}/reward"
        assert (await house.ask("POST", path, {"value": 1, "key": "k"})).data["status"] == "taken"
        assert (await house.ask("POST", path, {"value": 1, "key": "k"})).data["status"] == "repeated"
        assert (await house.ask("POST", path, {"value": 1})).code == "duplicate_reward"
        batch = await house.ask(
            "POST", f"{E}/decisions/batch", {"decisions": [{"context": {"age": n}} for n in range(20)]}
        )
        given = [{"id": one["id"], "value": 0} for one in batch.data["results"]] + [{"id": "1-0", "value": 1}]
        taken = await house.ask("POST", f"{E}/rewards", {"rewards": given})
        assert [one.get("status") for one in taken.data["results"]] == ["taken"] * 20 + [None]
        assert taken.data["results"][-1]["error"]["code"] == "unknown_decision"
        shown = (await house.ask("GET", E)).data
        assert shown["counts"] == {"issued": 21, "rewarded": 21, "expired": 0, "waiting": 0}
        assert shown["sequence"] == 43
        assert sum(shown["plays"].values()) == 21
        assert [one["name"] for one in (await house.ask("GET", "/v1/experiments")).data["experiments"]] == [
            "home"
        ]

    in_house(tmp_path, play)


def test_arms_come_and_go(tmp_path: Path) -> None:
    async def play(house: House) -> None:
        await created(house)
        added = await house.ask("POST", f"{E}/arms", {"name": "x/y z", "like": "a"})
        assert added.status == 201
        assert added.data["arms"] == ["a", "b", "c", "x/y z"]
        assert (await house.ask("POST", f"{E}/arms", {"name": "a"})).code == "arm_exists"
        unknown = await house.ask("POST", f"{E}/arms", {"name": "d", "like": "nobody"})
        assert (unknown.status, unknown.code) == (422, "unknown_arm")
        assert (await house.ask("DELETE", f"{E}/arms/x/y z")).data["arms"] == ["a", "b", "c"]
        gone = await house.ask("DELETE", f"{E}/arms/x/y z")
        assert (gone.status, gone.code) == (404, "unknown_arm")
        for arm in ("a", "b"):
            await house.ask("DELETE", f"{E}/arms/{arm}")
        assert (await house.ask("DELETE", f"{E}/arms/c")).code == "invalid_settings"

    in_house(tmp_path, play)


def test_states_and_deleting(tmp_path: Path) -> None:
    async def play(house: House) -> None:
        await created(house)
        changed = await house.ask("PATCH", E, {"state": "paused", "exploration": 0.2, "holdout": 0.5})
        assert (changed.data["state"], changed.data["exploration"], changed.data["holdout"]) == (
            "paused",
            0.2,
            0.5,
        )
        assert (await house.ask("POST", f"{E}/decisions", {"context": {}})).code == "experiment_paused"
        assert (await house.ask("PATCH", E, {"exploration": 7})).code == "invalid_settings"
        assert (await house.ask("PATCH", E, {"state": "lost"})).code == "invalid_request"
        assert (await house.ask("PATCH", E, {"state": "archived"})).data["state"] == "archived"
        assert (await house.ask("GET", f"{E}/stats")).status == 200
        assert (await house.ask("DELETE", E)).status == 204
        assert (await house.ask("GET", E)).code == "unknown_experiment"
        assert (await house.ask("DELETE", E)).code == "unknown_experiment"

    in_house(tmp_path, play)


def test_an_explanation_changes_nothing(tmp_path: Path) -> None:
    async def play(house: House) -> None:
        await created(house, exploration=0.1)
        for n in range(30):
            await house.ask("POST", f"{E}/decisions", {"context": {"age": n, "country": "FR"}})
        before = (await house.ask("GET", E)).data
        asked = {"context": {"age": 3, "country": "FR"}, "eligible": ["a", "c"]}
        told = (await house.ask("POST", f"{E}/explain", asked)).data
        assert [arm["arm"] for arm in told["arms"]] == ["a", "b", "c"]
        assert sum(arm["probability"] for arm in told["arms"]) == pytest.approx(1)
        assert told["arms"][1]["probability"] == 0
        assert {part["feature"] for part in told["arms"][0]["contributions"]} == {"age", "country"}
        assert "country = FR" in told["text"]
        assert (await house.ask("POST", f"{E}/explain", asked | {"eligible": ["x"]})).code == "unknown_arm"
        assert (await house.ask("GET", E)).data == before

    in_house(tmp_path, play)


def test_exports_hold_everything_and_can_go_on(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    async def play(house: House) -> None:
        await created(house)
        for n in range(12):
            made = await house.ask("POST", f"{E}/decisions", {"context": {"age": n}, "key": f"k{n}"})
            if n % 2:
                await house.ask("POST", f"{E}/decisions/{made.data['id']}/reward", {"value": 1})
        lines = (await house.ask("GET", f"{E}/export")).content.splitlines()
        assert len(lines) == 18
        later = (await house.ask("GET", f"{E}/export", query="after=15")).content.splitlines()
        assert later == lines[14:]
        content = (await house.ask("GET", f"{E}/export", query="format=parquet")).content
        table = pq.read_table(io.BytesIO(content)).to_pylist()
        assert [row["event"] for row in table].count("decision") == 12
        assert table[0]["context"] == '{"age": 0}'
        for form in ("jsonl", "parquet"):
            path = tmp_path / f"export.{form}"
            path.write_bytes((await house.ask("GET", f"{E}/export", query=f"format={form}")).content)
            bandit = Bandit(["a", "b", "c"], policy="linucb")
            bandit.learn_from(path)
            assert bandit.counts == {"issued": 12, "rewarded": 6, "expired": 0, "waiting": 6}
        for query in ("format=csv", "after=-1", "after=x", "before=3"):
            assert (await house.ask("GET", f"{E}/export", query=query)).code == "invalid_request"

    in_house(tmp_path, play)


def test_a_model_goes_out_and_comes_in(tmp_path: Path) -> None:
    async def play(house: House) -> None:
        await created(house)
        for n in range(10):
            made = await house.ask("POST", f"{E}/decisions", {"context": {"age": n}})
            await house.ask("POST", f"{E}/decisions/{made.data['id']}/reward", {"value": 1})
        model = (await house.ask("GET", f"{E}/model")).content
        (tmp_path / "model.glcb").write_bytes(model)
        bandit = Bandit.load(tmp_path / "model.glcb")
        assert bandit.counts["rewarded"] == 10
        bandit.add_arm("new")
        bandit.save(tmp_path / "model.glcb")
        changed = (tmp_path / "model.glcb").read_bytes()
        octets = "application/octet-stream"
        shown = await house.ask("PUT", f"{E}/model", changed, media=octets)
        assert shown.data["arms"] == ["a", "b", "c", "new"]
        assert shown.data["counts"]["rewarded"] == 10
        assert (await house.ask("PUT", f"{E}/model", changed[:-5], media=octets)).code == "invalid_model"
        assert (await house.ask("PUT", f"{E}/model", b"", media=octets)).code == "invalid_model"
        assert (await house.ask("PUT", f"{E}/model", changed)).code == "unsupported_media_type"
        Bandit(3).save(tmp_path / "numbers.glcb")
        numbers = (tmp_path / "numbers.glcb").read_bytes()
        assert (await house.ask("PUT", f"{E}/model", numbers, media=octets)).code == "invalid_model"
        assert (await house.ask("POST", f"{E}/decisions", {"context": {"age": 1}})).status == 200

    in_house(tmp_path, play)


REFUSED: list[tuple[str, str, str, Any, str]] = [
    ("POST", f"{E}/decisions", "invalid_json", b'{"context": ', ""),
    ("POST", f"{E}/decisions", "invalid_json", b"\xff\xfe", ""),
    ("POST", f"{E}/decisions", "invalid_json", b'{"context":' + b"[" * 100_000, ""),
    ("POST", f"{E}/decisions", "invalid_request", {"context": {}, "extra": 1}, "extra"),
    ("POST", f"{E}/decisions", "invalid_request", {"context": "FR"}, "context"),
    ("POST", f"{E}/decisions", "invalid_request", {"context": {}, "key": ""}, "key"),
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
    ("PUT", "/v1/experiments/x", "invalid_settings", {"arms": ["a"], "combine": "sum"}, "patience"),
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
        (f"{E}/decisions", b'{"contxt": {}}', "the fields are context, eligible, key"),
        (f"{E}/decisions", b'{"context": {}, "a` - at `$.b[0]": 1}', "are context, eligible, key"),
        (f"{E}/decisions/batch", b'{"decisions": [{"context": {}, "k": 1}]}', "are context, eligible, key"),
        (f"{E}/rewards", b'{"reward": []}', "the fields are rewards"),
        (f"{E}/rewards", b'{"rewards": [{"id": "1", "val": 1}]}', "the fields are id, value, key"),
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


def test_keys_open_what_they_should(tmp_path: Path) -> None:
    async def play(house: House) -> None:
        await created(house)
        await house.ask("PUT", "/v1/experiments/other", CREATION)
        made = {role: keys.add(house.storage, role, role) for role in ("decide", "read", "admin")}
        made["bound"] = keys.add(house.storage, "bound", "admin", ["other"])
        house.door.keyring.refresh()
        asked: list[tuple[str, str, Any, str]] = [
            ("POST", f"{E}/decisions", {"context": {}}, "decide"),
            ("POST", f"{E}/decisions/batch", {"decisions": []}, "decide"),
            ("POST", f"{E}/rewards", {"rewards": []}, "decide"),
            ("GET", E, None, "read"),
            ("GET", f"{E}/stats", None, "read"),
            ("GET", f"{E}/export", None, "read"),
            ("GET", "/metrics", None, "read"),
            ("POST", f"{E}/explain", {"context": {}}, "read"),
            ("PATCH", E, {"exploration": 0.1}, "admin"),
            ("POST", f"{E}/arms", {"name": "z"}, "admin"),
        ]
        for method, path, body, role in asked:
            for wrong in (None, "glcb_wrong", made[role][:-1]):
                refused = await house.ask(method, path, body, key=wrong)
                assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
            for own in ("decide", "read", "admin"):
                answer = await house.ask(method, path, body, key=made[own])
                allowed = own in (role, "admin")
                assert (answer.status < 300) == allowed, (path, own)
                assert allowed or answer.code == "forbidden"
                assert (
                    allowed
                    or f"the role {'admin' if role == 'admin' else f'{role} or admin'};" in answer.message
                )
        foreign = await house.ask("GET", E, key=made["bound"])
        missing = await house.ask("GET", "/v1/experiments/nobody", key=made["bound"])
        assert foreign.status == missing.status == 404
        assert foreign.content.replace(b"home", b"nobody") == missing.content
        seen = await house.ask("GET", "/v1/experiments", key=made["bound"])
        assert [one["name"] for one in seen.data["experiments"]] == ["other"]
        assert "home" not in (await house.ask("GET", "/metrics", key=made["bound"])).content.decode()
        assert (await house.ask("GET", "/openapi.json")).status == 200

    in_house(tmp_path, play)


def test_without_keys_only_this_machine_is_answered(tmp_path: Path) -> None:
    async def play(house: House) -> None:
        for host in ("localhost:8000", "127.0.0.1:8000", "[::1]:8000"):
            assert (await house.ask("GET", "/v1/experiments", host=host)).status == 200
        assert (await house.ask("GET", "/v1/experiments", host="evil.example:8000")).code == "forbidden"

    in_house(tmp_path, play)


def test_every_route_is_in_the_document_and_answers(tmp_path: Path) -> None:
    document = openapi.document()
    told = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert told == {(operation.method, operation.path) for operation in OPERATIONS}

    async def play(house: House) -> None:
        await created(house)
        for operation in OPERATIONS:
            path = operation.path.format(name="home", id="1-00000000", arm="nobody")
            body: Any = {} if operation.body is not None else None
            answer = await house.ask(operation.method, path, body)
            assert answer.headers.keys() >= SECURITY
            assert answer.status not in (405, 500)
            assert (
                str(answer.status) in document["paths"][operation.path][operation.method.lower()]["responses"]
            )
            if operation.name == "delete":
                await created(house)

    in_house(tmp_path, play)


def test_the_document_refers_to_nothing_that_is_missing() -> None:
    document = openapi.document()
    schemas = document["components"]["schemas"]

    def references(part: Any) -> set[str]:
        if isinstance(part, dict):
            own = {part["$ref"]} if "$ref" in part else set()
            return own.union(*map(references, part.values()))
        return set().union(*map(references, part)) if isinstance(part, list) else set()

    assert references(document) <= {f"#/components/schemas/{name}" for name in schemas}
    names = [
        operation["operationId"] for methods in document["paths"].values() for operation in methods.values()
    ]
    assert len(names) == len(set(names))


def test_the_log_tells_no_secrets(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def play(house: House) -> None:
        await created(house)
        for n in range(3):
            made = await house.ask(
                "POST", f"{E}/decisions", {"context": {"city": "Samarkand"}, "key": f"ring {n}"}
            )
            await house.ask("POST", f"{E}/decisions/{made.data['id']}/reward", {"value": 0.987654})
        secret, reader = keys.add(house.storage, "shop", "decide"), keys.add(house.storage, "m", "read")
        house.door.keyring.refresh()
        await house.ask("GET", E, key=secret)
        await house.ask("POST", f"{E}/decisions", {"context": {"city": "Samarkand"}}, key="glcb_guessed")
        numbers = await house.ask("GET", "/metrics", key=reader)
        assert numbers.status == 200
        told = caplog.text + numbers.content.decode()
        for unsaid in ("Samarkand", "ring", "0.987654", secret, "glcb_guessed", keys.digest(secret)):
            assert unsaid not in told

    caplog.set_level("DEBUG")
    in_house(tmp_path, play)
