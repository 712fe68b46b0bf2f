"""The files of the dashboard: complete, unmodified, cacheable and self-contained."""

import hashlib
import re
from importlib import resources
from pathlib import Path

import pytest
from starlette.requests import Request

from glcb.service.errors import ApiError
from glcb.service.http.static import Pages

FOLDER = Path(str(resources.files("glcb.service") / "dashboard"))
OURS = [path for path in FOLDER.iterdir() if path.is_file()]


def _file(pages: Pages, name: str, digest: str | None = None, tag: str = "") -> Request:
    headers = [(b"if-none-match", tag.encode())] if tag else []
    parameters = {"digest": digest or pages.digest, "file": name}
    return Request({"type": "http", "headers": headers, "path_params": parameters})


def test_third_party_files_are_unmodified() -> None:
    vendor = FOLDER / "vendor"
    documented = dict(
        re.findall(r"^ +([0-9a-f]{64})  (\S+)$", (vendor / "README.md").read_text(), re.MULTILINE)
    )
    actual = {
        hashlib.sha256(path.read_bytes()).hexdigest(): path.name
        for path in vendor.iterdir()
        if path.suffix in (".js", ".css")
    }
    assert actual == documented
    assert len(actual) == 2
    assert "MIT" in (vendor / "uPlot.LICENSE").read_text()


def test_nothing_is_inline_or_loaded_from_other_hosts() -> None:
    page = (FOLDER / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\son\w+=", page)
    for path in OURS:
        addresses = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+", path.read_text()))
        assert addresses <= {"http://www.w3.org"}, path.name  # the namespace of SVG


def test_all_modules_are_preloaded() -> None:
    """Without preloading, the browser discovers imports one after the other."""
    page = (FOLDER / "index.html").read_text()
    preloaded = re.findall(r'rel="modulepreload" href="static/(\S+)"', page)
    assert sorted([*preloaded, "main.js"]) == sorted(path.name for path in FOLDER.glob("*.js"))


async def _check_all_files(pages: Pages) -> None:
    body = bytes(pages.home().body).decode()
    for name in re.findall(rf'"static/{pages.digest}/([^"]+)"', body):
        response = await pages.route.endpoint(_file(pages, name))
        assert response.status_code == 200, name
        assert "immutable" in response.headers["cache-control"]
        again = await pages.route.endpoint(_file(pages, name, tag=response.headers["etag"]))
        assert (again.status_code, again.body) == (304, b"")
    for script in FOLDER.glob("*.js"):
        for name in re.findall(r'from "\./(\S+)"', script.read_text()):
            assert (await pages.route.endpoint(_file(pages, name))).media_type == "text/javascript"
    for digest, name in (
        (pages.digest, "nonesuch.js"),
        (pages.digest, "../__init__.py"),
        ("0" * 16, "main.js"),
    ):
        with pytest.raises(ApiError, match="no such file"):
            await pages.route.endpoint(_file(pages, name, digest))


def test_all_files_are_served_and_cacheable() -> None:
    import asyncio

    asyncio.run(_check_all_files(Pages()))


def test_the_page_is_not_cached_and_has_a_strict_content_security_policy() -> None:
    headers = Pages().home().headers
    assert headers["cache-control"] == "no-store"
    assert headers["x-frame-options"] == "DENY"
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert len(headers.getlist("content-security-policy")) == 1
