"""Revenue scenarios and mails: sparse rewards of very different sizes."""

import numpy as np
import pytest

from glcb import tasks
from glcb._types import reward_range
from glcb.bench.plan import REVENUE
from glcb.tasks.revenue import Mails, label_age


@pytest.mark.parametrize("name", [name for name in REVENUE if not name.startswith("clicks")])
def test_the_same_seed_gives_the_same_stream(name: str) -> None:
    task = tasks.get(name)
    one, two, other = task.stream(10_000, 300), task.stream(10_000, 300), task.stream(10_001, 300)
    for array in ("contexts", "rewards", "available", "delays", "reported"):
        assert np.array_equal(getattr(one, array), getattr(two, array)), array
    assert not np.array_equal(one.contexts, other.contexts)
    assert one.contexts.shape == (300, task.features)
    assert one.contexts.min() >= 0
    assert one.contexts.max() <= 1
    low, high = reward_range(task.rewards)
    assert low <= one.rewards.min() <= one.rewards.max() <= high


@pytest.mark.parametrize("percent", [2, 5, 20])
def test_orders_are_as_frequent_as_the_name_says(percent: int) -> None:
    streams = [tasks.get(f"revenue-{percent}-200").stream(seed) for seed in range(10_000, 10_008)]
    assert np.mean([(stream.rewards > 0).mean() for stream in streams]) == pytest.approx(
        percent / 100, rel=0.25
    )


def test_only_the_declared_range_differs_between_200_and_2000() -> None:
    narrow, wide = tasks.get("revenue-5-200"), tasks.get("revenue-5-2000")
    assert (narrow.rewards, wide.rewards) == ((0.0, 200.0), (0.0, 2000.0))
    assert np.array_equal(narrow.stream(10_000).rewards, wide.stream(10_000).rewards)
    assert tasks.get("revenue-5-60").stream(10_000).rewards.max() == 60


def test_amounts_have_a_heavy_tail_and_some_orders_are_not_reported() -> None:
    stream = tasks.get("revenue-20-2000").stream(10_000)
    assert stream.reported is not None
    amounts = stream.rewards[stream.rewards > 0]
    assert np.quantile(amounts, 0.99) > 4 * np.median(amounts)
    reported = stream.reported[stream.rewards > 0]
    assert (reported == 0).mean() == pytest.approx(0.19, abs=0.01)
    assert (reported[reported > 0] == amounts[reported > 0]).all()


def test_the_label_age_is_the_age_at_which_nine_tenths_of_the_orders_have_arrived() -> None:
    delays = np.random.default_rng(0).exponential(300, 100_000)
    assert np.quantile(delays, 0.9) == pytest.approx(label_age(300), rel=0.02)


def test_customers_have_the_defects_of_practice() -> None:
    customers = Mails().customers(10_000, 6000)
    ages = [row.get("age") for row in customers]
    assert np.mean([age is None for age in ages]) == pytest.approx(0.22, abs=0.02)
    assert any(age == "n/a" for age in ages)
    assert any(age != age for age in ages)
    first, later = ({row["city"] for row in part} for part in (customers[:3000], customers[3000:]))
    assert len(later - first) > 100
    assert ["since" in row for row in (customers[0], customers[-1])] == [False, True]


def test_two_offers_are_hardly_bought_after_the_middle() -> None:
    stream = Mails().stream(10_000)
    assert stream.available is not None
    bought = stream.rewards > 0
    assert bought[:15_000, 1:3].mean() > 2 * bought[15_000:, 1:3].mean()
    assert [int(column.sum()) for column in stream.available.T] == [20_000, *[30_000] * 5, 18_000]
