"""Playing: what was played, and what cannot be."""

from typing import Any

import numpy as np
import pytest

from glcb import InvalidSettings, LinUCB, Uniform
from glcb.bench import simulate
from glcb.tasks import Wheel


def test_what_came_is_what_was_played() -> None:
    stream = Wheel().stream(0, 50)
    played = simulate(Uniform(5, 2, rewards=(0, 10)), stream)
    assert np.array_equal(played.rewards, stream.rewards[np.arange(50), played.arms])
    assert played.total == pytest.approx(played.rewards.sum())
    assert (played.decide_seconds > 0).all()
    assert (played.learn_seconds > 0).all()


def test_a_policy_with_other_arms_than_the_stream_is_refused() -> None:
    with pytest.raises(InvalidSettings, match="5 arms, the policy 3"):
        simulate(LinUCB(3, 2, rewards=(0, 10)), Wheel().stream(0, 5))


def test_a_task_is_not_a_stream() -> None:
    wheel: Any = Wheel()
    with pytest.raises(InvalidSettings, match=r"task\.stream"):
        simulate(Uniform(5, 2, rewards=(0, 10)), wheel)
