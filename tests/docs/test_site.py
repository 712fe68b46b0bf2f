"""The documentation site builds without warnings, works offline, and renders formulas and signatures."""

import html
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.bench.browser import browser

pytest.importorskip("mkdocs")

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    build = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert build.returncode == 0, build.stdout + build.stderr
    return folder


@pytest.fixture(scope="module")
def reference(site: Path) -> str:
    """The HTML of all reference pages."""
    return "".join(page.read_text(encoding="utf-8") for page in sorted((site / "reference").glob("*.html")))


class Resources(HTMLParser):
    """Collects the addresses that a browser loads without a click."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag in ("script", "img", "iframe", "source"):
            self.addresses.append(attributes.get("src") or "")
        if tag == "link" and attributes.get("rel") != "canonical":
            self.addresses.append(attributes.get("href") or "")


def test_nothing_is_loaded_from_the_internet(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 25
    for page in pages:
        resources = Resources()
        resources.feed(page.read_text(encoding="utf-8"))
        assert [address for address in resources.addresses if "//" in address] == [], page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//|@import", sheet.read_text(encoding="utf-8")), sheet


@pytest.mark.live
@pytest.mark.browser
def test_search_works_from_the_file_system(site: Path) -> None:
    with browser() as running:
        page = running.new_page()
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        page.goto((site / "index.html").as_uri())
        page.locator(".md-search__input").press_sequentially("propensity")
        page.wait_for_selector(".md-search-result__link", state="attached", timeout=60_000)
        assert page.locator(".md-search-result__link").count() > 3
        assert [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []


def test_every_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    pages = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.ipynb")]
    existing = {str(page.relative_to(ROOT / "docs").with_suffix(".md")) for page in pages}
    assert listed == existing


def test_formulas_are_mathml(site: Path) -> None:
    text = (site / "method.html").read_text(encoding="utf-8")
    assert text.count("<math") > 20
    assert text.count('display="block"') >= 3
    for page in site.rglob("*.html"):
        assert "arithmatex" not in page.read_text(encoding="utf-8"), page


def test_every_marker_is_replaced(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert not re.search("<!-- (generate|output):", page.read_text(encoding="utf-8")), page


def test_signatures_fit_on_the_page(reference: str) -> None:
    signatures = re.findall(r'<div class="[^"]*doc-signature.*?</pre>', reference, re.DOTALL)
    assert len(signatures) > 50
    lines = html.unescape(re.sub(r"<[^>]+>", "", "\n".join(signatures))).splitlines()
    assert [line for line in lines if len(line) > 88] == []


def test_docstrings_are_rendered(reference: str) -> None:
    assert ":meth:" not in reference
    assert "<blockquote>" not in reference  # an example that is not recognized as code
    assert re.search(r"Parameters:?</", reference)


def test_no_base_classes_and_no_private_modules_are_shown(reference: str) -> None:
    visible = html.unescape(re.sub(r"<(script|style).*?</\1>|<[^>]+>", " ", reference, flags=re.DOTALL))
    assert "Bases:" not in visible
    assert re.findall(r"\bglcb(?:\.\w+)*\._[a-z]\w*", visible) == []
