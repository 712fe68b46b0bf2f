"""Interleaved timing: candidates alternate in short bursts, so that interference affects all equally."""

import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from glcb._arrays import Float64

Seconds = Mapping[str, float]
"""Duration of each kind of call."""
Step = Callable[[Float64], Seconds]
"""Runs the measured calls once, on one context."""
Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True)
class Times:
    """Microseconds per call."""

    median: float
    p99: float
    calls: int


@dataclass(frozen=True)
class Effort:
    """How long to measure."""

    rounds: int = 40
    """Number of bursts of each candidate."""
    burst: float = 0.02
    """Seconds per burst."""


def side_by_side(
    steps: Mapping[Name, Step], features: Mapping[Name, int], effort: Effort, rng: np.random.Generator
) -> dict[Name, dict[str, Times]]:
    """Time all candidates; contexts are uniform on the unit cube and never repeat."""
    taken: dict[Name, dict[str, list[float]]] = {name: {} for name in steps}
    for _ in range(effort.rounds):
        for name, step in steps.items():
            step(rng.random(features[name]))  # warms up caches and branch predictors
            end = time.perf_counter() + effort.burst
            while True:
                for kind, seconds in step(rng.random(features[name])).items():
                    taken[name].setdefault(kind, []).append(seconds)
                if time.perf_counter() >= end:
                    break
    return {
        name: {kind: _times(np.array(seconds)) for kind, seconds in kinds.items()}
        for name, kinds in taken.items()
    }


def _times(seconds: Float64) -> Times:
    median, p99 = 1e6 * np.percentile(seconds, [50, 99])
    return Times(float(median), float(p99), seconds.size)
