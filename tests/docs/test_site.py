"""The documentation builds without a warning, is complete, and needs nothing from the internet."""

import html
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

import glcb
import glcb.client

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    ran = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder


class Loaded(HTMLParser):
    """Gathers what a browser would load by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("script", "img", "iframe", "source"):
            self.addresses.append(given.get("src") or "")
        if tag == "link" and given.get("rel") != "canonical":
            self.addresses.append(given.get("href") or "")


def test_nothing_comes_from_the_internet(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 15
    for page in pages:
        loaded = Loaded()
        loaded.feed(page.read_text(encoding="utf-8"))
        assert [address for address in loaded.addresses if "//" in address] == [], page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//|@import", sheet.read_text(encoding="utf-8")), sheet


@pytest.mark.parametrize("room", [glcb, glcb.client], ids=lambda room: room.__name__)
def test_the_reference_has_everything_public(site: Path, room: object) -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in (site / "reference").glob("*.html"))
    named = set(re.findall(r'id="glcb\.(?:\w+\.)*(\w+)"', text))
    missing = set(room.__all__) - named - {"__version__", "AsyncExperiment"}  # type: ignore[attr-defined]
    assert missing == set()


def test_the_verbs_of_the_client_are_shown_as_they_are_called(site: Path) -> None:
    text = (site / "reference" / "client.html").read_text(encoding="utf-8")
    plain = re.sub(r"<[^>]+>", "", text)
    assert "eligible: Iterable[str] | None = None" in re.sub(r"\s+", " ", plain)
    assert "Choose an arm for a context" in plain


def test_signatures_fit_on_the_page(site: Path) -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in (site / "reference").glob("*.html"))
    signatures = re.findall(r'<div class="[^"]*doc-signature.*?</pre>', text, re.DOTALL)
    assert len(signatures) > 50
    lines = html.unescape(re.sub(r"<[^>]+>", "", "\n".join(signatures))).splitlines()
    assert [line for line in lines if len(line) > 88] == []


def test_docstrings_are_shown_as_markdown(site: Path) -> None:
    text = "".join(page.read_text(encoding="utf-8") for page in (site / "reference").glob("*.html"))
    assert ":meth:" not in text
    assert "<blockquote>" not in text  # what an example becomes that is not marked as code


def test_every_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    there = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert listed == there
