"""A benchmark run: one policy on one task with one seed. Runs and their records are plain data."""

import json
import os
import platform
import time
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from glcb._arrays import Float64
from glcb.bench.simulation import simulate
from glcb.policies import registry
from glcb.tasks import get

BLOCKS = 20
"""A record summarizes the steps of a run in this many blocks."""


@dataclass(frozen=True)
class Run:
    """Specification of a run. Two runs with the same key give the same rewards."""

    task: str
    policy: str
    seed: int
    steps: int
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings that differ from the policy's defaults."""

    @property
    def key(self) -> str:
        """Identifies the run. It includes the policy's version, so a changed policy runs again."""
        parts = [self.task, self.policy, self.seed, self.steps, self.settings]
        return json.dumps([*parts, registry.get(self.policy).version], sort_keys=True)


@dataclass(frozen=True)
class RunRecord:
    """Result of a finished run. Lists have one value per block of steps."""

    task: str
    policy: str
    seed: int
    steps: int
    """Requested number of steps."""
    settings: dict[str, Any]
    version: int
    """Version of the policy's algorithm."""
    steps_run: int
    """Number of steps of the stream; smaller than ``steps`` if the data has fewer rows."""
    total: float
    """Sum of the rewards."""
    optimum: float
    """Sum of the rewards of the best arm of every step."""
    rewards: list[float]
    """Sum of the rewards in each block."""
    best_rewards: list[float]
    """Sum of the rewards of the best arms in each block."""
    decide_us: list[float]
    """Median duration of a decision in each block, in microseconds."""
    learn_us: list[float]
    """Median duration of an update in each block, in microseconds."""
    seconds: float
    """Duration of the run, including loading and compiling."""
    environment: str
    """Versions of Python and the packages, and the machine."""
    cpu_us: list[float] = field(default_factory=list)
    """Mean CPU time of a decision and its update in each block, in microseconds. A mean includes periodic
    work, such as training a network. Empty in older records."""

    @property
    def key(self) -> str:
        """Key of the run that produced this record."""
        parts = [self.task, self.policy, self.seed, self.steps, self.settings, self.version]
        return json.dumps(parts, sort_keys=True)


@dataclass(frozen=True)
class Failure:
    """A run that ended with an error."""

    task: str
    policy: str
    seed: int
    steps: int
    settings: dict[str, Any]
    error: str


def execute(run: Run) -> RunRecord | Failure:
    """Execute ``run``. An exception is returned as a Failure, so that other runs continue."""
    start = time.perf_counter()
    specification: dict[str, Any] = asdict(run)
    try:
        task = get(run.task)
        stream = task.stream(run.seed, run.steps)
        entry = registry.get(run.policy)
        policy = entry.create(task.arms, task.features, rewards=task.rewards, seed=run.seed, **run.settings)
        trajectory = simulate(policy, stream)
    except Exception as error:
        return Failure(**specification, error=f"{type(error).__name__}: {error}")
    best = stream.best
    return RunRecord(
        **specification,
        version=entry.version,
        steps_run=stream.steps,
        total=round(trajectory.total, 3),
        optimum=round(float(best.sum()), 3),
        rewards=_in_blocks(trajectory.rewards, np.sum, 2),
        best_rewards=_in_blocks(best, np.sum, 2),
        decide_us=_in_blocks(1e6 * trajectory.decide_seconds, np.median, 0),
        learn_us=_in_blocks(1e6 * trajectory.learn_seconds, np.median, 0),
        seconds=round(time.perf_counter() - start, 2),
        environment=environment(),
        cpu_us=_in_blocks(1e6 * trajectory.cpu_seconds, np.mean, 0),
    )


def _in_blocks(values: Float64, summary: Any, digits: int) -> list[float]:
    return [round(float(summary(block)), digits) for block in np.array_split(values, BLOCKS) if block.size]


def environment() -> str:
    """Return the versions and the machine that results may depend on, in one line."""
    parts = [f"python {platform.python_version()}", f"{platform.machine()} × {os.cpu_count()}"]
    for package in ("glcb", "numpy", "numba", "jax", "optax", "xgboost-cpu", "xgboost"):
        try:
            parts.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(parts)
