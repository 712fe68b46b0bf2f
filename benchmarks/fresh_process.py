"""Measurements in fresh processes: time to the first decision and resident memory."""

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
from benchmarks.targets import Target

_ROOT = Path(__file__).parent.parent
_REPEAT = 5


def startup_seconds() -> dict[str, dict[str, float]]:
    """Return the seconds from ``import glcb`` to the first decision and update, without interpreter startup.

    Warm is the best of several runs with the compiled kernels cached on disk; cold is one run without cache.
    """
    _probe("startup")  # fills the kernel cache
    warm = min((_probe("startup") for _ in range(_REPEAT)), key=lambda run: float(run["first_decision"]))
    with tempfile.TemporaryDirectory() as folder:
        cold = _probe("startup", NUMBA_CACHE_DIR=folder)
    return {"warm": warm, "cold": cold}


def can_measure_memory() -> bool:
    """Return whether the system reports resident memory; Linux does."""
    return STATUS.is_file()


def stage_mb(policy: str) -> dict[str, float]:
    """Return the resident megabytes after each stage up to the first update, for shape (389, 9)."""
    stages: dict[str, float] = _probe("stages", policy)
    return stages


def growth_mb(policy: str, shape: Shape, marks: tuple[int, ...]) -> list[tuple[int, float, int]]:
    """Return steps, megabytes of the policy and allocated cells, at step 0 and at each of ``marks``."""
    return [(at, mb, cells) for at, mb, cells in _probe("growth", policy, shape.features, shape.arms, *marks)]


def census_mb(policy: str) -> dict[str, float] | None:
    """Return steps, megabytes and cells after 5000 steps of census, or None if its data is missing."""
    from glcb import DataError, tasks

    try:
        tasks.get("census").stream(seed=0, steps=1)
    except DataError:
        return None
    result: dict[str, float] = _probe("census", policy)
    return result


def startup_targets(seconds: Mapping[str, Mapping[str, float]]) -> Iterator[Target]:
    """Yield the targets for the first decision."""
    for name, limit in {"warm": 1.5, "cold": 20.0}.items():
        yield Target(f"seconds to the first decision, {name}", seconds[name]["first_decision"], limit)


def memory_targets(policy: str, stages: Mapping[str, float]) -> Iterator[Target]:
    """Yield the target for the memory of a new policy.

    ``import glcb`` is lazy, so the reference is the process with all code loaded, including compiled kernels.
    """
    above = stages["first update"] - stages["kernels loaded"]
    yield Target(f"MB of a new {policy} (389, 9), without code", above, 30.0)


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
