"""Tasks without changes: the linear tasks and the wheel, and both versions of financial."""

import numpy as np
import pytest

from glcb import InvalidSettings, tasks
from glcb.tasks import Wheel
from tests.tasks.processes import digests

SYNTHETIC = ["linear", "sparse-linear", "wheel"]


@pytest.mark.parametrize("name", SYNTHETIC)
def test_a_stream_has_the_shape_and_range_of_its_task(name: str) -> None:
    task = tasks.get(name)
    stream = task.stream(3, 2000)
    assert task.name == name
    assert stream.contexts.shape == (2000, task.features)
    assert stream.rewards.shape == (2000, len(task.arms))
    assert stream.contexts.dtype == np.float32
    assert stream.contexts.min() == 0
    assert stream.contexts.max() == 1
    assert task.rewards != "binary"
    assert (stream.rewards.min(), stream.rewards.max()) == task.rewards


def test_two_processes_produce_identical_streams() -> None:
    once, again = digests([*SYNTHETIC, "smooth"], salt="1"), digests([*SYNTHETIC, "smooth"], salt="2")
    assert once == again
    assert len(set(once)) == len(once)


@pytest.mark.parametrize("name", SYNTHETIC)
def test_different_seeds_give_different_streams(name: str) -> None:
    one, other = tasks.get(name).stream(0, 50), tasks.get(name).stream(1, 50)
    assert not np.array_equal(one.contexts, other.contexts)
    assert not np.array_equal(one.rewards, other.rewards)


@pytest.mark.parametrize("name", ["linear", "sparse-linear"])
def test_rewards_are_linear_in_the_context_up_to_the_noise(name: str) -> None:
    task = tasks.get(name)
    stream = task.stream(0, 5000)
    inputs = np.column_stack([stream.contexts.astype(float), np.ones(stream.steps)])
    weights, *_ = np.linalg.lstsq(inputs, stream.rewards, rcond=None)
    left = (stream.rewards - inputs @ weights).std(axis=0)
    # The noise of arm j is 0.01 (j + 1) before the table is scaled, by the same factor for all arms.
    assert np.allclose(left / left[0], np.arange(1, len(task.arms) + 1), rtol=0.1)
    explained = 1 - left**2 / stream.rewards.var(axis=0)
    assert (explained > 0.9).all()


def test_sparse_arms_depend_on_three_features_each() -> None:
    stream = tasks.get("sparse-linear").stream(5, 5000)
    inputs = np.column_stack([stream.contexts.astype(float), np.ones(stream.steps)])
    weights, *_ = np.linalg.lstsq(inputs, stream.rewards, rcond=None)
    assert ((np.abs(weights[:-1]) > 0.02).sum(axis=0) == 3).all()


@pytest.mark.parametrize("steps", [0, -1, 2.5, True])
def test_steps_must_be_a_whole_number_of_at_least_one(steps: int) -> None:
    with pytest.raises(InvalidSettings, match="steps must be an integer from 1"):
        tasks.get("wheel").stream(0, steps)


@pytest.mark.parametrize("seed", [-1, 0.5, "0"])
def test_seed_must_be_a_whole_number(seed: int) -> None:
    with pytest.raises(InvalidSettings, match="seed must be an integer from 0"):
        tasks.get("wheel").stream(seed, 10)


@pytest.mark.parametrize("delta", [0, 1, -0.5, float("nan")])
def test_delta_must_be_between_0_and_1(delta: float) -> None:
    with pytest.raises(InvalidSettings, match="delta must be"):
        Wheel(delta)


def test_the_sketch_of_the_wheel_shows_the_best_arms() -> None:
    lines = Wheel().sketch().splitlines()
    first, last = lines[0].strip(), lines[-1].strip()
    assert first.startswith("2")
    assert first.endswith("0")
    assert last.startswith("3")
    assert last.endswith("1")
    assert "·" in lines[len(lines) // 2]


def test_a_task_and_a_policy_with_the_same_seed_are_independent() -> None:
    policy_numbers = np.random.default_rng(11).random(1000)
    stream = Wheel().stream(11, 1000)
    angles = np.arctan2(*(stream.contexts.astype(float) * 2 - 1).T[::-1]) % (2 * np.pi) / (2 * np.pi)
    for shift in range(-5, 6):
        assert abs(np.corrcoef(angles, np.roll(policy_numbers, shift))[0, 1]) < 0.15


@pytest.mark.data
def test_in_binary_financial_only_the_best_portfolio_pays() -> None:
    graded, binary = tasks.get("financial").stream(5, 200), tasks.get("financial-binary").stream(5, 200)
    assert tasks.get("financial-binary").rewards == "binary"
    np.testing.assert_array_equal(graded.contexts, binary.contexts)
    np.testing.assert_array_equal(binary.rewards, graded.rewards == 1.0)
    assert (binary.rewards.sum(axis=1) == 1).all()
