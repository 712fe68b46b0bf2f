"""The laws that every policy of the registry keeps when many threads use it at once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from glcb import GLCB, Policy
from tests.policies.everyone import (
    ARMS,
    FEATURES,
    Maker,
    eager_threads,
    learned,
    reward,
)


def test_many_threads_learn_at_once(make: Maker) -> None:
    policy = make()
    contexts = np.random.default_rng(0).random((60, FEATURES))

    def learn_all(arm: str) -> None:
        for x in contexts:
            policy.learn(x, arm, 1)
            policy.decide(x)

    with eager_threads(), ThreadPoolExecutor(4) as pool:
        list(pool.map(learn_all, ARMS))
    assert policy.reward_counts == dict.fromkeys(ARMS, 60)
    assert policy.updates == 240
    counts = policy.__getstate__().arrays.get("counts")
    if isinstance(policy, GLCB) and counts is not None:
        assert counts.sum() == policy._bank.units * 240


def test_many_threads_decide_while_one_learns(make: Maker) -> None:
    policy = make()
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
    twin = make()
    for i, x in enumerate(contexts):
        twin.learn(x, ARMS[i % len(ARMS)], rewards[i])
    assert learned(policy) == learned(twin)


def test_saving_while_others_learn_gives_a_whole_moment(make: Maker, tmp_path: Path) -> None:
    policy = make()

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
        assert learned(moment) == learned(learn(make(), moment.updates))
