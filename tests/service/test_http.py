"""The routes of the HTTP API, and the roles that they require."""

import io
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from glcb._api.errors import ERROR_CODES
from glcb._api.guardrails import STEERING
from glcb.bandit import Bandit
from glcb.bandit.config import BanditConfig
from glcb.service.access import api_keys as keys
from glcb.service.http import openapi
from glcb.service.http.operations import OPERATIONS
from tests.support.asgi import CREATION, SECURITY_HEADERS, E, Service, create_experiment, running_service
from tests.support.bandits import counts_of


async def test_an_experiment_from_creation_to_rewards(service: Service) -> None:
    await create_experiment(service, holdout=0.0)
    assert (await service.ask("PUT", E, CREATION | {"holdout": 0.0})).status == 200
    assert (await service.ask("PUT", E, CREATION)).code == "experiment_exists"
    decided = await service.ask("POST", f"{E}/decisions", {"context": {"age": 31}, "eligible": ["a", "b"]})
    assert decided.status == 200
    assert decided.data["arm"] in ("a", "b")
    assert sum(decided.data["probabilities"].values()) == pytest.approx(1)
    assert decided.data["probabilities"]["c"] == 0
    path = f"{E}/decisions/{decided.data['id']}/reward"
    assert (await service.ask("POST", path, {"value": 1, "idempotency_key": "k"})).data[
        "status"
    ] == "accepted"
    assert (await service.ask("POST", path, {"value": 1, "idempotency_key": "k"})).data[
        "status"
    ] == "duplicate"
    assert (await service.ask("POST", path, {"value": 1})).code == "duplicate_reward"
    batch = await service.ask(
        "POST", f"{E}/decisions/batch", {"decisions": [{"context": {"age": n}} for n in range(20)]}
    )
    rewards = [{"id": one["id"], "value": 0} for one in batch.data["results"]]
    rewards.append({"id": "1-0", "value": 1})
    rewards[0]["value"] = True  # a click is a boolean
    answer = await service.ask("POST", f"{E}/rewards", {"rewards": rewards})
    assert [one.get("status") for one in answer.data["results"]] == ["accepted"] * 20 + [None]
    assert answer.data["results"][-1]["error"]["code"] == "unknown_decision"
    shown = (await service.ask("GET", E)).data
    assert shown["counts"] == counts_of(decisions=21, rewarded=21)
    assert shown["sequence"] == 43
    assert sum(shown["reward_counts"].values()) == 21
    assert [one["name"] for one in (await service.ask("GET", "/v1/experiments")).data["experiments"]] == [
        "home"
    ]


async def test_arms_are_added_and_removed(service: Service) -> None:
    await create_experiment(service)
    added = await service.ask("POST", f"{E}/arms", {"name": "x/y z", "like": "a"})
    assert added.status == 201
    assert added.data["settings"]["arms"] == ["a", "b", "c", "x/y z"]
    assert (await service.ask("POST", f"{E}/arms", {"name": "a"})).code == "arm_exists"
    unknown = await service.ask("POST", f"{E}/arms", {"name": "d", "like": "missing"})
    assert (unknown.status, unknown.code) == (422, "unknown_arm")
    assert (await service.ask("DELETE", f"{E}/arms/x/y z")).data["settings"]["arms"] == ["a", "b", "c"]
    gone = await service.ask("DELETE", f"{E}/arms/x/y z")
    assert (gone.status, gone.code) == (404, "unknown_arm")
    for arm in ("a", "b"):
        await service.ask("DELETE", f"{E}/arms/{arm}")
    assert (await service.ask("DELETE", f"{E}/arms/c")).code == "invalid_settings"


@pytest.mark.parametrize("arm", ["a\n", "\n", "a\nb", "/", "a/b\n"])
async def test_an_arm_with_slashes_and_line_breaks_is_the_one_that_is_removed(
    service: Service, arm: str
) -> None:
    await create_experiment(service, arms=["a", "b", arm])
    removed = await service.ask("DELETE", f"{E}/arms/{arm}")
    assert (removed.status, removed.data["settings"]["arms"]) == (200, ["a", "b"])


