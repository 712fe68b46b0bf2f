"""Fixtures, and markers for tests that need external programs or data."""

import errno
import os
import shutil
import signal
from collections.abc import Callable, Generator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from benchmarks.service import postgres
from glcb import Policy
from glcb.policies import registry
from tests.bench.browser import chromium

# A process started in the background may ignore SIGINT, and so would the programs that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile("glcb", deadline=None, print_blob=True)
settings.load_profile("glcb")

POLICIES: dict[object, type[Policy]] = {name: registry.get(name).policy_class for name in registry.names()}


def installed(extra: str) -> bool:
    """Return whether the packages of all policies with this extra are installed."""
    return not any(policy.missing_packages() for policy in POLICIES.values() if policy.extra == extra)


PACKAGES: dict[str, Callable[[], bool]] = {
    "litellm": lambda: find_spec("litellm") is not None,
    "ray": lambda: find_spec("ray") is not None,
    **{policy.extra: partial(installed, policy.extra) for policy in POLICIES.values() if policy.extra},
}
"""Markers of tests that need an extra; GLCB_REQUIRE has one name for all of them, packages."""

REQUIREMENTS: dict[str, Callable[[], bool]] = {
    "browser": lambda: chromium() is not None and find_spec("playwright") is not None,
    "data": lambda: "GLCB_DATA_DIR" in os.environ and Path(os.environ["GLCB_DATA_DIR"]).is_dir(),
    "postgres": lambda: postgres.binaries() is not None,
    "tools": lambda: all(
        map(shutil.which, ("curl", "nginx", "node", "npm", "openssl", "strace", "systemd-analyze"))
    ),
    **PACKAGES,
}
"""Markers of tests that need something not every machine has, and how to detect it."""


def required() -> list[str]:
    """Return what GLCB_REQUIRE lists. Tests that need it fail where it is missing; others are skipped."""
    return os.environ.get("GLCB_REQUIRE", "").split()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that is parametrized by the name of a policy with the extra of the policy."""
    for item in items:
        if isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            for value in item.callspec.params.values():
                for name in value if isinstance(value, tuple) else (value,):
                    extra = POLICIES[name].extra if isinstance(name, str) and name in POLICIES else None
                    if extra is not None:
                        item.add_marker(extra)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose requirement is missing, or fail it if GLCB_REQUIRE lists the requirement."""
    for requirement, available in REQUIREMENTS.items():
        if item.get_closest_marker(requirement) and not available():
            if ("packages" if requirement in PACKAGES else requirement) in required():
                pytest.fail(f"GLCB_REQUIRE is set, but {requirement!r} is not available")
            pytest.skip(f"needs {requirement}")


Report = pytest.CollectReport | pytest.TestReport


def with_packages(report: Report) -> Report:
    """Let a missing package fail what it skips, if GLCB_REQUIRE lists packages."""
    if report.skipped and "packages" in required() and "import" in str(report.longrepr):
        report.outcome = "failed"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, Report, Report]:
    """Check modules that ``pytest.importorskip`` skips."""
    return with_packages((yield))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Report, Report]:
    """Check tests that ``pytest.importorskip`` skips."""
    return with_packages((yield))


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run coroutines, tests and fixtures, with asyncio only."""
    return "asyncio"


@pytest.fixture(params=["pandas", "polars"])
def frames(request: pytest.FixtureRequest) -> Any:
    """Each library of data frames."""
    return pytest.importorskip(request.param)


@pytest.fixture
def fill_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function after whose call every write to disk fails."""

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return lambda: monkeypatch.setattr("os.fsync", full)
