"""Synthetic records for tests."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from glcb.bench.results import writing
from glcb.bench.run import RunRecord


def record(
    policy: str = "glcb",
    task: str = "wheel",
    seed: int = 0,
    total: float = 100.0,
    *,
    optimum: float = 200.0,
    steps_run: int = 5000,
    blocks: int = 20,
    **changes: Any,
) -> RunRecord:
    """Return a record with evenly distributed rewards and the given changes."""
    values: dict[str, Any] = {
        "task": task,
        "policy": policy,
        "seed": seed,
        "steps": 5000,
        "settings": {},
        "version": 1,
        "steps_run": steps_run,
        "total": total,
        "optimum": optimum,
        "rewards": [total / blocks] * blocks,
        "best_rewards": [optimum / blocks] * blocks,
        "decide_us": [50.0 + block for block in range(blocks)],
        "learn_us": [20.0] * blocks,
        "seconds": 1.5,
        "environment": "python 3.x, a machine",
        "cpu_us": [],
    }
    return RunRecord(**values | changes)


def bakeoff(tasks: int = 26, policies: int = 18, seeds: int = 3) -> list[RunRecord]:
    """Return records of many policies on many tasks in one folder of tasks.

    Policy 0 wins on three of four tasks and policy 1 on the fourth. Later policies are worse and faster.
    """
    rng = np.random.default_rng(10_000)
    return [
        record(
            f"policy-{policy}",
            f"bakeoff/data-{task}",
            seed,
            900.0 - 10 * policy - (60 if task % 4 == 3 and policy == 0 else 0) + seed + rng.uniform(0, 0.5),
            optimum=1000.0,
            decide_us=[1000.0 - 50 * policy] * 20,
            learn_us=[100.0] * 20,
        )
        for policy in range(policies)
        for task in range(tasks)
        for seed in range(seeds)
    ]


def folder(path: Path, records: Iterable[RunRecord]) -> Path:
    """Write the records to ``path`` and return it."""
    with writing(path) as results:
        for one in records:
            results.append(one)
    return path
