"""A run: one policy, one task, one seed. It is described by plain data and leaves plain data behind."""

import json
import os
import platform
import time
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from glcb._types import Float64
from glcb.bench.simulation import simulate
from glcb.policies import registry
from glcb.tasks import get

BLOCKS = 20
"""A record keeps the course of a run as this many numbers."""


@dataclass(frozen=True)
class Run:
    """What to run. Two runs with the same key give the same rewards."""

    task: str
    policy: str
    seed: int
    steps: int
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings of the policy that differ from its own."""

    @property
    def key(self) -> str:
        """Tells runs apart; the version makes runs of a policy that has changed since different ones."""
        described = [self.task, self.policy, self.seed, self.steps, self.settings]
        return json.dumps([*described, registry.get(self.policy).version], sort_keys=True)


@dataclass(frozen=True)
class Record:
    """What came of a run. Lists have one number per block of steps."""

    task: str
    policy: str
    seed: int
    steps: int
    settings: dict[str, Any]
    version: int
    """Version of the policy's algorithm."""
    played: int
    """Steps that the task had for us; fewer than asked for if its data is short."""
    total: float
    optimum: float
    rewards: list[float]
    """Reward in each block."""
    best: list[float]
    """Reward of the best arm of every step in each block."""
    decide_us: list[float]
    """Median time of a decision in each block."""
    learn_us: list[float]
    """Median time of an update in each block."""
    seconds: float
    environment: str
    """Versions of what it ran on."""

    @property
    def key(self) -> str:
        """The key of the run that left this record."""
        described = [self.task, self.policy, self.seed, self.steps, self.settings, self.version]
        return json.dumps(described, sort_keys=True)


@dataclass(frozen=True)
class Failure:
    """A run that ended with an error."""

    task: str
    policy: str
    seed: int
    steps: int
    settings: dict[str, Any]
    error: str


def execute(run: Run) -> Record | Failure:
    """Carry out ``run``; an error becomes a failure, so that other runs go on."""
    start = time.perf_counter()
    described: dict[str, Any] = asdict(run)
    try:
        task = get(run.task)
        stream = task.stream(run.seed, run.steps)
        entry = registry.get(run.policy)
        policy = entry.make(task.arms, task.features, rewards=task.rewards, seed=run.seed, **run.settings)
        played = simulate(policy, stream)
    except Exception as error:
        return Failure(**described, error=f"{type(error).__name__}: {error}")
    best = stream.rewards.max(axis=1)
    return Record(
        **described,
        version=entry.version,
        played=stream.steps,
        total=round(played.total, 3),
        optimum=round(float(best.sum()), 3),
        rewards=_in_blocks(played.rewards, np.sum, 2),
        best=_in_blocks(best, np.sum, 2),
        decide_us=_in_blocks(1e6 * played.decide_seconds, np.median, 0),
        learn_us=_in_blocks(1e6 * played.learn_seconds, np.median, 0),
        seconds=round(time.perf_counter() - start, 2),
        environment=environment(),
    )


def _in_blocks(course: Float64, summary: Any, digits: int) -> list[float]:
    return [round(float(summary(block)), digits) for block in np.array_split(course, BLOCKS) if block.size]


def environment() -> str:
    """Return what results may depend on, in one line."""
    parts = [f"python {platform.python_version()}", f"{platform.machine()} × {os.cpu_count()}"]
    for package in ("glcb", "numpy", "numba", "jax", "optax"):
        try:
            parts.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(parts)
