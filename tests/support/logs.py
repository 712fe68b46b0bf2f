"""Logs for tests, in every format, and disks on which they have no room."""

import csv
import json
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from tests.support.bandits import ARMS

Rows = list[dict[str, Any]]


HEADER = {"glcb_log": 4}


def flat_rows(count: int, seed: int = 10_000) -> Rows:
    rng = np.random.default_rng(seed)
    return [
        {
            "age": int(rng.integers(18, 90)),
            "country": ["FR", "DE", "IT"][rng.integers(3)],
            "spent": None if rng.random() < 0.1 else float(rng.lognormal(3, 1)),
            "arm": ARMS[rng.integers(3)],
            "reward": int(rng.integers(2)),
            "propensity": 1 / 3,
        }
        for _ in range(count)
    ]


def as_jsonl(path: Path, rows: Rows) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def as_csv(path: Path, rows: Rows) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def as_parquet(path: Path, rows: Rows) -> Path:
    parquet.write_table(pa.Table.from_pylist(rows), path)
    return path


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """Let no file grow beyond `size` bytes; a longer write is cut off in the middle of a line."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
