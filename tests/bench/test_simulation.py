"""Simulation of a policy on a stream."""

from typing import Any

import numpy as np
import pytest

from glcb import InvalidSettings, LinUCB, Uniform
from glcb.bench import simulate
from glcb.tasks import Wheel


def test_a_trajectory_holds_the_rewards_of_the_chosen_arms() -> None:
    stream = Wheel().stream(0, 50)
    trajectory = simulate(Uniform(5, 2, rewards=(0, 10)), stream)
    assert np.array_equal(trajectory.rewards, stream.rewards[np.arange(50), trajectory.arms])
    assert trajectory.total == pytest.approx(trajectory.rewards.sum())
    assert (trajectory.decide_seconds > 0).all()
    assert (trajectory.learn_seconds > 0).all()


def test_a_policy_with_a_different_number_of_arms_is_refused() -> None:
    with pytest.raises(InvalidSettings, match="5 arms and the policy 3"):
        simulate(LinUCB(3, 2, rewards=(0, 10)), Wheel().stream(0, 5))


def test_a_task_is_not_a_stream() -> None:
    wheel: Any = Wheel()
    with pytest.raises(InvalidSettings, match=r"task\.stream"):
        simulate(Uniform(5, 2, rewards=(0, 10)), wheel)
