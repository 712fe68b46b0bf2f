"""A database that was written on one processor is recovered on another one."""

import platform
import sys
from pathlib import Path

import pytest

from benchmarks.recovery import Machine, compare
from benchmarks.service.everything import MIN_ROUNDS

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="needs the names of x86 processors"),
]


def test_every_kind_of_event_is_recovered_on_another_processor(tmp_path: Path) -> None:
    here, there = Machine(sys.executable, "host"), Machine(sys.executable, "ivybridge", has_vectors=False)
    outcome = compare([here, there], tmp_path, MIN_ROUNDS, pairs=500, workers=2)
    assert outcome.problems == []
    assert outcome.pairs == 4
    assert outcome.rounded > 0, "the processors round alike, so that nothing was tested"
