"""Publishable keys: one experiment, single decisions and rewards, a limited rate, and nothing to read."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from glcb._errors import InvalidSettings
from glcb.service import auth
from glcb.service.http.operations import OPERATIONS
from tests.service.asgi import Answer, E, Service, create_experiment, with_service
from tests.service.builders import open_test_database

Ask = Callable[..., Awaitable[Answer]]
DECISION, RANKING = f"{E}/decisions", f"{E}/rankings"


def with_publishable_key(
    folder: Path, scenario: Callable[[Service, Ask], Awaitable[None]], **changes: Any
) -> None:
    """Run a scenario with a function that sends requests with a publishable key."""

    async def run(service: Service) -> None:
        await create_experiment(service)
        secret = auth.add_key(service.storage, "page", "publish", ["home"])
        service.authenticator.keyring.refresh()

        async def ask(method: str, path: str, body: Any = None, **more: Any) -> Answer:
            return await service.ask(method, path, body, key=secret, **more)

        await scenario(service, ask)

    with_service(folder, run, **changes)


@pytest.mark.parametrize("experiments", [[], ["home", "cart"]])
def test_a_publishable_key_needs_exactly_one_experiment(tmp_path: Path, experiments: list[str]) -> None:
    database = open_test_database(tmp_path)
    with pytest.raises(InvalidSettings, match="exactly one experiment"):
        auth.add_key(database, "page", "publish", experiments)
    assert auth.list_keys(database) == []


def test_a_publishable_key_permits_three_operations_only(tmp_path: Path) -> None:
    async def scenario(_service: Service, ask: Ask) -> None:
        permitted = set()
        for operation in OPERATIONS:
            if operation.role is None:
                continue
            path = operation.path.format(name="home", id="1", arm="a", node="a")
            answer = await ask(operation.method, path, {})
            if answer.status != 403:
                permitted.add(operation.name)
            foreign = await ask(operation.method, path.replace("home", "other"), {})
            assert foreign.status == (404 if "home" in path else 403)
        assert permitted == {"decide", "rank", "reward"}

    with_publishable_key(tmp_path, scenario)


def test_a_publishable_key_sees_the_chosen_arms_only(tmp_path: Path) -> None:
    async def scenario(_service: Service, ask: Ask) -> None:
        decision = (await ask("POST", DECISION, {"context": {"x": 1}})).data
        assert set(decision) == {"id", "arm"}
        ranking = (await ask("POST", RANKING, {"context": {"x": 1}, "k": 2})).data
        assert set(ranking) == {"id", "arms"}
        for id_ in (decision["id"], ranking["id"]):
            accepted = await ask("POST", f"{DECISION}/{id_}/reward", {"value": 1})
            assert accepted.data == {"id": id_, "status": "accepted"}

    with_publishable_key(tmp_path, scenario)


@pytest.mark.parametrize(("path", "more"), [(DECISION, {}), (RANKING, {"k": 2})], ids=["decide", "rank"])
def test_ids_cannot_be_chosen_or_guessed_and_repeat_with_the_request(
    tmp_path: Path, path: str, more: dict[str, Any]
) -> None:
    async def scenario(_service: Service, ask: Ask) -> None:
        body = {"context": {"x": 1}, **more}
        refused = await ask("POST", path, {**body, "id": "visit-1"})
        assert (refused.status, refused.code) == (403, "forbidden")
        ids = [(await ask("POST", path, body)).data["id"] for _ in range(2)]
        keyed = [await ask("POST", path, {**body, "idempotency_key": key}) for key in ("k1", "k1", "k2")]
        assert keyed[0] == keyed[1]
        ids += [answer.data["id"] for answer in keyed[1:]]
        assert len({id_[:8] for id_ in ids}) == 4, "the ids have nothing in common"
        assert all(len(id_) == 32 for id_ in ids)

    with_publishable_key(tmp_path, scenario)


def test_requests_over_the_rate_are_refused_until_the_key_has_rested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 10**12
    monkeypatch.setattr("time.monotonic_ns", lambda: now)

    async def scenario(service: Service, ask: Ask) -> None:
        nonlocal now

        async def accepted(requests: int) -> int:
            answers = [
                await ask("POST", RANKING if number % 2 else DECISION, {"context": {}, "k": 1})
                for number in range(requests)
            ]
            late = [answer for answer in answers if answer.status == 429]
            assert all(answer.code == "rate_limited" for answer in late)
            assert all(answer.headers["retry-after"] == "1" for answer in late)
            return len(answers) - len(late)

        assert await accepted(8) == 5
        now += 10**9 // 5
        assert await accepted(3) == 1
        now += 10**11
        assert await accepted(8) == 5
        team = auth.add_key(service.storage, "team", "decide")
        service.authenticator.keyring.refresh()
        for _ in range(8):
            assert (await service.ask("POST", DECISION, {"context": {}}, key=team)).status == 200

    with_publishable_key(tmp_path, scenario, publish_rate=5)
