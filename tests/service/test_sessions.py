"""People sign in: the cookie, what it permits, and for how long."""

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from glcb._errors import InvalidSettings
from glcb.service import config
from glcb.service.access import api_keys, sessions
from glcb.service.access.api_keys import Keyring
from glcb.service.access.sessions import Sessions
from glcb.service.config import ServiceSettings
from glcb.service.errors import ApiError
from glcb.service.http.people import People
from tests.support.asgi import CREATION, Answer, E, Service, create_experiment
from tests.support.builders import open_test_database

SESSION = "/v1/session"
MARK = {"x-requested-with": "glcb"}


async def signed_in(service: Service, key: str, **headers: str) -> tuple[Answer, dict[str, str]]:
    """Sign in; return the answer and the header with the cookie."""
    answer = await service.ask("POST", SESSION, {"api_key": key}, more_headers=headers)
    assert answer.status == 200, answer.content
    return answer, {"cookie": answer.headers["set-cookie"].partition(";")[0]}


async def test_a_key_is_exchanged_for_a_cookie_that_scripts_and_other_sites_cannot_use(
    service: Service,
) -> None:
    secret = service.add_key("ada", "edit", ["home"])
    admin = service.add_key("boss", "admin")
    for name in ("home", "other"):
        assert (await service.ask("PUT", f"/v1/experiments/{name}", CREATION, key=admin)).status == 201
    answer, cookie = await signed_in(service, secret)
    attributes = answer.headers["set-cookie"].lower()
    for expected in ("httponly", "samesite=strict", "path=/", "max-age=43200"):
        assert expected in attributes
    assert "secure" not in attributes
    assert secret not in str(answer)
    behind_tls, _ = await signed_in(service, secret, **{"x-forwarded-proto": "https"})
    assert "secure" in behind_tls.headers["set-cookie"].lower()

    shown = (await service.ask("GET", SESSION, more_headers=cookie)).data
    assert (shown["name"], shown["role"], shown["experiments"]) == ("ada", "edit", ["home"])
    assert shown["expires_at"]
    change = {"exploration": 0.1}
    forged = await service.ask("PATCH", E, change, more_headers=cookie)
    assert (forged.status, forged.code) == (403, "forbidden")
    assert "X-Requested-With" in forged.message
    assert (await service.ask("PATCH", E, change, more_headers=cookie | MARK)).status == 200
    assert (await service.ask("DELETE", E, more_headers=cookie | MARK)).code == "forbidden"
    foreign = await service.ask("GET", "/v1/experiments/other", more_headers=cookie)
    assert foreign.code == "unknown_experiment"
    # A key in the header wins over the cookie.
    assert (await service.ask("DELETE", E, key=admin, more_headers=cookie)).status == 204


@pytest.mark.parametrize("everywhere", [False, True])
async def test_signing_out_ends_this_session_or_all_of_the_key(service: Service, everywhere: bool) -> None:
    secret = service.add_key("ada", "read")
    other = service.add_key("bob", "read")
    (_, first), (_, second), (_, bob) = [await signed_in(service, key) for key in (secret, secret, other)]
    path = "/v1/sessions" if everywhere else SESSION
    assert (await service.ask("DELETE", path, more_headers=first)).code == "forbidden"
    out = await service.ask("DELETE", path, more_headers=first | MARK)
    assert out.status == 204
    assert "max-age=0" in out.headers["set-cookie"].lower()
    over = await service.ask("GET", SESSION, more_headers=first)
    assert (over.status, over.code) == (401, "unauthorized")
    assert (await service.ask("GET", SESSION, more_headers=second)).status == (401 if everywhere else 200)
    assert (await service.ask("GET", SESSION, more_headers=bob)).status == 200
    # A session ends with its key, even if another key gets the same name.
    api_keys.remove_key(service.storage, "bob")
    service.add_key("bob", "admin")
    assert (await service.ask("GET", SESSION, more_headers=bob)).status == 401


def test_a_session_survives_a_restart_expires_and_is_stored_as_a_digest(tmp_path: Path) -> None:
    database = open_test_database(tmp_path)
    api_keys.add_key(database, "ada", "read")
    keyring = Keyring(database)
    now = [1000.0]

    def opened() -> sessions.Sessions:
        return sessions.Sessions(database, keyring, 60, lambda: now[0])

    async def scenario() -> None:
        first = opened()
        token, expires = await first.open(keyring.keys[0])
        assert expires == 1060
        again = opened()
        assert again.find(token) == (keyring.keys[0], expires)
        assert again.find(api_keys.digest(token)) is None, "a stolen digest is no token"
        now[0] = expires
        assert again.find(token) is None
        newer = [(await again.open(keyring.keys[0]))[0] for _ in range(sessions.MAX_SESSIONS + 1)]
        assert again.find(newer[0]) is None, "the oldest is replaced"
        reopened = opened()
        assert [bool(reopened.find(one)) for one in (token, newer[0], newer[1])] == [False, False, True]

    asyncio.run(scenario())
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"glcb_sessions" in stored


