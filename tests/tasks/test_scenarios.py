"""Scenarios, and streams with arms that come and go and rewards that are late or lost."""

import numpy as np
import pytest

from glcb import InvalidSettings, tasks
from glcb.bench.plan import SCENARIOS
from glcb.tasks import Stream
from glcb.tasks.base import default_steps

CONTEXTS = np.zeros((3, 2), np.float32)
REWARDS = np.array([[1.0, 0.25], [0.5, 0.0], [0.0, 1.0]])


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_same_seed_gives_the_same_stream(name: str) -> None:
    task = tasks.get(name)
    one, two, other = task.stream(10_000, 300), task.stream(10_000, 300), task.stream(10_001, 300)
    for array in ("contexts", "rewards", "available", "delays"):
        assert np.array_equal(getattr(one, array), getattr(two, array)), array
    assert not np.array_equal(one.rewards, other.rewards)
    assert one.contexts.shape == (300, task.features)
    assert one.rewards.shape == (300, len(task.arms))
    assert one.contexts.min() >= 0
    assert one.contexts.max() <= 1
    assert set(np.unique(one.rewards)) == {0.0, 1.0}


@pytest.mark.parametrize(("name", "steps"), [("cold-start", 200), ("drift", 5000), ("clicks-5", 20_000)])
def test_a_scenario_has_its_own_length(name: str, steps: int) -> None:
    task = tasks.get(name)
    assert default_steps(task) == steps
    assert task.stream(10_000).steps == steps


def test_other_tasks_have_the_length_of_the_paper() -> None:
    assert default_steps(tasks.get("wheel")) == 5000


@pytest.mark.parametrize("name", ["drift", "many-arms", "poisoned"])
def test_neither_a_linear_nor_a_constant_function_explains_the_rewards(name: str) -> None:
    stream = tasks.get(name).stream(10_000)
    inputs = np.column_stack([stream.contexts.astype(float), np.ones(stream.steps)])
    weights, *_ = np.linalg.lstsq(inputs, stream.rewards, rcond=None)
    explained = 1 - (stream.rewards - inputs @ weights).var(axis=0) / stream.rewards.var(axis=0)
    assert 0.02 < explained.mean() < 0.4


def test_the_switch_passes_the_scores_on_to_other_arms() -> None:
    stream = tasks.get("switch").stream(10_000, 20_000)
    first, second = stream.contexts[:10_000] - 0.5, stream.contexts[10_000:] - 0.5
    before = first.T @ stream.rewards[:10_000]
    after = second.T @ stream.rewards[10_000:]
    assert _similarity(np.roll(before, -1, axis=1), after) > 0.9
    assert abs(_similarity(before, after)) < 0.5


def test_the_drift_is_gradual_and_complete() -> None:
    stream = tasks.get("drift").stream(10_000, 40_000)
    parts = [
        (stream.contexts[part] - 0.5).T @ stream.rewards[part]
        for part in np.array_split(np.arange(stream.steps), 10)
    ]
    similarity = [_similarity(parts[0], part) for part in parts]
    assert min(similarity[1:3]) > 0.8
    assert similarity[-1] < 0.5


def _similarity(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.corrcoef(one.ravel(), other.ravel())[0, 1])


def test_the_newcomer_arrives_halfway_and_is_the_best_arm_for_a_part_of_the_contexts() -> None:
    stream = tasks.get("newcomer").stream(10_000, 5000)
    assert stream.available is not None
    assert not stream.available[:2500, -1].any()
    assert stream.available[2500:].all()
    assert stream.available[:, :-1].all()
    later = stream.rewards[2500:]
    assert later[:, -1].mean() > later[:, :-1].mean(axis=0).max()


def test_delays_have_the_mean_that_is_documented() -> None:
    delays = tasks.get("delay").stream(10_000, 50_000).delays
    assert delays is not None
    assert delays.min() == 0
    assert delays.mean() == pytest.approx(100, rel=0.03)


def test_a_share_of_the_rewards_is_lost_and_the_others_are_immediate() -> None:
    delays = tasks.get("lost").stream(10_000, 50_000).delays
    assert delays is not None
    assert set(np.unique(delays)) == {-1, 0}
    assert (delays == -1).mean() == pytest.approx(0.3, rel=0.03)


@pytest.mark.parametrize("percent", [1, 2, 5])
def test_clicks_are_rare_and_contexts_are_one_hot(percent: int) -> None:
    rates = []
    for seed in range(10_000, 10_010):
        stream = tasks.get(f"clicks-{percent}").stream(seed)
        assert (stream.contexts.sum(axis=1) == 7).all()
        rates.append(stream.rewards.mean())
    assert np.mean(rates) == pytest.approx(percent / 100, rel=0.25)
    assert stream.available is not None
    assert [int(column.sum()) for column in stream.available.T] == [12_000, *[20_000] * 4, 14_000]


def test_contexts_with_many_features_are_sparse() -> None:
    present = tasks.get("many-features").stream(10_000, 500).contexts.sum(axis=1)
    assert 10 <= present.mean() <= 17
    assert present.max() <= 17


def test_a_hundredth_of_the_poisoned_contexts_are_corners() -> None:
    contexts = tasks.get("poisoned").stream(10_000, 50_000).contexts
    assert np.isin(contexts, (0, 1)).all(axis=1).mean() == pytest.approx(0.01, rel=0.2)


# ---- streams ----


def test_the_best_arm_is_one_that_is_available() -> None:
    available = np.array([[False, True], [True, True], [True, False]])
    stream = Stream(CONTEXTS, REWARDS, available)
    assert stream.best.tolist() == [0.25, 0.5, 0.0]
    assert stream.optimum == 0.75
    assert Stream(CONTEXTS, REWARDS).best.tolist() == [1.0, 0.5, 1.0]


@pytest.mark.parametrize(
    ("available", "message"),
    [
        (
            np.ones((2, 2), np.bool_),
            r"must be an array of bool with shape \(3, 2\), got bool of shape",
        ),
        (np.ones((3, 2)), "got float64"),
        ([[True, True]] * 3, r"got \[\[True"),
        (np.array([[True, True], [False, False], [True, True]]), "at least one arm at every step"),
    ],
)
def test_an_invalid_table_of_available_arms_is_refused(available: np.ndarray, message: str) -> None:
    with pytest.raises(InvalidSettings, match=message):
        Stream(CONTEXTS, REWARDS, available)


@pytest.mark.parametrize(
    ("delays", "message"),
    [
        (
            np.zeros(2, np.int64),
            r"must be an array of int64 with shape \(3,\), got int64 of shape",
        ),
        (np.zeros(3), "got float64"),
        (np.array([0, -2, 0]), "−1 or larger, got -2"),
    ],
)
def test_invalid_delays_are_refused(delays: np.ndarray, message: str) -> None:
    with pytest.raises(InvalidSettings, match=message):
        Stream(CONTEXTS, REWARDS, delays=delays)
