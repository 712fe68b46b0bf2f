"""The course of runs over time, from the blocks that their records keep."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from glcb._types import Float64
from glcb.bench.run import Record
from glcb.bench.statistics import mean_and_error_along


@dataclass(frozen=True, eq=False)
class Curve:
    """A mean over seeds along the steps, and its standard error (0 for a single seed)."""

    steps: Float64
    mean: Float64
    error: Float64


def cumulative_reward(records: Iterable[Record]) -> Curve:
    """Return the reward collected so far."""
    return _cumulative(records, lambda record: np.array(record.rewards))


def regret(records: Iterable[Record]) -> Curve:
    """Return what the best arm of every step would have collected beyond that."""
    return _cumulative(records, lambda record: np.subtract(record.best, record.rewards))


def decision_time(records: Iterable[Record]) -> Curve:
    """Return the time of a decision in µs around each step: the median over seeds, without an error."""
    own = list(records)
    ends = block_ends(own[0])
    middles = (ends[:-1] + ends[1:]) / 2
    median = np.median([_at(middles, record, record.decide_us) for record in own], axis=0)
    return Curve(middles, median, np.zeros_like(median))


def block_ends(record: Record) -> Float64:
    """Return where the blocks of a record end, in steps, and before them the 0 where the first begins."""
    blocks = len(record.rewards)
    sizes = np.full(blocks, record.played // blocks)
    sizes[: record.played % blocks] += 1
    return np.concatenate([[0.0], np.cumsum(sizes)])


def _cumulative(records: Iterable[Record], course: Callable[[Record], Float64]) -> Curve:
    own = list(records)
    steps = block_ends(own[0])
    # Records of another number of blocks are read between their ends.
    sums = [np.concatenate([[0.0], np.cumsum(course(record))]) for record in own]
    curves = [np.interp(steps, block_ends(r), s) for r, s in zip(own, sums, strict=True)]
    return Curve(steps, *mean_and_error_along(curves))


def _at(steps: Float64, record: Record, values: list[float]) -> Float64:
    ends = block_ends(record)
    return np.interp(steps, (ends[:-1] + ends[1:]) / 2, values)
