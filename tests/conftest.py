"""Fixtures, and markers for tests that need external programs or data."""

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

# A process started in the background may ignore SIGINT, and so would the programs that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("glcb", deadline=None, print_blob=True)
settings.load_profile("glcb")

REQUIREMENTS: dict[str, Callable[[], bool]] = {
    "browser": lambda: chromium() is not None,
    "data": lambda: "GLCB_DATA_DIR" in os.environ and Path(os.environ["GLCB_DATA_DIR"]).is_dir(),
    "postgres": lambda: postgres.binaries() is not None,
    "tools": lambda: all(map(shutil.which, ("curl", "strace"))),
}
"""Markers of tests that need something not every machine has, and how to detect it."""


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose requirement is missing, or fail it if GLCB_REQUIRE lists the requirement."""
    for requirement, available in REQUIREMENTS.items():
        if item.get_closest_marker(requirement) and not available():
            if requirement in os.environ.get("GLCB_REQUIRE", "").split():
                pytest.fail(f"GLCB_REQUIRE lists {requirement!r}, but it is not available")
            pytest.skip(f"needs {requirement}")


@pytest.fixture
def fill_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function after whose call every write to disk fails."""

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return lambda: monkeypatch.setattr("os.fsync", full)
