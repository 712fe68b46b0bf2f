"""Pages of the dashboard: how they are opened, read and checked."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from tests.support.simulated_shop import Shop

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Scheme = Literal["light", "dark"]
Open = Callable[..., "Page"]
SIZES = {1280: 900, 390: 844}


@contextmanager
def opening(chrome: "Browser", expected: list[str]) -> Iterator[Open]:
    """Open pages that are closed at the end; fail on unexpected console messages and foreign requests."""
    contexts = []
    requested: list[str] = []
    messages: list[str] = []

    def open_page(url: str, width: int = 1280, scheme: Scheme = "light") -> "Page":
        context = chrome.new_context(
            viewport={"width": width, "height": SIZES[width]}, color_scheme=scheme, locale="en-GB"
        )
        context.set_default_timeout(10_000)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("request", lambda request: requested.append(request.url))
        page.goto(url)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [text for text in messages if not any(re.search(pattern, text) for pattern in expected)] == []
    assert all(urlsplit(url).hostname == "127.0.0.1" for url in requested), (
        "the page must not send requests to other hosts"
    )


def check_accessibility(page: "Page") -> None:
    """Check the page with axe-core."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    wrong = [
        f"{one['impact']} {one['id']}: {[node['html'] for node in one['nodes']]}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
    assert wrong == []


def check_width(page: "Page") -> None:
    """Check that the page does not scroll horizontally."""
    assert page.viewport_size is not None
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]


def simulate_two_seconds(shop: Shop, visitors: int) -> None:
    """Simulate visitors in two different seconds: the points of a figure are at least a second apart."""
    shop.simulate(visitors // 2)
    time.sleep(1.1)
    shop.simulate(visitors // 2)


def decisions(page: "Page") -> int:
    figure = page.locator(".key-figures > div", has=page.get_by_text("Decisions", exact=True))
    shown = figure.locator(".number").inner_text()
    return int(shown.replace(",", ""))
