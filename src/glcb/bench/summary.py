"""From records to one row per task and policy."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from glcb.bench.run import Record
from glcb.bench.statistics import mean_and_error


@dataclass(frozen=True)
class Row:
    """How one policy did on one task."""

    task: str
    policy: str
    seeds: int
    steps: int
    mean: float
    sem: float | None
    """Standard error of the mean; one seed alone has none."""
    optimum: float
    us_decide: float
    us_learn: float


def summarize(records: Iterable[Record]) -> list[Row]:
    """Return one row per task and policy, in the order in which they first occur."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record.task, record.policy), []).append(record)
    return [_row(task, policy, own) for (task, policy), own in groups.items()]


def _row(task: str, policy: str, records: list[Record]) -> Row:
    mean, error = mean_and_error([record.total for record in records])
    return Row(
        task=task,
        policy=policy,
        seeds=len(records),
        steps=records[0].played,
        mean=mean,
        sem=error,
        optimum=float(np.mean([record.optimum for record in records])),
        us_decide=float(np.median([record.decide_us for record in records])),
        us_learn=float(np.median([record.learn_us for record in records])),
    )
