"""Bootstrap intervals, curves and label positions."""

import numpy as np
import pytest

from glcb.bench.curves import block_ends, cumulative_reward, decision_time, regret
from glcb.bench.report.figures import spread_labels
from glcb.bench.statistics import paired_bootstrap
from tests.bench.records import record


def test_the_bootstrap_interval_matches_the_normal_interval() -> None:
    differences = np.random.default_rng(10_000).normal(3.0, 2.0, 400)
    interval = paired_bootstrap(differences.tolist())
    assert interval is not None
    half = 1.96 * differences.std() / np.sqrt(differences.size)
    assert interval.low == pytest.approx(differences.mean() - half, abs=0.02)
    assert interval.high == pytest.approx(differences.mean() + half, abs=0.02)
    assert interval.low > 0
    assert paired_bootstrap(differences.tolist()) == interval


def test_the_bootstrap_of_two_pairs_is_exact() -> None:
    # Both draws the first with probability 1/4, both the second with 1/4: the percentiles are the ends.
    interval = paired_bootstrap([-1.0, 5.0])
    assert interval == (-1.0, 5.0)
    assert paired_bootstrap([4.0]) is None


def test_the_bootstrap_has_its_nominal_coverage() -> None:
    rng = np.random.default_rng(10_001)
    hits = 0
    for _ in range(200):
        interval = paired_bootstrap(rng.normal(0.0, 1.0, 50).tolist())
        assert interval is not None
        hits += interval.low <= 0 <= interval.high
    assert 180 <= hits <= 199


def test_a_curve_starts_at_zero_and_ends_at_the_total() -> None:
    runs = [record(seed=0, total=100.0), record(seed=1, total=140.0)]
    curve = cumulative_reward(runs)
    assert curve.steps.tolist() == [0, *range(250, 5001, 250)]
    assert curve.mean[0] == 0
    assert curve.mean[-1] == pytest.approx(120.0)
    assert curve.error[-1] == pytest.approx(20.0)
    assert regret(runs).mean[-1] == pytest.approx(80.0)
    assert not cumulative_reward(runs[:1]).error.any()


def test_uneven_blocks_match_numpy_array_split() -> None:
    ends = block_ends(record(steps_run=3713))
    assert np.diff(ends).tolist() == [len(block) for block in np.array_split(np.arange(3713), 20)]


def test_records_with_different_block_counts_are_interpolated() -> None:
    curve = cumulative_reward([record(blocks=20), record(blocks=10)])
    assert curve.mean == pytest.approx(np.linspace(0, 100, 21))
    times = decision_time([record(), record(decide_us=[150.0] * 20), record(decide_us=[150.0] * 20)])
    assert times.mean == pytest.approx(np.full(20, 150.0))


def test_labels_keep_distance_order_and_bounds() -> None:
    rng = np.random.default_rng(10_002)
    for _ in range(200):
        wanted = rng.random(rng.integers(1, 12))
        places = spread_labels(wanted, 0.08)
        assert (np.diff(np.sort(places)) >= 0.08 - 1e-9).all()
        assert (np.argsort(places) == np.argsort(wanted)).all()
        assert places.min() >= -1e-9
        assert places.max() <= 1 + 1e-9
    far_apart = np.array([0.9, 0.1, 0.5])
    assert spread_labels(far_apart, 0.08) == pytest.approx(far_apart)
