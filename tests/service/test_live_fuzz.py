"""Requests generated from the OpenAPI document never cause a server error."""

from pathlib import Path

import pytest

from benchmarks.fuzz import fuzz
from benchmarks.service.server import Server

pytestmark = pytest.mark.live


def test_no_request_causes_a_server_error(server: Server, tmp_path: Path) -> None:
    pytest.importorskip("schemathesis")
    assert "No issues found" in fuzz(server, tmp_path, examples=10, seed=10_000)
