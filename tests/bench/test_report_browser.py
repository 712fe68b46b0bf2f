"""The report in a browser: wide and narrow, light and dark."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from glcb.bench import paper
from glcb.bench.report import write
from tests.bench.browser import browser
from tests.bench.records import bakeoff, folder, record

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.live]


@pytest.fixture(scope="module")
def chrome() -> "Iterator[Browser]":
    with browser() as running:
        yield running


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a wide report: all results of the paper and two more tasks."""
    records = [
        record(policy, task, seed, cell.mean + seed, optimum=6000, steps_run=paper.steps(task))
        for policy, row in paper.REWARDS.items()
        for task, cell in row.items()
        for seed in range(2)
    ]
    records += [record("glcb", task, 0, 50, settings={"tree_depth": 2}) for task in ("linear", "mushroom")]
    html, _ = write(folder(tmp_path_factory.mktemp("runs"), records))
    return html


@pytest.fixture(scope="module")
def large_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a report on 26 tasks and 18 policies."""
    html, _ = write(folder(tmp_path_factory.mktemp("bakeoff"), bakeoff(seeds=2)))
    return html


def color(page: "Page", element: str, what: str) -> tuple[int, ...]:
    shown = page.evaluate(f"getComputedStyle(document.querySelector({element!r})).{what}")
    return tuple(int(part) for part in shown.removeprefix("rgb(").removesuffix(")").split(","))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_opens_without_errors_and_fits(
    chrome: "Browser", report: Path, tmp_path: Path, width: int, scheme: str
) -> None:
    context = chrome.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    try:
        page = context.new_page()
        errors: list[str] = []
        requests: list[str] = []
        page.on("console", lambda message: errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(report.as_uri())
        for section in page.query_selector_all("header, section"):
            name = section.get_attribute("id") or "header"
            section.screenshot(path=tmp_path / f"{name}-{width}-{scheme}.png")
        assert errors == []
        assert requests == [report.as_uri()], "the page loads nothing else"

        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for table in page.query_selector_all("#ranks table, #rewards table, #differences table"):
            assert table.is_visible()
        boxes = page.evaluate(
            "[...document.querySelectorAll('.box')].map(b => b.scrollWidth - b.clientWidth)"
        )
        assert max(boxes) > 0 or width > 1000, "on a phone wide tables scroll inside their box"

        figures = page.evaluate(
            "[...document.querySelectorAll('svg')].map(s => [s.clientWidth, s.clientHeight])"
        )
        assert len(figures) == 13, "shares, leads, ranks, costs, and the regret on nine tasks"
        assert all(300 < wide <= width and high > 40 for wide, high in figures)
        letters = page.evaluate(
            "Math.min(...[...document.querySelectorAll('svg text')]"
            ".map(t => parseFloat(getComputedStyle(t).fontSize) * t.getScreenCTM().a))"
        )
        assert letters > 8, "labels can be read"

        ink, ground = color(page, "body", "color"), color(page, "html", "backgroundColor")
        assert color(page, "svg text", "fill") == ink
        assert (sum(ink) > sum(ground)) == (scheme == "dark")
    finally:
        context.close()


def test_the_page_prints_on_white_with_complete_tables(
    chrome: "Browser", report: Path, tmp_path: Path
) -> None:
    context = chrome.new_context(color_scheme="dark")
    try:
        page = context.new_page()
        page.goto(report.as_uri())
        page.emulate_media(media="print")
        assert color(page, "html", "backgroundColor") == (255, 255, 255)
        assert color(page, "svg text", "fill") == (0, 0, 0)
        assert page.evaluate("getComputedStyle(document.querySelector('.box')).overflowX") == "visible"
        assert page.pdf(path=tmp_path / "report.pdf", prefer_css_page_size=True).startswith(b"%PDF")
    finally:
        context.close()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_a_report_on_many_tasks_fits_and_is_accessible(
    chrome: "Browser", large_report: Path, width: int, scheme: str
) -> None:
    from axe_playwright_python.sync_playwright import Axe

    context = chrome.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    try:
        page = context.new_page()
        page.goto(large_report.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        wide = page.evaluate(
            "[...document.querySelectorAll('#rewards .box')].map(b => b.scrollWidth - b.clientWidth)"
        )
        assert wide[0] > 0, "a wide table scrolls inside its box"
        first = page.locator("#overview figure").first.bounding_box()
        assert first is not None
        assert first["y"] < 900, "the first figure begins on the first screen"
        letters = page.evaluate(
            "Math.min(...[...document.querySelectorAll('svg text')]"
            ".map(t => parseFloat(getComputedStyle(t).fontSize) * t.getScreenCTM().a))"
        )
        assert letters > 8, "labels can be read"
        outside = page.evaluate(
            "[...document.querySelectorAll('svg')].flatMap(s => [...s.querySelectorAll('text')].filter(t => {"
            "const a = s.getBoundingClientRect(), b = t.getBoundingClientRect();"
            "return b.left < a.left - 2 || b.right > a.right + 2}).map(t => t.textContent.trim()))"
        )
        assert outside == [], "labels are not cut off"
        violations = Axe().run(page).response["violations"]
        assert [one["id"] for one in violations if one["impact"] in ("serious", "critical")] == []
    finally:
        context.close()
