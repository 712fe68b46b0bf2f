"""What the tests need from outside, and how they are taught to do without it."""

import errno
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

from benchmarks.service import postgres
from tests.bench.browser import chromium

# Tests that run in the background may be born deaf to Ctrl-C; the programs that they interrupt shall hear it.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("glcb", deadline=None, print_blob=True)
settings.load_profile("glcb")

NEEDS: dict[str, Callable[[], bool]] = {
    "browser": lambda: chromium() is not None,
    "data": lambda: "GLCB_DATA_DIR" in os.environ and Path(os.environ["GLCB_DATA_DIR"]).is_dir(),
    "postgres": lambda: postgres.binaries() is not None,
    "tools": lambda: all(map(shutil.which, ("curl", "strace"))),
}
"""Markers of tests that need something which not every machine has, and how to find out."""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose need is not met, unless GLCB_REQUIRE names it: then it fails."""
    for need, present in NEEDS.items():
        if item.get_closest_marker(need) and not present():
            if need in os.environ.get("GLCB_REQUIRE", "").split():
                pytest.fail(f"GLCB_REQUIRE names {need!r}, but it is not here")
            pytest.skip(f"needs {need}")


@pytest.fixture
def fill_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return what lets every later attempt fail to bring a file to disk."""

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return lambda: monkeypatch.setattr("os.fsync", full)