async def test_an_experiment_is_paused_archived_and_deleted(service: Service) -> None:
    await create_experiment(service)
    changed = await service.ask("PATCH", E, {"state": "paused", "exploration": 0.2, "holdout": 0.5})
    settings = changed.data["settings"]
    assert (changed.data["state"], settings["exploration"], settings["holdout"]) == ("paused", 0.2, 0.5)
    assert (await service.ask("POST", f"{E}/decisions", {"context": {}})).code == "experiment_paused"
    changed = await service.ask("PATCH", E, {"schema": {"age": {"kind": "number", "range": [0, 99]}}})
    assert changed.data["settings"]["schema"] == {"age": {"kind": "number", "range": [0, 99]}}
    assert (await service.ask("PATCH", E, {"schema": {"age": "big"}})).code == "invalid_settings"
    assert (await service.ask("PATCH", E, {"exploration": 7})).code == "invalid_settings"
    assert (await service.ask("PATCH", E, {"state": "unknown"})).code == "invalid_request"
    assert (await service.ask("PATCH", E, {"state": "archived"})).data["state"] == "archived"
    assert (await service.ask("GET", f"{E}/stats")).status == 200
    assert (await service.ask("DELETE", E)).status == 204
    assert (await service.ask("GET", E)).code == "unknown_experiment"
    assert (await service.ask("DELETE", E)).code == "unknown_experiment"


async def test_an_explanation_changes_nothing(service: Service) -> None:
    await create_experiment(service, exploration=0.1)
    for n in range(30):
        await service.ask("POST", f"{E}/decisions", {"context": {"age": n, "country": "FR"}})
    before = (await service.ask("GET", E)).data
    asked = {"context": {"age": 3, "country": "FR"}, "eligible": ["a", "c"]}
    explanation = (await service.ask("POST", f"{E}/explanations", asked)).data
    assert [arm["arm"] for arm in explanation["arms"]] == ["a", "b", "c"]
    assert sum(arm["probability"] for arm in explanation["arms"]) == pytest.approx(1)
    assert explanation["arms"][1]["probability"] == 0
    assert {part["feature"] for part in explanation["arms"][0]["contributions"]} == {"age", "country"}
    assert "country = FR" in explanation["text"]
    assert (await service.ask("POST", f"{E}/explanations", asked | {"eligible": ["x"]})).code == "unknown_arm"
    assert (await service.ask("GET", E)).data == before


