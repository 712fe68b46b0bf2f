"""The lock of the base class, for one policy of each family."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from glcb import GLCB, UCB1, Policy
from tests.policies.cases import (
    ARMS,
    FEATURES,
    Maker,
    frequent_thread_switches,
    learned_state,
    reward,
)


def test_many_threads_can_learn_at_once(make_representative: Maker) -> None:
    policy = make_representative()
    contexts = np.random.default_rng(0).random((60, FEATURES))

    def learn_all(arm: str) -> None:
        for x in contexts:
            policy.learn(x, arm, 1)
            policy.decide(x)

    with frequent_thread_switches(), ThreadPoolExecutor(4) as pool:
        list(pool.map(learn_all, ARMS))
    assert policy.reward_counts == dict.fromkeys(ARMS, 60)
    assert policy.updates == 240
    if isinstance(policy, GLCB):
        assert policy.snapshot().arrays["counts"].sum() == policy._bank.units * 240


def test_arms_can_be_added_while_a_choice_waits_for_the_lock() -> None:
    policy = GLCB(arms=2, features=3)
    x = np.full(3, 0.5, np.float32)
    with ThreadPoolExecutor(1) as pool:
        with policy._lock:
            waiting = pool.submit(policy.choose, x, 0.1, "gap", 0.5, True)
            time.sleep(0.1)
            for arm in range(2, 200):
                policy.add_arm(arm)
        choice = waiting.result()
    assert choice.probabilities.size == 200
    assert choice.probabilities.sum() == pytest.approx(1)


def test_many_threads_can_decide_while_one_learns(make_representative: Maker) -> None:
    policy = make_representative()
    contexts = np.random.default_rng(0).random((200, FEATURES))
    rewards = [reward(policy, np.random.default_rng(i)) for i in range(200)]

    def decide(x: np.ndarray) -> None:
        decision = policy.decide(x)
        assert np.isfinite(decision.values).all()

    def learn_all() -> None:
        for i, x in enumerate(contexts):
            policy.learn(x, ARMS[i % len(ARMS)], rewards[i])

    with ThreadPoolExecutor(8) as pool:
        learning = pool.submit(learn_all)
        for _ in range(3):
            list(pool.map(decide, contexts))
        learning.result()
    assert policy.reward_counts == dict.fromkeys(ARMS, 50)
    twin = make_representative()
    for i, x in enumerate(contexts):
        twin.learn(x, ARMS[i % len(ARMS)], rewards[i])
    assert learned_state(policy) == learned_state(twin)


def test_a_policy_saved_while_it_learns_is_consistent(make_representative: Maker, tmp_path: Path) -> None:
    policy = make_representative()
    contexts = np.random.default_rng(0).random((200, FEATURES))

    def learn(policy: Policy, steps: int) -> Policy:
        for i in range(steps):
            policy.learn(contexts[i], ARMS[i % len(ARMS)], i % 2)
        return policy

    def save(i: int) -> Policy:
        policy.save(tmp_path / f"{i}")
        return type(policy).load(tmp_path / f"{i}")

    with ThreadPoolExecutor(4) as pool:
        learning = pool.submit(learn, policy, 200)
        saved = list(pool.map(save, range(6)))
        learning.result()
    for moment in saved:
        assert learned_state(moment) == learned_state(learn(make_representative(), moment.updates))


def test_reward_counts_are_consistent_while_arms_change() -> None:
    policy = UCB1(2000, FEATURES)  # many arms, so that a change takes long enough to be observed

    def add_and_remove() -> None:
        for _ in range(100):
            policy.add_arm("new")
            policy.remove_arm("new")

    counts = policy.reward_counts
    with frequent_thread_switches(), ThreadPoolExecutor(1) as pool:
        changing = pool.submit(add_and_remove)
        while not changing.done():
            assert policy.reward_counts in (counts, {**counts, "new": 0})
        changing.result()
