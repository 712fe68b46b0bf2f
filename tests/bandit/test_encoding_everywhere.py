"""Contexts, arms and statistics have the same bits on every processor."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.same_bits import GENERIC, HOST, digests


def test_an_old_processor_encodes_and_counts_with_the_same_bits(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        host, generic = pool.map(digests, (HOST, GENERIC), (tmp_path / "host", tmp_path / "generic"))
    assert host == generic
