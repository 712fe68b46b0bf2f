"""The dashboard in a real browser: made, fed, watched, changed, lost and found again, wide and narrow."""

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

import pytest

from benchmarks.service.server import Server
from tests.bench.browser import browser
from tests.service.conftest import Serve
from tests.service.shop import ARMS, Shop

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

Scheme = Literal["light", "dark"]
Open = Callable[..., "Page"]
SIZES = {1280: 900, 390: 844}
NAMES = {1280: "homepage", 390: "front-page"}
PICTURES = os.environ.get("GLCB_PICTURES")
"""Folder for the pictures of the documentation (``make pictures``); more visitors come for their sake."""


@pytest.fixture(scope="module")
def chrome() -> "Iterator[Browser]":
    with browser() as running:
        yield running


@pytest.fixture
def expected() -> list[str]:
    """Collect patterns of what the console may say: the browser notes every request that is refused."""
    return []


@pytest.fixture
def opened(chrome: "Browser", expected: list[str]) -> Iterator[Open]:
    """Open pages of a server that end with the test, and let nothing unexpected be complained about."""
    contexts = []
    asked: list[str] = []
    complaints: list[str] = []

    def open_page(url: str, width: int = 1280, scheme: Scheme = "light") -> "Page":
        context = chrome.new_context(
            viewport={"width": width, "height": SIZES[width]}, color_scheme=scheme, locale="en-GB"
        )
        context.set_default_timeout(10_000)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [text for text in complaints if not any(re.search(known, text) for known in expected)] == []
    assert all(urlsplit(url).hostname == "127.0.0.1" for url in asked), "the service is all there is"


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Return where pictures of the page go."""
    return Path(PICTURES or tmp_path)


def take(page: "Page", path: Path, part: str | None = None) -> None:
    """Take a picture of what is seen at the top of the page, or of a part of it."""
    page.evaluate("scrollTo(0, 0)")
    if part is None:
        page.screenshot(path=path)
    else:
        page.locator(part).screenshot(path=path)
    assert 5_000 < path.stat().st_size < 200_000


def accessible(page: "Page") -> None:
    """Let axe-core look at the page as it is."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    wrong = [
        f"{one['impact']} {one['id']}: {[node['html'] for node in one['nodes']]}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
    assert wrong == []


def fits(page: "Page") -> None:
    """Nothing sticks out to the right."""
    assert page.viewport_size is not None
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]


