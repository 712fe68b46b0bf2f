"""Tasks that change halfway."""

import numpy as np
import pytest

from glcb import tasks
from glcb.tasks.smooth import Smooth
from tests.tasks.processes import digests

SMOOTH = ["smooth-switch", "smooth-drift", "smooth-newcomer"]


def smooth(name: str) -> Smooth:
    task = tasks.get(name)
    assert isinstance(task, Smooth)
    return task


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("steps", [1, 2, 1001])
def test_the_first_half_equals_the_smooth_task(name: str, steps: int) -> None:
    still, task = Smooth().stream(3, steps), smooth(name)
    stream = task.stream(3, steps)
    assert np.array_equal(stream.contexts, still.contexts)
    assert stream.rewards.shape == (steps, len(task.arms))
    before, after = np.split(task.expected_over_time(stream.contexts), [steps // 2])
    expected = Smooth().expected(still.contexts)
    assert np.allclose(before[:, :3], expected[: steps // 2])
    assert after.size
    assert not np.allclose(after, np.resize(expected[steps // 2 :], after.shape))


@pytest.mark.parametrize("name", SMOOTH)
def test_rewards_match_their_expectation(name: str) -> None:
    task = smooth(name)
    stream = task.stream(4, 40_000)
    expected = task.expected_over_time(stream.contexts)
    assert set(np.unique(stream.rewards)) == {0.0, 1.0}
    for half in (slice(0, 20_000), slice(20_000, None)):
        off = stream.rewards[half].mean(axis=0) - expected[half].mean(axis=0)
        assert np.abs(off).max() < 4 * np.sqrt(0.25 / 20_000)


def test_after_the_switch_another_arm_is_best_with_the_same_reward() -> None:
    task = smooth("smooth-switch")
    contexts = task.stream(1, 1000).contexts
    before, after = Smooth().expected(contexts)[500:], task.expected_over_time(contexts)[500:]
    assert (before.argmax(axis=1) != after.argmax(axis=1)).all()
    assert np.array_equal(before.max(axis=1), after.max(axis=1))


def test_the_drift_ends_at_the_state_after_the_switch() -> None:
    drift, switch = smooth("smooth-drift"), smooth("smooth-switch")
    contexts = np.repeat(np.random.default_rng(0).random((1, 2)), 4000, axis=0)
    expected = drift.expected_over_time(contexts)
    assert np.allclose(expected[-1], switch.expected_over_time(contexts)[-1])
    assert np.abs(np.diff(expected, axis=0)).max() < 0.005, "the drift is gradual"
    assert np.allclose(expected[:2000], expected[0])


def test_the_newcomer_is_first_the_worst_then_the_best_arm() -> None:
    expected = smooth("smooth-newcomer").expected_over_time(np.random.default_rng(0).random((1000, 2)))
    assert (expected[:500].argmin(axis=1) == 3).all()
    assert (expected[500:].argmax(axis=1) == 3).all()


def test_two_processes_produce_identical_streams() -> None:
    once, again = digests(SMOOTH, salt="1"), digests(SMOOTH, salt="2")
    assert once == again
    assert len(set(once)) == len(SMOOTH)


@pytest.mark.data
def test_the_arms_of_statlog_switch_halfway() -> None:
    still, switch = tasks.get("statlog").stream(2, 1000), tasks.get("statlog-switch").stream(2, 1000)
    assert np.array_equal(still.contexts, switch.contexts)
    assert np.array_equal(still.rewards[:500], switch.rewards[:500])
    assert np.array_equal(np.roll(still.rewards[500:], -1, axis=1), switch.rewards[500:])
    assert still.rewards[500:].argmax() != switch.rewards[500:].argmax()


def test_the_rewards_of_the_smooth_task_match_their_expectation() -> None:
    task = Smooth()
    stream = task.stream(seed=4, steps=40_000)
    expected = task.expected(stream.contexts)
    assert expected.min() >= 0.1 - 1e-9
    assert expected.max() <= 0.9 + 1e-9
    assert set(np.unique(stream.rewards)) == {0.0, 1.0}
    for arm in task.arms:
        for low in np.arange(0.1, 0.9, 0.2):
            here = (expected[:, arm] >= low) & (expected[:, arm] < low + 0.2)
            share, truth = stream.rewards[here, arm].mean(), expected[here, arm].mean()
            assert abs(share - truth) < 4 * np.sqrt(0.25 / here.sum())
    best = np.bincount(expected.argmax(axis=1), minlength=3) / len(expected)
    assert best.min() > 0.2, "every arm is the best somewhere"
