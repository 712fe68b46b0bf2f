"""The dashboard without a service, an experiment or a person who has signed in."""

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from benchmarks.service.server import Server
from tests.service.conftest import Serve
from tests.support.pages import Open, Scheme, check_accessibility, check_width, decisions
from tests.support.simulated_shop import ARMS, Shop

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.live]


def test_the_page_reconnects_after_a_restart_of_the_service(
    opened: Open, serve: Serve, expected: list[str]
) -> None:
    from playwright.sync_api import expect

    server = serve()
    wide = opened(server.url)
    expect(wide.get_by_role("heading", name="No experiments yet")).to_be_visible()
    check_accessibility(wide)
    check_width(wide)
    assert server.client.put("/v1/experiments/shop", {"arms": ARMS, "policy": "linucb"}).status == 201
    Shop(server.client, "shop").simulate(100)
    wide.get_by_role("link", name="shop").click()
    narrow = opened(f"{server.url}/#/shop", 390, "dark")
    pages = [wide, narrow]
    for page in pages:
        expect(page.locator(".key-figures")).to_contain_text("101")
    expected += ["net::ERR_", "status of 503"]
    server.stop()
    for page in pages:
        expect(page.get_by_role("alert").filter(has_text="not responding")).to_be_visible()
        expect(page.locator("#pulse")).to_have_text("offline")
        assert decisions(page) == 101, "the last known state stays visible"
        check_accessibility(page)
        check_width(page)
    again = Server(server.store, "--port", str(urlsplit(server.url).port))
    try:
        again.start()
        for page in pages:
            expect(page.locator("#pulse")).to_have_text("live", timeout=30_000)
            expect(page.locator("#banner")).to_be_hidden()
            assert decisions(page) == 101
    finally:
        again.close()


def test_the_page_waits_while_the_service_starts(opened: Open, server: Server, expected: list[str]) -> None:
    from playwright.sync_api import expect

    expected.append("status of 503")
    page = opened("about:blank")
    error = {"error": {"code": "starting", "message": "the service is starting: try again"}}
    page.route("**/v1/experiments", lambda route: route.fulfill(status=503, json=error))
    page.goto(server.url)
    expect(page.get_by_role("alert").filter(has_text="The service is starting")).to_be_visible()
    expect(page.locator("#pulse")).to_have_text("starting")
    expect(page.locator(".skeleton").first).to_be_visible()
    check_accessibility(page)
    check_width(page)
    page.unroute("**/v1/experiments")
    expect(page.locator("#pulse")).to_have_text("live")
    expect(page.locator("#banner")).to_be_hidden()
    expect(page.locator(".skeleton")).to_have_count(0)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_workers_are_shown_if_there_are_any(opened: Open, server: Server, width: int, scheme: Scheme) -> None:
    from playwright.sync_api import expect

    common = {"host": "machine-7", "process": 41, "partitions": 86, "draining": False, "restarting": False}
    busy = {**common, "state": "ready", "experiments": 12, "loaded": 3}
    workers = [
        {**busy, "name": "w-0", "trouble": None},
        {**common, "name": "w-1", "state": "away", "experiments": 0, "loaded": 0, "trouble": None},
        {**busy, "name": "w-2", "trouble": "the disk is full"},
        {**busy, "name": "w-3", "trouble": None, "draining": True},
    ]
    page = opened("about:blank", width, scheme)
    answer: dict[str, Any] = {"workers": workers, "owners": None, "pins": {}}
    page.route("**/v1/workers", lambda route: route.fulfill(json=answer))
    page.goto(server.url)
    panel = page.locator(".workers")
    expect(panel).to_contain_text("3 of 4 workers ready")
    rows = panel.get_by_role("region", name="Workers").locator("tbody tr")
    expect(rows.nth(0)).to_have_text("w-0readymachine-74186123")
    expect(rows.nth(1)).to_have_text("w-1awaymachine-7418600")
    expect(rows.nth(2)).to_contain_text("the disk is full")
    expect(rows.nth(3)).to_contain_text("draining")
    check_accessibility(page)
    check_width(page)
    page.unroute("**/v1/workers")
    with page.expect_response("**/v1/workers"):
        page.reload()
    expect(page.locator("#pulse")).to_have_text("live")
    expect(page.locator(".workers")).to_be_hidden()