def decisions(page: "Page") -> int:
    shown = page.locator(".key-figures > div", has_text="Decisions").locator(".number").inner_text()
    return int(shown.replace(",", ""))


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_made_fed_watched_explained_and_changed(
    opened: Open, server: Server, width: int, scheme: Scheme, pictures: Path
) -> None:
    from playwright.sync_api import expect

    name = NAMES[width]
    path = f"/v1/experiments/{name}"
    assert server.client.put("/v1/experiments/another", {"arms": ["a", "b"], "policy": "linucb"}).status < 300
    page = opened(server.url, width, scheme)
    expect(page.get_by_role("link", name="another")).to_be_visible()
    accessible(page)
    fits(page)

    # Made, by keyboard.
    page.get_by_role("button", name="New experiment").press("Enter")
    page.keyboard.type(name)
    page.get_by_label("Arms").fill("\n".join(ARMS))
    page.get_by_label("Hold-out").fill("20")
    accessible(page)
    page.get_by_role("button", name="Create", exact=True).press("Enter")
    expect(page.get_by_role("heading", name=name)).to_be_visible()
    expect(page.get_by_role("heading", name="Waiting for the first decision")).to_be_visible()
    fits(page)

    # Fed and watched: nobody reloads the page.
    shop = Shop(server.client, name)
    shop.visited(400 if PICTURES is None else 4000)
    expect(page.locator(".chart canvas")).to_have_count(2)
    expect(page.get_by_role("heading", name="Waiting for the first decision")).to_be_hidden()
    before = decisions(page)
    assert before >= 20
    shop.visited(200)
    page.wait_for_function(
        "before => +document.querySelector('.key-figures > :nth-child(4) .number')"
        ".textContent.replace(',', '') > before",
        arg=before,
    )
    truth = server.client.get(f"{path}/stats").data
    expect(page.locator(".arms tbody tr")).to_have_count(4)
    share = page.locator(".arms tr", has_text="Summer sale").locator("td.share")
    expect(share).to_have_text(f"{100 * truth['arms'][0]['share']:.1f}%")
    expect(page.locator(".checks li")).to_have_count(len(truth["health"]))
    assert "bandit" in (page.get_by_role("img", name="Reward over").get_attribute("aria-label") or "")
    page.get_by_text("Show as a table").first.click()
    assert page.get_by_role("region", name="Reward as a table").locator("tbody tr").count() > 5
    page.get_by_role("radio", name="time").check(force=True)
    fits(page)
    accessible(page)

    # Explained: the bars of an arm lead from its base to its value.
    page.get_by_label("country").fill("IT")
    page.get_by_role("button", name="Explain").click()
    asked = {"context": {"country": "IT", "age": 49, "hour": 12, "member": True}}
    expect(page.locator(".explanation article")).to_have_count(4)
    best = max(
        server.client.post(f"{path}/explain", asked).data["arms"],
        key=lambda arm: float(arm["probability"]),
    )
    first = page.locator(".explanation article").first
    expect(first).to_contain_text(f"played with {100 * best['probability']:.1f}%")
    expect(first).to_contain_text("unless left to chance (20%)")
    expect(page.get_by_label("hour")).to_have_attribute("placeholder", re.compile(r"^\d{1,2} to \d{2}$"))
    expect(first.locator("li")).to_have_count(len(best["contributions"]) + 2)
    accessible(page)
    fits(page)
    page.get_by_text("Show as a table").first.click()
    page.get_by_role("radio", name="decisions").check(force=True)
    take(page, pictures / f"dashboard{'-phone' if width < 1000 else ''}.png")
    take(page, pictures / f"explained{'-phone' if width < 1000 else ''}.png", "section:has(.explain)")
    page.get_by_role("radio", name="JSON").check(force=True)
    page.get_by_label("Context as JSON").fill("{")
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_text("This is not proper JSON")).to_be_visible()

    # Changed: an arm comes and another one goes, only after a question.
    page.get_by_role("button", name="Add an arm").click()
    page.get_by_label("Name").fill("Mystery box")
    page.get_by_label("It starts").select_option("Gift cards")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(page.locator(".arms tbody tr")).to_have_count(5)
    page.get_by_role("button", name="Remove Gift cards").click()
    accessible(page)
    page.keyboard.press("Escape")
    expect(page.locator(".arms tbody tr")).to_have_count(5)
    page.get_by_role("button", name="Remove Gift cards").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.locator(".arms tbody tr")).to_have_count(4)
    shown = server.client.get(path).data
    assert shown["arms"] == ["Summer sale", "Free shipping", "New arrivals", "Mystery box"]
    for verb, state in (("Pause", "paused"), ("Resume", "running")):
        page.get_by_role("button", name=verb).click()
        page.get_by_role("dialog").get_by_role("button", name=verb).click()
        expect(page.locator("h1 .state")).to_have_text(state)
        assert server.client.get(path).data["state"] == state


def test_lost_and_found_again_without_any_help(opened: Open, serve: Serve, expected: list[str]) -> None:
    from playwright.sync_api import expect

    server = serve()
    wide = opened(server.url)
    expect(wide.get_by_role("heading", name="No experiments yet")).to_be_visible()
    accessible(wide)
    fits(wide)
    assert server.client.put("/v1/experiments/shop", {"arms": ARMS, "policy": "linucb"}).status == 201
    Shop(server.client, "shop").visited(100)
    wide.get_by_role("link", name="shop").click()
    narrow = opened(f"{server.url}/#/shop", 390, "dark")
    pages = [wide, narrow]
    for page in pages:
        expect(page.locator(".chart canvas")).to_have_count(2)
    expected += ["net::ERR_", "status of 503"]
    server.stop()
    for page in pages:
        expect(page.get_by_role("alert").filter(has_text="does not answer")).to_be_visible()
        expect(page.locator("#pulse")).to_have_text("lost")
        assert decisions(page) == 101, "what was known last is still there"
        accessible(page)
        fits(page)
    again = Server(server.store, "--port", str(urlsplit(server.url).port))
    try:
        again.start()
        for page in pages:
            expect(page.locator("#pulse")).to_have_text("live", timeout=30_000)
            expect(page.locator("#banner")).to_be_hidden()
            assert decisions(page) == 101
    finally:
        again.forget()


