"""The routes for clients of Azure Personalizer, without a socket."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.asgi import CREATION, SECURITY_HEADERS, E, Service, create_experiment, running_service

RANK = "/personalizer/v1.0/rank"
BODY: dict[str, Any] = {
    "actions": [{"id": "a", "features": [{"price": 1}]}, {"id": "b", "features": []}],
    "contextFeatures": [{"age": 31}],
    "eventId": "e1",
}


async def test_without_keys_requests_go_to_the_only_experiment_or_to_the_one_that_is_named(
    tmp_path: Path,
) -> None:
    async with running_service(tmp_path) as service:
        answer = await service.ask("POST", RANK, BODY)
        assert (answer.status, answer.code) == (404, "ResourceNotFound")
        assert "there are 0" in answer.message
        await create_experiment(service)
        answer = await service.ask("POST", RANK, BODY)
        assert (answer.status, answer.data["eventId"]) == (201, "e1")
        assert (await service.ask("POST", f"{E}/decisions/e1/reward", {"value": 1})).status == 200
        await service.ask("PUT", "/v1/experiments/other", CREATION)
        answer = await service.ask("POST", RANK, {**BODY, "eventId": "e2"})
        assert (answer.status, answer.code) == (404, "ResourceNotFound")
        assert "personalizer_experiment=EXPERIMENT" in answer.message
    async with running_service(tmp_path, personalizer_experiment="home") as service:
        assert (await service.ask("POST", RANK, {**BODY, "eventId": "e2"})).status == 201
        assert (await service.ask("GET", E)).data["counts"]["decisions"] == 2


@pytest.mark.parametrize("version", ["v1.0/", "v1.1-preview.3/", ""])
async def test_the_version_in_the_path_does_not_matter(service: Service, version: str) -> None:
    await create_experiment(service)
    base = f"/personalizer/{version}"
    assert (await service.ask("POST", f"{base}rank", BODY, query="api-version=1")).status == 201
    assert (await service.ask("POST", f"{base}events/e1/activate", media=None)).status == 204
    assert (await service.ask("POST", f"{base}events/e1/reward", {"value": 1})).status == 204
    slots = [{"id": "top", "baselineAction": "a"}, {"id": "side", "baselineAction": "b"}]
    page = {**BODY, "eventId": "a page/1", "slots": slots, "deferActivation": True}
    assert (await service.ask("POST", f"{base}multislot/rank", page)).status == 201
    event = f"{base}multislot/events/a page/1"
    assert (await service.ask("POST", f"{event}/activate", media=None)).status == 204
    rewards = {"reward": [{"slotId": "side", "value": 1}, {"slotId": "top", "value": 0}]}
    assert (await service.ask("POST", f"{event}/reward", rewards)).status == 204
    counts = (await service.ask("GET", E)).data["counts"]
    assert (counts["decisions"], counts["rewarded"]) == (3, 3)


REFUSED: list[tuple[str, str, Any, int, str, str]] = [
    ("POST", RANK, b'{"actions": ', 400, "BadRequest", "not valid JSON"),
    ("POST", RANK, {}, 400, "BadRequest", "actions"),
    ("POST", RANK, {**BODY, "actions": [{"id": "z", "features": []}]}, 400, "BadRequest", "'z'"),
    ("POST", RANK, {**BODY, "actions": [{"features": []}]}, 400, "BadRequest", "id"),
    ("POST", RANK, {**BODY, "eventId": "x" * 257}, 400, "BadRequest", "256"),
    ("POST", RANK, b" " * 1_000_001, 413, "RequestEntityTooLarge", "1,000,000"),
    ("POST", "/personalizer/v1.0/events/e1/reward", {"value": "1"}, 400, "BadRequest", "float"),
    ("POST", "/personalizer/v1.0/events/e9/reward", {"value": 1}, 404, "ResourceNotFound", "unknown"),
    ("POST", "/personalizer/v1.0/multislot/events/e1/reward", {"reward": []}, 400, "BadRequest", "reward"),
    ("GET", RANK, None, 405, "MethodNotAllowed", "only POST"),
    ("POST", "/personalizer/v1.0/nothing", {}, 404, "ResourceNotFound", "no such route"),
]


async def test_errors_have_the_format_of_personalizer_and_change_nothing(service: Service) -> None:
    await create_experiment(service)
    before = (await service.ask("GET", E)).data
    for method, path, body, status, code, expected in REFUSED:
        answer = await service.ask(method, path, body)
        assert (answer.status, answer.code) == (status, code), (path, answer.content[:300])
        assert expected in answer.message
        assert answer.data["error"]["innerError"]["code"]
        assert answer.headers.keys() >= SECURITY_HEADERS
    assert (await service.ask("GET", E)).data == before
    assert (await service.ask("POST", RANK, BODY, media="text/plain")).status == 415


async def test_a_different_request_with_the_same_event_id_is_refused(service: Service) -> None:
    await create_experiment(service)
    first = await service.ask("POST", RANK, BODY)
    assert (await service.ask("POST", RANK, BODY)).content == first.content
    answer = await service.ask("POST", RANK, {**BODY, "contextFeatures": [{"age": 32}]})
    assert (answer.status, answer.code) == (409, "Conflict")


async def test_decisions_can_be_deferred_and_activated_without_personalizer(service: Service) -> None:
    await create_experiment(service)
    decision = {"context": {"age": 31}, "id": "e1", "deferred": True}
    assert (await service.ask("POST", f"{E}/decisions", decision)).status == 200
    assert (await service.ask("POST", f"{E}/decisions/e1/reward", {"value": 1})).code == "closed_decision"
    assert (await service.ask("POST", f"{E}/decisions/e2/activate")).code == "unknown_decision"
    assert (await service.ask("POST", f"{E}/decisions/e1/activate")).status == 204
    assert (await service.ask("POST", f"{E}/decisions/e1/reward", {"value": 1})).status == 200
