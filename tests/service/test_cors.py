"""Web pages of listed origins may decide, rank and report rewards, and nothing else."""

from pathlib import Path
from typing import Any

import pytest

from glcb._errors import InvalidSettings
from glcb.service.config import load
from glcb.service.http.static import JAVASCRIPT
from tests.support.asgi import E, Service, create_experiment, running_service

SHOP, OTHER = "https://shop.example", "https://other.example"
DECISION = f"{E}/decisions"
PERMITTED = (DECISION, f"{E}/rankings", f"{DECISION}/1-0/reward")
REFUSED = (E, "/v1/experiments", f"{DECISION}/batch", f"{E}/rewards", f"{E}/stats", "/metrics", "/readyz")
PREFLIGHT = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}


def cors(headers: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.startswith("access-control-")}


async def test_a_preflight_permits_listed_origins_on_the_paths_of_publishable_keys(tmp_path: Path) -> None:
    async with running_service(tmp_path, cors_origins=(SHOP,)) as service:
        for path in PERMITTED:
            answer = await service.ask("OPTIONS", path, more_headers={"origin": SHOP, **PREFLIGHT})
            assert (answer.status, answer.content) == (204, b"")
            assert answer.headers["access-control-allow-origin"] == SHOP
            assert answer.headers["access-control-allow-methods"] == "POST"
            assert answer.headers["access-control-allow-headers"] == "authorization, content-type"
            assert "access-control-allow-credentials" not in answer.headers
            assert answer.headers["vary"] == "origin"
            for origin in (OTHER, f"{SHOP}.evil.example", f"{SHOP}:444", "http://shop.example", "null"):
                refused = await service.ask("OPTIONS", path, more_headers={"origin": origin, **PREFLIGHT})
                assert (refused.status, refused.code, cors(refused.headers)) == (403, "forbidden", {})
        for path in REFUSED:
            answer = await service.ask("OPTIONS", path, more_headers={"origin": SHOP, **PREFLIGHT})
            assert (answer.status, cors(answer.headers)) == (405, {}), path


async def test_responses_and_errors_name_the_origin(tmp_path: Path) -> None:
    async with running_service(tmp_path, cors_origins=(OTHER.replace("other", "third"), SHOP)) as service:
        await create_experiment(service)

        async def ask(path: str, body: Any, origin: str) -> tuple[int, str | None]:
            answer = await service.ask("POST", path, body, more_headers={"origin": origin})
            return answer.status, answer.headers.get("access-control-allow-origin")

        assert await ask(DECISION, {"context": {}}, SHOP) == (200, SHOP)
        assert await ask(DECISION, {"contexts": {}}, SHOP) == (422, SHOP)
        assert await ask(f"{DECISION}/1-0/reward", {"value": 1}, SHOP) == (404, SHOP)
        assert await ask(DECISION, {"context": {}}, OTHER) == (200, None)
        assert await ask(f"{E}/explanations", {"context": {}}, SHOP) == (200, None)
        service.app.close()
        assert await ask(DECISION, {"context": {}}, SHOP) == (503, SHOP)


async def test_without_the_setting_no_origin_is_permitted(service: Service) -> None:
    await create_experiment(service)
    answer = await service.ask("OPTIONS", DECISION, more_headers={"origin": SHOP, **PREFLIGHT})
    assert (answer.status, cors(answer.headers)) == (405, {})
    answer = await service.ask("POST", DECISION, {"context": {}}, more_headers={"origin": SHOP})
    assert (answer.status, cors(answer.headers)) == (200, {})


async def test_every_page_can_load_the_client(service: Service) -> None:
    answer = await service.ask("GET", JAVASCRIPT, media=None, more_headers={"origin": OTHER})
    assert answer.status == 200
    assert answer.headers["access-control-allow-origin"] == "*"
    assert answer.headers["content-type"].startswith("text/javascript")
    assert b"export class Client" in answer.content
    tag = {"if-none-match": answer.headers["etag"]}
    assert (await service.ask("GET", JAVASCRIPT, media=None, more_headers=tag)).status == 304
    service.app.close()
    assert (await service.ask("GET", JAVASCRIPT, media=None)).content == answer.content


def test_origins_come_from_a_list_in_a_file_or_from_a_text(tmp_path: Path) -> None:
    file = tmp_path / "serve.toml"
    file.write_text(f'cors_origins = ["{SHOP}", "http://localhost:3000"]')
    expected = (SHOP, "http://localhost:3000")
    assert load({}, file, {}).cors_origins == expected
    assert (
        load({}, None, {"GLCB_SERVE_CORS_ORIGINS": f"{SHOP}, http://localhost:3000"}).cors_origins == expected
    )
    assert load({}, file, {}, ["cors_origins="]).cors_origins == ()


@pytest.mark.parametrize(
    "origin", ["*", "null", "shop.example", f"{SHOP}/", f"{SHOP}/cart", "https://Shop.example"]
)
def test_an_origin_that_no_browser_sends_is_rejected(origin: str) -> None:
    with pytest.raises(InvalidSettings, match="cors_origins must be a list of origins without a path"):
        load({}, None, {}, [f"cors_origins={origin}"])
