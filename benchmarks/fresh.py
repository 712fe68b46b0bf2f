"""What only a fresh process can tell: how long until the first decision, and how much memory is resident."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.bandits import Shape
from benchmarks.probes import STATUS
from benchmarks.promises import Promise

_ROOT = Path(__file__).parent.parent
_REPEAT = 5


def start_seconds() -> dict[str, dict[str, float]]:
    """Return the seconds to the first decision and update; the start of the interpreter is left out.

    Warm is the best of some runs with the compiled kernels on disk, cold is one run without.
    """
    _probe("start")  # from here on the kernels are on disk
    warm = min((_probe("start") for _ in range(_REPEAT)), key=lambda run: float(run["first_decision"]))
    with tempfile.TemporaryDirectory() as folder:
        cold = _probe("start", NUMBA_CACHE_DIR=folder)
    return {"warm": warm, "cold": cold}


def can_tell_memory() -> bool:
    """Return whether this system says how much of a process is in memory; Linux does."""
    return STATUS.is_file()


def fresh_mb(policy: str) -> dict[str, float]:
    """Return the megabytes of a process at each stage up to the first update at shape (389, 9)."""
    stages: dict[str, float] = _probe("fresh", policy)
    return stages


def growth_mb(policy: str, shape: Shape, marks: tuple[int, ...]) -> list[tuple[int, float, int]]:
    """Return steps, megabytes of the bandit and visited cells, at 0 and at each of the ``marks``."""
    return [(at, mb, cells) for at, mb, cells in _probe("growth", policy, shape.features, shape.arms, *marks)]


def census_mb(policy: str) -> dict[str, float] | None:
    """Return steps, megabytes and cells after 5000 steps of census, or None where its data is missing."""
    from glcb import DataError, tasks

    try:
        tasks.get("census").stream(seed=0, steps=1)
    except DataError:
        return None
    result: dict[str, float] = _probe("census", policy)
    return result


def start_promises(seconds: Mapping[str, Mapping[str, float]]) -> Iterator[Promise]:
    """Return what is promised about the first decision."""
    for name, limit in {"warm": 1.5, "cold": 20.0}.items():
        yield Promise(f"seconds to the first decision, {name}", seconds[name]["first_decision"], limit)


def memory_promises(policy: str, stages: Mapping[str, float]) -> Iterator[Promise]:
    """Return what is promised about a fresh bandit.

    ``import glcb`` is lazy, so its memory is taken here as that of all code, compiled kernels included.
    """
    above = stages["learned once"] - stages["kernels loaded"]
    yield Promise(f"MB of a fresh {policy} (389, 9) above all code loaded", above, 30.0)


def _probe(name: str, *arguments: object, **environment: str) -> Any:
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.probes", name, *map(str, arguments)],
        cwd=_ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    return json.loads(run.stdout)