def test_while_the_service_starts_the_page_waits(opened: Open, server: Server, expected: list[str]) -> None:
    from playwright.sync_api import expect

    expected.append("status of 503")
    page = opened("about:blank")
    refusal = {"error": {"code": "starting", "message": "the service is starting: try again"}}
    page.route("**/v1/experiments", lambda route: route.fulfill(status=503, json=refusal))
    page.goto(server.url)
    expect(page.get_by_role("alert").filter(has_text="The service is starting")).to_be_visible()
    expect(page.locator("#pulse")).to_have_text("starting")
    expect(page.locator(".skeleton").first).to_be_visible()
    accessible(page)
    fits(page)
    page.unroute("**/v1/experiments")
    expect(page.locator("#pulse")).to_have_text("live")
    expect(page.locator("#banner")).to_be_hidden()
    expect(page.locator(".skeleton")).to_have_count(0)


def test_with_keys_the_page_asks_for_one(opened: Open, tmp_path: Path, expected: list[str]) -> None:
    expected.append("status of 40[13]")
    server = Server(("--data", str(tmp_path / "glcb.db")))
    keys = {role: _key(server, role) for role in ("read", "admin")}
    try:
        server.start()
        _use_keys(opened(server.url), server, keys)
    finally:
        server.forget()


def _key(server: Server, role: str) -> str:
    made = server.command("keys", "add", role, "--role", role).stdout
    found: list[str] = re.findall(r"[\w-]{32,}", made)
    return max(found, key=len)


def _use_keys(page: "Page", server: Server, keys: dict[str, str]) -> None:
    from playwright.sync_api import expect

    admin = replace(server.client, key=keys["admin"])
    assert admin.put("/v1/experiments/mine", {"arms": ["a", "b"], "policy": "linucb"}).status == 201
    dialog = page.get_by_role("dialog", name="This service needs a key")
    expect(dialog).to_be_visible()
    expect(dialog).not_to_contain_text("Bearer")
    accessible(page)
    page.get_by_label("Key", exact=True).fill("x" * 43)
    page.keyboard.press("Enter")
    expect(dialog).to_contain_text("not known")
    page.get_by_label("Key", exact=True).fill(keys["read"])
    page.keyboard.press("Enter")
    page.get_by_role("link", name="mine").click()
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("admin")
    page.get_by_role("button", name="Cancel").click()
    page.reload()
    expect(page.get_by_role("heading", name="mine")).to_be_visible()
    assert page.evaluate("Object.values({...localStorage}).join() + document.cookie") == ""
    page.get_by_role("button", name="Forget key").click()
    expect(dialog).to_be_visible()


def test_an_experiment_that_is_not_there_is_told(opened: Open, server: Server, expected: list[str]) -> None:
    from playwright.sync_api import expect

    expected.append("status of 404")
    page = opened(f"{server.url}/#/nonesuch")
    expect(page.get_by_role("heading", name="There is no such experiment")).to_be_visible()
    accessible(page)
    page.get_by_role("link", name="All experiments", exact=True).click()
    expect(page.get_by_role("heading", name="Experiments", exact=True)).to_be_visible()


def test_an_experiment_that_is_broken_is_told(opened: Open, server: Server, expected: list[str]) -> None:
    from playwright.sync_api import expect

    expected.append("status of 500")
    page = opened("about:blank")
    refusal = {"error": {"code": "experiment_broken", "message": "its first event is missing"}}
    page.route("**/v1/experiments/torn**", lambda route: route.fulfill(status=500, json=refusal))
    page.goto(f"{server.url}/#/torn")
    expect(page.get_by_role("heading", name="This experiment is broken")).to_be_visible()
    expect(page.get_by_text("Its first event is missing")).to_be_visible()
    expect(page.locator("#banner")).to_be_hidden()
    accessible(page)


def test_many_arms_and_hostile_names_fit(opened: Open, server: Server) -> None:
    from playwright.sync_api import expect

    arms = [f"arm {number}" for number in range(20)] + ["<img src=x onerror=alert(1)>", "w" * 200, "a/b?c#d%"]
    settings = {"arms": arms, "policy": "linucb", "rewards": [-5, 5]}
    assert server.client.put("/v1/experiments/many", settings).status == 201
    Shop(server.client, "many").visited(200)
    page = opened(f"{server.url}/#/many", 390)
    expect(page.locator(".arms tbody tr")).to_have_count(len(arms))
    expect(page.locator(".legend").nth(1).locator("li")).to_have_count(8)
    fits(page)
    page.get_by_role("button", name="Remove a/b?c#d%").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.locator(".arms tbody tr")).to_have_count(len(arms) - 1)
