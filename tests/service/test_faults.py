"""Faults in calls to the database driver: nothing acknowledged is lost, and the service goes on.

``python -m benchmarks.faults``, part of ``make soak``, injects them into every call.
"""

from pathlib import Path

import pytest

from benchmarks import faults
from benchmarks.service import postgres
from glcb.service.storage.connection import sqlite_url

pytestmark = pytest.mark.live

STEP = 25
"""A fault in every call would take minutes."""


@pytest.mark.parametrize("kind", faults.KINDS)
def test_faults_of_sqlite(tmp_path: Path, kind: faults.Kind) -> None:
    runs = faults.run_all(sqlite_url(tmp_path / "glcb.db"), kind, STEP)
    assert runs.faults >= 8


@pytest.mark.postgres
@pytest.mark.parametrize("kind", faults.KINDS)
def test_faults_of_postgresql(cluster: postgres.Cluster, kind: faults.Kind) -> None:
    runs = faults.run_all(cluster.url, kind, STEP)
    assert runs.faults >= 8
    assert runs.refused > 0
