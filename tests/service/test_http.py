"""The HTTP API, asked directly: every route, and who may ask it."""

import io
from pathlib import Path
from typing import Any

import pytest

from glcb.bandit import Bandit
from glcb.service import auth as keys
from glcb.service.http import openapi
from glcb.service.http.operations import OPERATIONS
from tests.service.asgi import CREATION, SECURITY, E, House, created, in_house


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
        assert (await house.ask("POST", path, {"value": 1, "idempotency_key": "k"})).data["status"] == "taken"
        assert (await house.ask("POST", path, {"value": 1, "idempotency_key": "k"})).data[
            "status"
        ] == "repeated"
        assert (await house.ask("POST", path, {"value": 1})).code == "duplicate_reward"
        batch = await house.ask(
            "POST", f"{E}/decisions/batch", {"decisions": [{"context": {"age": n}} for n in range(20)]}
        )
        given = [{"id": one["id"], "value": 0} for one in batch.data["results"]] + [{"id": "1-0", "value": 1}]
        given[0]["value"] = True  # a click is a boolean
        taken = await house.ask("POST", f"{E}/rewards", {"rewards": given})
        assert [one.get("status") for one in taken.data["results"]] == ["taken"] * 20 + [None]
        assert taken.data["results"][-1]["error"]["code"] == "unknown_decision"
        shown = (await house.ask("GET", E)).data
        assert shown["counts"] == {
            "decisions": 21,
            "rewarded": 21,
            "timed_out": 0,
            "evicted": 0,
            "removed": 0,
            "pending": 0,
        }
        assert shown["sequence"] == 43
        assert sum(shown["reward_counts"].values()) == 21
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
            made = await house.ask(
                "POST", f"{E}/decisions", {"context": {"age": n}, "idempotency_key": f"k{n}"}
            )
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
            assert bandit.counts == {
                "decisions": 12,
                "rewarded": 6,
                "timed_out": 0,
                "evicted": 0,
                "removed": 0,
                "pending": 6,
            }
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
                "POST", f"{E}/decisions", {"context": {"city": "Samarkand"}, "idempotency_key": f"ring {n}"}
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
