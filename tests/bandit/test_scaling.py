"""Scaling by rank: uniform, robust and convergent."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glcb._arrays import Float64
from glcb.bandit.encoding.scaling import SAMPLE, WINDOW, Scales


def one_column(limits: tuple[float, float] | None = None) -> Scales:
    scales = Scales()
    scales.add(0, limits)
    return scales


def placed(scales: Scales, number: float) -> float:
    x = np.zeros(1, np.float32)
    scales.place(np.array([number]), x)
    return float(x[0])


def observed(scales: Scales, numbers: Float64) -> Scales:
    for number in numbers:
        scales.observe(np.array([number]), np.zeros(0, np.float32), np.zeros(0, np.int64))
    return scales


def test_the_first_number_is_scaled_to_the_middle() -> None:
    scales = one_column()
    assert placed(scales, 1e9) == 0.5
    observed(scales, np.array([10.0]))
    assert [placed(scales, number) for number in (5, 10, 20)] == [0.25, 0.5, 0.75]


def test_scaled_numbers_are_uniform_whatever_their_distribution() -> None:
    rng = np.random.default_rng(10_000)
    for numbers in (rng.normal(1e6, 3, 3000), rng.lognormal(0, 3, 3000), rng.exponential(1e-9, 3000)):
        scales = observed(one_column(), numbers[:2000])
        places = np.array([placed(scales, number) for number in numbers[2000:]])
        deciles = np.histogram(places, 10, (0, 1))[0]
        assert deciles.min() > 50
        assert deciles.max() < 170


def test_equal_numbers_get_the_middle_of_their_ranks() -> None:
    scales = observed(one_column(), np.array([0.0] * 90 + [7.0] * 10))
    assert placed(scales, 0.0) == pytest.approx(0.45, abs=0.01)
    assert placed(scales, 7.0) == pytest.approx(0.95, abs=0.01)


@pytest.mark.parametrize("when", [0, 1, 50, 1999])
def test_an_outlier_does_not_distort_the_scale(when: int) -> None:
    numbers = np.random.default_rng(10_000).normal(size=2000)
    clean = observed(one_column(), numbers)
    numbers[when] = 1e299
    with_outlier = observed(one_column(), numbers)
    for number in (-1.5, -0.2, 0.0, 0.7, 2.0):
        assert placed(with_outlier, number) == pytest.approx(placed(clean, number), abs=0.02)


def test_a_scale_converges() -> None:
    rng = np.random.default_rng(10_000)
    scales = observed(one_column(), rng.normal(size=20_000))
    points = np.linspace(-2, 2, 41)
    before = np.array([placed(scales, point) for point in points])
    observed(scales, rng.normal(size=2_000))
    after = np.array([placed(scales, point) for point in points])
    assert np.abs(after - before).max() < 0.05


def test_the_sample_is_uniform_over_the_numbers_of_a_window() -> None:
    # The numbers are their own positions in the stream: no part of it may be preferred.
    scales = observed(one_column(), np.arange(float(WINDOW)))
    sample = scales.snapshot()["samples"][0]
    assert len(set(sample)) == SAMPLE
    expected = SAMPLE / 10
    counts = np.histogram(sample, 10, (0, WINDOW))[0]
    assert float(((counts - expected) ** 2 / expected).sum()) < 27.9  # 99.9 % of χ² with 9 degrees


def test_numbers_older_than_the_window_fade() -> None:
    # Each number removes an older one with probability 1 / WINDOW: exp(−3), or 13 of 256, are left.
    scales = observed(one_column(), np.arange(4.0 * WINDOW))
    sample = scales.snapshot()["samples"][0]
    assert 3 <= (sample < WINDOW).sum() <= 25


@given(st.lists(st.floats(-1e299, 1e299), min_size=1, max_size=600))
def test_the_sample_stays_sorted_and_scaled_numbers_stay_in_the_unit_interval(numbers: list[float]) -> None:
    scales = one_column()
    for number in numbers:
        assert 0 < placed(scales, number) < 1
        observed(scales, np.array([number]))
    sample = scales.snapshot()["samples"][0][: min(len(numbers), SAMPLE)]
    assert (sample[1:] >= sample[:-1]).all()
    assert set(sample) <= set(numbers)
    ordered = sorted(numbers)
    places = [placed(scales, number) for number in ordered]
    assert places == sorted(places)
    if len(numbers) <= SAMPLE:
        assert sample.tolist() == ordered


def test_a_declared_range_is_kept_and_numbers_outside_are_clipped() -> None:
    scales = observed(one_column((10.0, 20.0)), np.array([15.0] * 100))
    assert [placed(scales, number) for number in (10, 12.5, 20)] == [0, 0.25, 1]
    x = np.zeros(1, np.float32)
    assert scales.place(np.array([25.0]), x) == [0]
    assert x[0] == 1
    assert scales.place(np.array([19.0]), x) == []


def test_numbers_out_of_range_are_reported_once_the_sample_is_large_enough() -> None:
    scales = one_column()
    x = np.zeros(1, np.float32)
    assert scales.place(np.array([1e9]), x) == []
    observed(scales, np.linspace(0, 1, 100))
    assert scales.place(np.array([1.5]), x) == []
    assert scales.place(np.array([1e9]), x) == [0]
    assert x[0] > 0.99
    assert scales.place(np.array([-1e9]), x) == [0]
    assert x[0] < 0.01


def test_nan_is_ignored() -> None:
    scales = one_column()
    before = {name: array.tobytes() for name, array in scales.snapshot().items()}
    observed(scales, np.array([np.nan]))
    assert {name: array.tobytes() for name, array in scales.snapshot().items()} == before
    x = np.full(1, 0.25, np.float32)
    assert scales.place(np.array([np.nan]), x) == []
    assert x[0] == 0.25


@pytest.mark.parametrize(
    ("name", "value"),
    [("counts", -1), ("samples", np.nan), ("ranges", np.inf), ("slots", 9), ("counts", 0.5)],
)
def test_an_invalid_snapshot_is_refused(name: str, value: float) -> None:
    scales = observed(one_column(), np.arange(40.0))
    state = {key: array.copy() for key, array in scales.snapshot().items()}
    Scales().restore(state, width=1, columns=[0])
    state[name] = np.full_like(state[name], value, dtype=np.asarray(value).dtype)
    with pytest.raises(ValueError, match=r"."):
        Scales().restore(state, width=1, columns=[0])


def test_an_unsorted_sample_is_refused() -> None:
    state = observed(one_column(), np.arange(40.0)).snapshot()
    state["samples"][0, :2] = 5, 3
    with pytest.raises(ValueError, match="not sorted"):
        Scales().restore(state, width=1, columns=[0])