async def test_attempts_to_sign_in_are_limited_for_each_address(service: Service) -> None:
    secret = service.add_key("ada", "read")
    page = service.add_key("app", "decide")

    async def attempt(key: str, **more: Any) -> Answer:
        return await service.ask("POST", SESSION, {"api_key": key}, **more)

    assert (await attempt(page)).code == "forbidden"
    codes = [(await attempt("glcb_wrong")).code for _ in range(12)]
    assert codes == ["unauthorized"] * 9 + ["rate_limited"] * 3
    assert (await attempt(secret)).code == "rate_limited"
    assert (await attempt(secret, client="10.0.0.7")).status == 200
    through_proxy = {"x-forwarded-for": "127.0.0.1, 192.0.2.9"}
    assert (await attempt(secret, more_headers=through_proxy)).status == 200
    lied = await attempt(secret, client="10.0.0.7", more_headers=through_proxy)
    assert lied.status == 200
    assert (await service.ask("GET", "/v1/experiments", key=secret)).status == 200, "keys are not limited"


def test_the_address_that_the_proxy_has_seen_is_on_the_last_line() -> None:
    people = People(ServiceSettings(), cast(Sessions, None))
    for number in range(12):
        lines = [b"10.0.0.%d" % number, b"192.0.2.9"]  # HAProxy adds a line of its own
        scope = {"client": ("127.0.0.1", 1), "headers": [(b"x-forwarded-for", line) for line in lines]}
        if number < 10:
            people.count_attempt(scope)
        else:
            with pytest.raises(ApiError, match="too many attempts"):
                people.count_attempt(scope)


@pytest.mark.settings(require_keys=True, user_header="X-User", role_header="X-Role")
async def test_a_trusted_proxy_names_the_person_and_the_role(service: Service) -> None:
    admin = service.add_key("boss", "admin")
    assert (await service.ask("PUT", E, CREATION, key=admin)).status == 201
    ada = {"x-user": "ada@example.com"}
    shown = (await service.ask("GET", SESSION, more_headers=ada)).data
    assert (shown["name"], shown["role"], shown["expires_at"]) == ("ada@example.com", "read", None)
    change = {"exploration": 0.1}
    for headers, code in ((ada | MARK, "forbidden"), (ada | {"x-role": "owner"} | MARK, "forbidden")):
        assert (await service.ask("PATCH", E, change, more_headers=headers)).code == code
    editor = ada | {"x-role": "edit"}
    assert (await service.ask("PATCH", E, change, more_headers=editor)).code == "forbidden", "no mark"
    assert (await service.ask("PATCH", E, change, more_headers=editor | MARK)).status == 200
    elsewhere = await service.ask("GET", SESSION, more_headers=ada, client="10.0.0.7")
    assert elsewhere.code == "unauthorized"
    mapped = await service.ask("GET", SESSION, more_headers=ada, client="::ffff:127.0.0.1")
    assert mapped.status == 200


@pytest.mark.parametrize("name", ["guardrail", "local", " guardrail "])
@pytest.mark.settings(require_keys=True, user_header="X-User", role_header="X-Role")
async def test_a_person_cannot_have_a_name_that_the_trail_of_changes_uses(
    service: Service, name: str
) -> None:
    admin = service.add_key("boss", "admin")
    assert (await service.ask("PUT", E, CREATION, key=admin)).status == 201
    headers = {"x-user": name, "x-role": "edit"} | MARK
    refused = await service.ask("PATCH", E, {"exploration": 0.1}, more_headers=headers)
    assert (refused.status, refused.code) == (401, "unauthorized")
    assert f"the name {name.strip()!r}" in refused.message
    (change,) = (await service.ask("GET", f"{E}/changes", key=admin)).data["changes"]
    assert (change["by"], change["action"]) == ("boss", "created")


async def test_without_the_setting_no_header_names_a_person(service: Service) -> None:
    await create_experiment(service)
    service.add_key("boss", "admin")
    answer = await service.ask("GET", E, more_headers={"x-user": "ada", "x-role": "admin"})
    assert answer.code == "unauthorized"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"user_header": "X-User"}, "require_keys"),
        ({"role_header": "X-Role", "require_keys": True}, "user_header"),
        ({"trusted_proxies": ["proxy.example"]}, "addresses or networks"),
    ],
)
def test_settings_that_would_let_anybody_name_a_person_are_refused(
    values: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidSettings, match=message):
        config.load(values, None, {})


def test_a_session_that_another_worker_has_opened_is_known_when_it_is_used(tmp_path: Path) -> None:
    async def scenario() -> None:
        storage = open_test_database(tmp_path)
        api_keys.add_key(storage, "ada", "edit")
        first, second = (sessions.Sessions(storage, Keyring(storage), 3600) for _ in range(2))
        first.is_shared = second.is_shared = True
        (key,) = api_keys.list_keys(storage)
        token, _ = await first.open(key)
        assert second.find(token) is None
        await second.learn(token)
        found = second.find(token)
        assert found is not None
        assert found[0].name == "ada"
        readings = second._learned_at
        await second.learn("unknown")  # too soon for another reading
        assert second._learned_at == readings
        storage.close()

    asyncio.run(scenario())
