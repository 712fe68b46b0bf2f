"""The laws of arms that come and go, for every policy of the registry that lets them."""

import copy
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from glcb import UCB1, InvalidSettings, NotSupported, Policy, UnknownArm
from glcb._types import Float64
from tests.policies.everyone import (
    ARMS,
    FEATURES,
    KINDS,
    POLICIES,
    eager_threads,
    everything,
    reward,
    trained,
)

CONTEXTS = np.random.default_rng(99).random((20, FEATURES))
UNTRIED = "gray"


CAN = [name for name, make in POLICIES.items() if make.arms_can_change]


def made(request: pytest.FixtureRequest) -> Policy:
    name, kind = request.param
    return POLICIES[name](ARMS, FEATURES, rewards=KINDS[kind])


@pytest.fixture(params=[(name, kind) for name in POLICIES for kind in KINDS], ids="-".join)
def anyone(request: pytest.FixtureRequest) -> Policy:
    return trained(made(request), 60)


@pytest.fixture(params=[(n, "binary") for n in POLICIES if n not in CAN], ids="-".join)
def fixed(request: pytest.FixtureRequest) -> Policy:
    return trained(made(request), 20)


@pytest.fixture(params=[(name, kind) for name in CAN for kind in KINDS], ids="-".join)
def policy(request: pytest.FixtureRequest) -> Policy:
    """A policy that has tried all arms but one, and lets arms come and go."""
    trying, rng = made(request), np.random.default_rng(3)
    for step in range(80):
        trying.learn(CONTEXTS[rng.integers(len(CONTEXTS))], ARMS[step % 3], reward(trying, rng))
    return trying


def thoughts(policy: Policy) -> tuple[Float64, Float64]:
    """Return the values and pseudocounts of every arm, one row per context, without any random draw."""
    estimates = [policy.estimate(x) for x in CONTEXTS]
    return np.array([e.values for e in estimates]), np.array([e.pseudocounts for e in estimates])


def test_whoever_cannot_says_so_and_changes_nothing(fixed: Policy) -> None:
    before = everything(fixed)
    with pytest.raises(NotSupported, match="cannot add or remove arms"):
        fixed.add_arm("new")
    with pytest.raises(NotSupported, match="cannot add or remove arms"):
        fixed.remove_arm("red")
    assert everything(fixed) == before
    assert fixed.arms == ARMS


def test_it_says_whether_its_estimates_are_drawn_at_random(anyone: Policy) -> None:
    before = everything(anyone)
    anyone.estimate(CONTEXTS[0])
    assert (everything(anyone) != before) == anyone.is_randomized


def test_a_new_arm_leaves_the_others_alone(policy: Policy) -> None:
    before = thoughts(policy)
    policy.add_arm("new")
    assert policy.arms == (*ARMS, "new")
    for old, new in zip(before, thoughts(policy), strict=True):
        assert np.array_equal(new[:, :-1], old)


def test_a_new_arm_is_like_one_that_was_never_tried(policy: Policy) -> None:
    policy.add_arm("new")
    assert policy.reward_counts["new"] == policy.reward_counts[UNTRIED] == 0
    for each in thoughts(policy):
        assert np.array_equal(each[:, -1], each[:, ARMS.index(UNTRIED)])


def test_a_copy_knows_what_the_original_knows(policy: Policy) -> None:
    policy.add_arm("twin", like="green")
    assert policy.reward_counts["twin"] == policy.reward_counts["green"] > 0
    for each in thoughts(policy):
        assert np.array_equal(each[:, -1], each[:, ARMS.index("green")])


def test_a_copy_and_the_original_go_their_own_ways(policy: Policy) -> None:
    policy.add_arm("twin", like="green")
    before = thoughts(policy)[0]
    for x in CONTEXTS[:5]:
        policy.learn(x, "twin", 1)
    np.testing.assert_allclose(thoughts(policy)[0][:, :-1], before[:, :-1], atol=1e-6)
    between = thoughts(policy)[0]
    for x in CONTEXTS[:5]:
        policy.learn(x, "green", 1)
    np.testing.assert_allclose(thoughts(policy)[0][:, -1], between[:, -1], atol=1e-6)


@pytest.mark.parametrize("gone", ARMS)
def test_removing_an_arm_leaves_the_others_alone(policy: Policy, gone: str) -> None:
    plays, before = policy.reward_counts, thoughts(policy)
    policy.remove_arm(gone)
    left = [index for index, arm in enumerate(ARMS) if arm != gone]
    assert policy.arms == tuple(ARMS[index] for index in left)
    assert policy.reward_counts == {arm: count for arm, count in plays.items() if arm != gone}
    assert policy.updates == 80
    for old, new in zip(before, thoughts(policy), strict=True):
        assert np.array_equal(new, old[:, left])


