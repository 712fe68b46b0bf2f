"""Simulation of a policy on a stream."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

from glcb import Decision, InvalidSettings, LinUCB, Uniform, make_policy
from glcb._types import Arm
from glcb.bench import simulate
from glcb.tasks import Stream, Wheel, get


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


class Recorder(Uniform):
    """A policy that records what it is asked and told."""

    def __init__(self, arms: int, features: int) -> None:
        super().__init__(arms, features)
        self.events: list[tuple[Any, ...]] = []

    def decide(self, x: ArrayLike, *, eligible: Iterable[Arm] | None = None) -> Decision:
        self.events.append(("decide", _step(x), eligible))
        return super().decide(x, eligible=eligible)

    def count_decision(self, x: ArrayLike, arm: Arm, *, checked: bool = False) -> None:
        self.events.append(("count", _step(x)))
        super().count_decision(x, arm, checked=checked)

    def learn(
        self, x: ArrayLike, arm: Arm, reward: float, *, counted: bool = False, checked: bool = False
    ) -> None:
        self.events.append(("learn", _step(x), counted))
        super().learn(x, arm, reward, counted=counted, checked=checked)


def _step(x: ArrayLike) -> int:
    return round(float(np.asarray(x)[0]) * 10)


def numbered(**more: Any) -> Stream:
    """Return a stream of six steps whose contexts tell the step."""
    contexts = (np.arange(6)[:, None] / 10).astype(np.float32)
    return Stream(contexts, np.tile([0.0, 1.0, 0.0], (6, 1)), **more)


def test_an_ordinary_stream_is_learned_step_by_step() -> None:
    policy = Recorder(3, 1)
    simulate(policy, numbered())
    assert policy.events == [
        event for step in range(6) for event in (("decide", step, None), ("learn", step, False))
    ]


def test_delayed_rewards_arrive_once_and_in_order_and_lost_ones_never() -> None:
    policy = Recorder(3, 1)
    trajectory = simulate(policy, numbered(delays=np.array([4, 1, -1, 1, 9, 0])))
    assert [event for event in policy.events if event[0] != "decide"] == [
        ("count", 0),
        ("count", 1),
        ("count", 2),
        ("learn", 1, True),  # before the reward of step 0
        ("count", 3),
        ("count", 4),
        ("learn", 0, True),  # after four further decisions, together with the reward of step 3
        ("learn", 3, True),
        ("count", 5),
        ("learn", 5, True),
    ]
    assert policy.updates == 4
    assert trajectory.total == (trajectory.arms == 1).sum()  # every reward counts toward the total


@pytest.mark.parametrize("name", ["glcb", "linucb", "lints", "linfullpost", "epsilon-greedy", "ucb1"])
def test_an_unavailable_arm_is_never_chosen(name: str) -> None:
    task = get("newcomer")
    stream = task.stream(10_000, 300)
    assert stream.available is not None
    policy = make_policy(name, task.arms, task.features, rewards=task.rewards)
    chosen = simulate(policy, stream).arms
    assert stream.available[np.arange(300), chosen].all()
    assert (chosen[150:] == 5).any()


@pytest.mark.parametrize("name", ["glcb", "linucb", "epsilon-greedy"])
def test_immediate_rewards_give_the_same_result_with_and_without_delays(name: str) -> None:
    task = get("smooth")
    stream = task.stream(10_000, 300)
    one, two = (
        simulate(make_policy(name, task.arms, task.features), own).arms
        for own in (stream, Stream(stream.contexts, stream.rewards, delays=np.zeros(300, np.int64)))
    )
    assert np.array_equal(one, two)
