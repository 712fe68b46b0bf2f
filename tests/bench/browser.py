"""Finding and starting the browser of this machine."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_NAMES = ("chromium", "chromium-browser", "google-chrome")
# Root may not use the sandbox, and nothing here should talk to anybody.
_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def chromium() -> str | None:
    """Return the path of a Chromium, if there is one."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


@contextmanager
def browser() -> "Iterator[Browser]":
    """Start Chromium without a window, with a profile of its own."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium(), args=list(_FLAGS))
        try:
            yield running
        finally:
            running.close()
