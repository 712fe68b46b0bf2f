"""Requests made from the OpenAPI document: whatever comes, the service does not fail."""

from pathlib import Path

from benchmarks.fuzz import fuzz
from benchmarks.service.server import Server


def test_no_request_makes_the_service_fail(server: Server, tmp_path: Path) -> None:
    assert "No issues found" in fuzz(server, tmp_path, examples=10, seed=10_000)