async def test_an_export_is_complete_and_can_be_continued(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    async with running_service(tmp_path) as service:
        await create_experiment(service)
        for n in range(12):
            made = await service.ask(
                "POST", f"{E}/decisions", {"context": {"age": n}, "idempotency_key": f"k{n}"}
            )
            if n % 2:
                await service.ask("POST", f"{E}/decisions/{made.data['id']}/reward", {"value": 1})
        header, *lines = (await service.ask("GET", f"{E}/export")).content.splitlines()
        assert len(lines) == 18
        later = (await service.ask("GET", f"{E}/export", query="after=15")).content.splitlines()
        assert later == [header, *lines[14:]]
        content = (await service.ask("GET", f"{E}/export", query="format=parquet")).content
        table = pq.read_table(io.BytesIO(content)).to_pylist()
        assert [row["event"] for row in table].count("decision") == 12
        assert table[0]["context"] == '{"age": 0}'
        for form in ("jsonl", "parquet"):
            path = tmp_path / f"export.{form}"
            path.write_bytes((await service.ask("GET", f"{E}/export", query=f"format={form}")).content)
            bandit = Bandit(["a", "b", "c"], policy="linucb")
            bandit.learn_from(path)
            assert bandit.counts == counts_of(decisions=12, rewarded=6, pending=6)
        for query in ("format=csv", "after=-1", "after=x", "before=3"):
            assert (await service.ask("GET", f"{E}/export", query=query)).code == "invalid_request"


async def test_a_model_is_downloaded_and_uploaded(service: Service, tmp_path: Path) -> None:
    await create_experiment(service)
    for n in range(10):
        made = await service.ask("POST", f"{E}/decisions", {"context": {"age": n}})
        await service.ask("POST", f"{E}/decisions/{made.data['id']}/reward", {"value": 1})
    model = (await service.ask("GET", f"{E}/model")).content
    (tmp_path / "model.glcb").write_bytes(model)
    bandit = Bandit.load(tmp_path / "model.glcb")
    assert bandit.counts["rewarded"] == 10
    bandit.add_arm("new")
    bandit.save(tmp_path / "model.glcb")
    changed = (tmp_path / "model.glcb").read_bytes()
    octets = "application/octet-stream"
    shown = await service.ask("PUT", f"{E}/model", changed, media=octets)
    assert shown.data["settings"]["arms"] == ["a", "b", "c", "new"]
    assert shown.data["counts"]["rewarded"] == 10
    assert (await service.ask("PUT", f"{E}/model", changed[:-5], media=octets)).code == "invalid_model"
    assert (await service.ask("PUT", f"{E}/model", b"", media=octets)).code == "invalid_model"
    assert (await service.ask("PUT", f"{E}/model", changed)).code == "unsupported_media_type"
    Bandit(3).save(tmp_path / "numbers.glcb")
    numbers = (tmp_path / "numbers.glcb").read_bytes()
    assert (await service.ask("PUT", f"{E}/model", numbers, media=octets)).code == "invalid_model"
    assert (await service.ask("POST", f"{E}/decisions", {"context": {"age": 1}})).status == 200


async def test_each_role_permits_its_routes_only(service: Service) -> None:
    await create_experiment(service)
    await service.ask("PUT", "/v1/experiments/other", CREATION)
    roles = ("decide", "read", "edit", "admin")
    made = {role: service.add_key(role, role) for role in roles}
    made["bound"] = service.add_key("bound", "admin", ["other"])
    permitted = {
        "decide": ["decide", "admin"],
        "read": ["read", "edit", "admin"],
        "edit": ["edit", "admin"],
        "admin": ["admin"],
    }
    asked: list[tuple[str, str, Any, str]] = [
        ("POST", f"{E}/decisions", {"context": {}}, "decide"),
        ("POST", f"{E}/decisions/batch", {"decisions": []}, "decide"),
        ("POST", f"{E}/rewards", {"rewards": []}, "decide"),
        ("GET", E, None, "read"),
        ("GET", f"{E}/stats", None, "read"),
        ("GET", f"{E}/export", None, "read"),
        ("GET", "/metrics", None, "read"),
        ("POST", f"{E}/explanations", {"context": {}}, "read"),
        ("PATCH", E, {"exploration": 0.1}, "edit"),
        ("POST", f"{E}/arms", {"name": "z"}, "edit"),
        ("PUT", E, CREATION, "admin"),
    ]
    for method, path, body, role in asked:
        for wrong in (None, "glcb_wrong", made[role][:-1]):
            refused = await service.ask(method, path, body, key=wrong)
            assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
        for own in roles:
            answer = await service.ask(method, path, body, key=made[own])
            allowed = own in permitted[role]
            repeated = answer.status >= 300 and answer.code == "arm_exists"
            assert (answer.status < 300 or repeated) == allowed, (path, own)
            assert allowed or answer.code == "forbidden"
            assert allowed or f" {' or '.join(permitted[role])}, got {own}" in answer.message.replace(
                ", edit", " or edit"
            )
    foreign = await service.ask("GET", E, key=made["bound"])
    missing = await service.ask("GET", "/v1/experiments/missing", key=made["bound"])
    assert foreign.status == missing.status == 404
    assert foreign.content.replace(b"home", b"missing") == missing.content
    visible = await service.ask("GET", "/v1/experiments", key=made["bound"])
    assert [one["name"] for one in visible.data["experiments"]] == ["other"]
    assert "home" not in (await service.ask("GET", "/metrics", key=made["bound"])).content.decode()
    assert (await service.ask("GET", "/openapi.json")).status == 200


async def test_without_keys_only_this_machine_is_answered(service: Service) -> None:
    for host in ("localhost:8000", "127.0.0.1:8000", "[::1]:8000"):
        assert (await service.ask("GET", "/v1/experiments", host=host)).status == 200
    for host in ("evil.example:8000", "[::1].evil.example", "[::1]evil.example:8000", "localhost:x", ""):
        assert (await service.ask("GET", "/v1/experiments", host=host)).code == "forbidden"


async def test_every_route_is_documented_and_answers(tmp_path: Path) -> None:
    document = openapi.document()
    documented = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert documented == {(operation.method, operation.path) for operation in OPERATIONS}

    async with running_service(tmp_path) as service:
        await create_experiment(service)
        for operation in OPERATIONS:
            path = operation.path.format(name="home", id="1-00000000", arm="missing", worker="a")
            body: Any = {} if operation.body is not None else None
            answer = await service.ask(operation.method, path, body)
            assert answer.headers.keys() >= SECURITY_HEADERS
            assert answer.status not in (405, 500)
            assert (
                str(answer.status) in document["paths"][operation.path][operation.method.lower()]["responses"]
            )
            if operation.name == "delete":
                await create_experiment(service)


def test_the_document_describes_every_setting_as_the_bandit_does() -> None:
    schemas = openapi.document()["components"]["schemas"]
    settings = schemas["ExperimentSettings"]["properties"]
    for field in fields(BanditConfig):
        if not field.metadata["json"]:
            assert field.name not in settings
            continue
        assert settings[field.name]["description"]
        if field.name != "arms":
            assert settings[field.name].get("default") == field.default
            assert settings[field.name]["description"] == field.metadata["doc"]
    own = {"holdout", "paused_arms", *STEERING}
    assert settings.keys() == {field.name for field in fields(BanditConfig)} - {"clock"} | own
    assert all(settings[name]["description"] for name in own)
    assert settings["exploration"]["maximum"] == 0.5
    assert "linucb" in settings["policy"]["examples"]
    mutable = {field.name for field in fields(BanditConfig) if field.metadata["mutable"]} - {"clock"}
    assert schemas["ExperimentChanges"]["properties"].keys() == mutable | {
        *("state", "holdout", "reason"),
        *STEERING,
    }


def test_the_reference_page_has_every_route_type_and_error_code() -> None:
    page = openapi.markdown_reference()
    for operation in OPERATIONS:
        assert f"### `{operation.method} {operation.path}`" in page
    for name in openapi.document()["components"]["schemas"]:
        assert f"### {name}\n" in page
    for code in ERROR_CODES:
        assert f"| `{code}` |" in page
    headings = {heading.lower() for heading in re.findall(r"^### (\w+)$", page, re.MULTILINE)}
    assert set(re.findall(r"\(#(\w+)\)", page)) <= headings


def test_every_reference_in_the_document_resolves() -> None:
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


async def test_logs_and_metrics_contain_no_secrets(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    async with running_service(tmp_path) as service:
        await create_experiment(service)
        for n in range(3):
            made = await service.ask(
                "POST", f"{E}/decisions", {"context": {"city": "Samarkand"}, "idempotency_key": f"ring {n}"}
            )
            await service.ask("POST", f"{E}/decisions/{made.data['id']}/reward", {"value": 0.987654})
        secret, reader = (
            service.add_key("shop", "decide"),
            service.add_key("m", "read"),
        )
        await service.ask("GET", E, key=secret)
        await service.ask("POST", f"{E}/decisions", {"context": {"city": "Samarkand"}}, key="glcb_guessed")
        numbers = await service.ask("GET", "/metrics", key=reader)
        assert numbers.status == 200
        output = caplog.text + numbers.content.decode()
        for secret_text in ("Samarkand", "ring", "0.987654", secret, "glcb_guessed", keys.digest(secret)):
            assert secret_text not in output