def test_coming_and_going_leaves_no_trace(policy: Policy) -> None:
    before = everything(policy)
    policy.add_arm("new")
    policy.add_arm("twin", like="red")
    policy.remove_arm("new")
    policy.remove_arm("twin")
    assert everything(policy) == before


def test_changed_arms_are_saved_and_go_on_bit_for_bit(policy: Policy, tmp_path: Path) -> None:
    policy.add_arm("twin", like="red")
    policy.remove_arm("green")
    policy.add_arm(7)
    policy.save(tmp_path / "model")
    loaded = type(policy).load(tmp_path / "model")
    assert loaded.arms == policy.arms == ("red", "blue", "gray", "twin", 7)
    assert loaded.updates == policy.updates == 80
    assert everything(loaded) == everything(policy)
    assert everything(trained(loaded, 60, seed=4)) == everything(trained(policy, 60, seed=4))


def test_a_removed_arm_may_come_back_as_a_new_one(policy: Policy) -> None:
    policy.remove_arm("red")
    policy.add_arm("red")
    assert policy.reward_counts["red"] == 0
    assert {policy.decide(x, eligible=["red"]).arm for x in CONTEXTS} == {"red"}
    policy.learn(CONTEXTS[0], "red", 1)
    assert policy.reward_counts["red"] == 1


def test_plays_are_those_of_one_moment_while_arms_come_and_go() -> None:
    many = UCB1(2000, FEATURES)  # so many that a change takes its time

    def come_and_go() -> None:
        for _ in range(100):
            many.add_arm("new")
            many.remove_arm("new")

    plays = many.reward_counts
    with eager_threads(), ThreadPoolExecutor(1) as pool:
        changing = pool.submit(come_and_go)
        while not changing.done():
            assert many.reward_counts in (plays, {**plays, "new": 0})
        changing.result()


def test_learning_a_new_arm_leaves_the_others_alone(policy: Policy) -> None:
    policy.add_arm("new")
    before = thoughts(policy)[0][:, :-1]
    policy.learn(CONTEXTS[0], "new", 1)
    np.testing.assert_allclose(thoughts(policy)[0][:, :-1], before, atol=1e-6)


def interrupted(line: int, action: Callable[[], None]) -> bool:
    """Interrupt ``action`` before that many lines of policies have run; return whether it had so many."""
    seen = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal seen
        if event == "line" and f"{os.sep}glcb{os.sep}policies{os.sep}" in frame.f_code.co_filename:
            seen += 1
            if seen == line:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.parametrize("change", ["add", "remove"])
def test_an_interrupt_while_arms_change_leaves_all_of_it_or_nothing(policy: Policy, change: str) -> None:
    def do(one: Policy) -> None:
        one.add_arm("new") if change == "add" else one.remove_arm(ARMS[1])

    after = copy.deepcopy(policy)
    do(after)
    for line in range(1, 2000):
        mine = copy.deepcopy(policy)
        if not interrupted(line, partial(do, mine)):
            break
        twin = copy.deepcopy(policy if mine.arms == policy.arms else after)
        assert mine.arms == twin.arms
        for arm in mine.arms:
            mine.learn([0.3] * mine.features, arm, 1)
            twin.learn([0.3] * mine.features, arm, 1)
        np.testing.assert_array_equal(
            mine.decide([0.3] * mine.features).scores, twin.decide([0.3] * mine.features).scores
        )
    assert 5 < line < 1999


def test_nonsense_is_refused_and_changes_nothing(policy: Policy) -> None:
    before = everything(policy)
    nonsense: list[Any] = ["red", True, 1.5, None, ["a"]]
    for name in nonsense:
        with pytest.raises(InvalidSettings, match="arm"):
            policy.add_arm(name)
    with pytest.raises(UnknownArm, match="no arm 'purple'"):
        policy.add_arm("new", like="purple")
    with pytest.raises(UnknownArm, match="no arm 'purple'"):
        policy.remove_arm("purple")
    assert everything(policy) == before
    for arm in ARMS[1:]:
        policy.remove_arm(arm)
    before = everything(policy)
    with pytest.raises(InvalidSettings, match="the only arm"):
        policy.remove_arm("red")
    assert everything(policy) == before
