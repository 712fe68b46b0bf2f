"""Confidence sequences."""

import numpy as np
import pytest

from glcb.evaluate.sequences import BettingSequence, LowerSequence

ERROR = 0.05


@pytest.mark.parametrize("kind", [LowerSequence, BettingSequence])
def test_rows_can_be_added_in_parts(kind: type[LowerSequence] | type[BettingSequence]) -> None:
    values = np.random.default_rng(1).exponential(0.5, (300, 2))
    whole, parts = kind(2), kind(2)
    whole.add(values)
    for part in np.array_split(values, 7):
        parts.add(part)
    assert parts.bounds(ERROR) == pytest.approx(whole.bounds(ERROR), rel=1e-9)


@pytest.mark.parametrize("kind", [LowerSequence, BettingSequence])
def test_the_bound_is_below_the_mean_at_all_times_in_most_runs(
    kind: type[LowerSequence] | type[BettingSequence],
) -> None:
    """Importance-weighted rewards with weights of up to 20; the bound is watched after every tenth row."""
    rng = np.random.default_rng(2)
    runs, rows, mean = 200, 300, 0.3
    sequence = kind(runs)
    missed = np.zeros(runs, np.bool_)
    for _ in range(rows // 10):
        weight = np.where(rng.random((10, runs)) < 0.05, 20.0, 0.0)
        sequence.add(weight * (rng.random((10, runs)) < mean))
        missed |= sequence.bounds(ERROR) > mean
    assert missed.mean() <= 2 * ERROR


def test_the_bound_follows_a_mean_that_moves() -> None:
    rng = np.random.default_rng(3)
    sequence, means = LowerSequence(1), np.linspace(0.1, 0.7, 4000)
    sequence.add((rng.random(4000) < means).astype(np.float64)[:, None])
    bound = float(sequence.bounds(ERROR)[0])
    assert 0.3 < bound < means.mean()


def test_without_rows_nothing_is_known() -> None:
    assert LowerSequence(2).bounds(ERROR).tolist() == [0.0, 0.0]
    assert BettingSequence(2).bounds(ERROR).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("kind", [LowerSequence, BettingSequence])
def test_a_restored_sequence_continues(kind: type[LowerSequence] | type[BettingSequence]) -> None:
    values = np.random.default_rng(4).random((100, 2))
    first, second = kind(2), kind(2)
    first.add(values[:50])
    second.restore({name: array.copy() for name, array in first.snapshot().items()})
    first.add(values[50:])
    second.add(values[50:])
    assert second.bounds(ERROR).tolist() == first.bounds(ERROR).tolist()