def test_people_sign_in_and_out(opened: Open, tmp_path: Path, expected: list[str]) -> None:
    expected.append("status of 40[13]")
    server = Server(("--data", str(tmp_path / "glcb.db")))
    keys = {role: _key(server, role) for role in ("read", "edit", "admin")}
    try:
        server.start()
        page = opened(server.url)
        _use_keys(page, server, keys)
        page.close()  # an open page would log that the closed server does not answer
    finally:
        server.close()


def _key(server: Server, role: str) -> str:
    made = server.command("keys", "add", role, "--role", role).stdout
    found: list[str] = re.findall(r"[\w-]{32,}", made)
    return max(found, key=len)


def _use_keys(page: "Page", server: Server, keys: dict[str, str]) -> None:
    from playwright.sync_api import expect

    admin = replace(server.client, api_key=keys["admin"])
    assert admin.put("/v1/experiments/mine", {"arms": ["a", "b"], "policy": "linucb"}).status == 201
    dialog = page.get_by_role("dialog", name="Sign in")
    expect(dialog).to_be_visible()
    expect(dialog).not_to_contain_text("Bearer")
    check_accessibility(page)

    def sign_in(key: str) -> None:
        page.get_by_label("API key", exact=True).fill(key)
        page.keyboard.press("Enter")

    sign_in("x" * 43)
    expect(dialog).to_contain_text("unknown")
    sign_in(keys["read"])
    page.get_by_role("link", name="mine").click()
    expect(page.get_by_role("heading", name="mine")).to_be_visible()
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_hidden()
    page.reload()
    expect(page.get_by_role("heading", name="mine")).to_be_visible()
    stored = "Object.values({...localStorage, ...sessionStorage}).join() + document.cookie"
    assert page.evaluate(stored) == "", "scripts can read neither the key nor the session"
    page.get_by_text("read, viewer").click()
    check_accessibility(page)
    page.get_by_role("button", name="Sign out", exact=True).click()
    expect(dialog).to_be_visible()
    sign_in(keys["edit"])
    page.get_by_role("button", name="Pause", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.locator("h1 .state")).to_have_text("paused")
    page.get_by_text("edit, editor").click()
    page.get_by_role("button", name="Sign out everywhere").click()
    expect(dialog).to_be_visible()


def test_an_unknown_experiment_is_reported(opened: Open, server: Server, expected: list[str]) -> None:
    from playwright.sync_api import expect

    expected.append("status of 404")
    page = opened(f"{server.url}/#/nonesuch")
    expect(page.get_by_role("heading", name="Experiment not found")).to_be_visible()
    check_accessibility(page)
    page.get_by_role("link", name="All experiments", exact=True).click()
    expect(page.get_by_role("heading", name="Experiments", exact=True)).to_be_visible()


def test_a_broken_experiment_is_reported(opened: Open, server: Server, expected: list[str]) -> None:
    from playwright.sync_api import expect

    expected.append("status of 500")
    page = opened("about:blank")
    error = {"error": {"code": "experiment_broken", "message": "its first event is missing"}}
    page.route("**/v1/experiments/torn**", lambda route: route.fulfill(status=500, json=error))
    page.goto(f"{server.url}/#/torn")
    expect(page.get_by_role("heading", name="This experiment cannot be loaded")).to_be_visible()
    expect(page.get_by_text("Its first event is missing")).to_be_visible()
    expect(page.locator("#banner")).to_be_hidden()
    check_accessibility(page)


def test_a_page_that_does_not_exist_is_reported(opened: Open, server: Server) -> None:
    from playwright.sync_api import expect

    page = opened(f"{server.url}/#/experiments/unknown")
    expect(page.get_by_role("heading", name="Page not found")).to_be_visible()
    check_accessibility(page)
