"""Measurements that run in a fresh process, one per process: ``python -m benchmarks.probes NAME ARGUMENT…``.

Each prints one line of JSON. Module-level imports are minimal, because they would count as part of the probe.
"""

import gc
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

STATUS = Path("/proc/self/status")


def resident_mb() -> float:
    """Return the resident memory of this process."""
    gc.collect()
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def startup() -> dict[str, float]:
    """Return the seconds from ``import glcb`` to the first decision and to the first update."""
    begun = time.perf_counter()
    import glcb

    bandit = glcb.GLCB(["a", "b", "c"], 4)
    bandit.decide([0.1, 0.2, 0.3, 0.4])
    decided = time.perf_counter()
    bandit.learn([0.1, 0.2, 0.3, 0.4], "a", 1)
    return {"first_decision": decided - begun, "first_update": time.perf_counter() - begun}


def stages(policy: str) -> dict[str, float]:
    """Return the resident megabytes after each stage up to the first update, for shape (389, 9)."""
    import glcb  # noqa: F401 - measured on its own

    measured = {"import glcb": resident_mb()}
    from glcb.policies import registry

    measured["policies loaded"] = resident_mb()
    _load_kernels(policy)
    measured["kernels loaded"] = resident_mb()
    bandit = registry.get(policy).create(9, 389)
    measured["policy created"] = resident_mb()
    arm = bandit.decide([0.5] * 389).arm
    measured["first decision"] = resident_mb()
    bandit.learn([0.5] * 389, arm, 1)
    measured["first update"] = resident_mb()
    return measured


def growth(policy: str, features: str, arms: str, *marks: str) -> list[tuple[int, float, int]]:
    """Return steps, megabytes of the policy and allocated cells, before the first step and at each mark."""
    import numpy as np

    from glcb.policies import registry
    from glcb.policies.glcb.policy import GLCB

    rng = np.random.default_rng(0)
    _load_kernels(policy)
    before = resident_mb()
    bandit = registry.get(policy).create(int(arms), int(features))
    assert isinstance(bandit, GLCB)
    points = []
    for mark in (0, *map(int, marks)):
        while bandit.updates < mark:
            x = rng.random(bandit.features)
            bandit.learn(x, bandit.decide(x).arm, float(rng.integers(2)))
        points.append((mark, resident_mb() - before, bandit._bank.cells))
    return points


def census(policy: str) -> dict[str, float]:
    """Return the megabytes and allocated cells of a policy after 5000 steps of census."""
    from glcb import tasks
    from glcb.bench import simulate
    from glcb.policies import registry
    from glcb.policies.glcb.policy import GLCB

    task = tasks.get("census")
    stream = task.stream(seed=10_000)
    _load_kernels(policy)
    before = resident_mb()
    bandit = registry.get(policy).create(task.arms, task.features, rewards=task.rewards)
    assert isinstance(bandit, GLCB)
    simulate(bandit, stream)
    return {"steps": bandit.updates, "mb": resident_mb() - before, "cells": bandit._bank.cells}


def _load_kernels(policy: str) -> None:
    """Load all compiled code with a small policy, so that it is not attributed to the measured policy."""
    from glcb.policies import registry

    small = registry.get(policy).create(2, 2)
    small.learn([0.5, 0.5], small.decide([0.5, 0.5]).arm, 1)


PROBES: dict[str, Callable[..., object]] = {
    "startup": startup,
    "stages": stages,
    "growth": growth,
    "census": census,
}

if __name__ == "__main__":
    print(json.dumps(PROBES[sys.argv[1]](*sys.argv[2:])))
