"""Curves over the steps of a run, from the blocks in its record."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from glcb._arrays import Float64
from glcb.bench.run import RunRecord
from glcb.bench.statistics import mean_and_error_along


@dataclass(frozen=True, eq=False)
class Curve:
    """Mean over seeds along the steps, and its standard error (0 for a single seed)."""

    steps: Float64
    mean: Float64
    error: Float64


def cumulative_reward(records: Iterable[RunRecord]) -> Curve:
    """Return the cumulative reward."""
    return _cumulative(records, lambda record: np.array(record.rewards))


def regret(records: Iterable[RunRecord]) -> Curve:
    """Return the cumulative difference between the reward of the best arm and the received reward."""
    return _cumulative(records, lambda record: np.subtract(record.best_rewards, record.rewards))


def decision_time(records: Iterable[RunRecord]) -> Curve:
    """Return the duration of a decision in µs: the median over seeds, without an error."""
    runs = list(records)
    ends = block_ends(runs[0])
    middles = (ends[:-1] + ends[1:]) / 2
    median = np.median([_interpolated(middles, record, record.decide_us) for record in runs], axis=0)
    # Records hold whole microseconds; a logarithmic axis needs positive numbers.
    return Curve(middles, np.maximum(median, 0.5), np.zeros_like(median))


def block_ends(record: RunRecord) -> Float64:
    """Return the steps at which the blocks of a record end, preceded by 0."""
    blocks = len(record.rewards)
    sizes = np.full(blocks, record.steps_run // blocks)
    sizes[: record.steps_run % blocks] += 1
    return np.concatenate([[0.0], np.cumsum(sizes)])


def _cumulative(records: Iterable[RunRecord], per_block: Callable[[RunRecord], Float64]) -> Curve:
    runs = list(records)
    steps = block_ends(runs[0])
    # Records with a different number of blocks are interpolated between the ends of their blocks.
    sums = [np.concatenate([[0.0], np.cumsum(per_block(record))]) for record in runs]
    curves = [np.interp(steps, block_ends(record), own) for record, own in zip(runs, sums, strict=True)]
    return Curve(steps, *mean_and_error_along(curves))


def _interpolated(steps: Float64, record: RunRecord, values: list[float]) -> Float64:
    ends = block_ends(record)
    return np.interp(steps, (ends[:-1] + ends[1:]) / 2, values)
