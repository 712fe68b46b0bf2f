"""The laws of forgetting, for every policy that supports it, and evidence that it helps."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glcb import GLCB, InvalidSettings, Policy
from tests.policies.cases import (
    ARMS,
    FEATURES,
    POLICIES,
    REWARD_KINDS,
    Maker,
    full_state,
    reward,
    trained,
)

CAN_FORGET = [name for name, policy in POLICIES.items() if policy.can_forget]


def build(name: str, *sizes: Any, **settings: Any) -> Policy:
    return POLICIES[name](*sizes, **settings)


@pytest.fixture(params=[(name, kind) for name in CAN_FORGET for kind in REWARD_KINDS], ids="-".join)
def make(request: pytest.FixtureRequest) -> Maker:
    name, kind = request.param

    return lambda half_life: build(name, ARMS, FEATURES, rewards=REWARD_KINDS[kind], half_life=half_life)


def test_glcb_and_the_ridge_regressions_can_forget() -> None:
    ridge_regressions = {"linucb", "lints", "rff-ucb", "rff-ucb-sd", "squarecb"}
    assert {"glcb", "glcb-paper", *ridge_regressions} == set(CAN_FORGET)


def test_a_half_life_that_is_never_reached_changes_no_bit(make: Maker) -> None:
    assert full_state(trained(make(10_000), 200)) == full_state(trained(make(None), 200))


def test_a_half_life_that_was_reached_changes_the_state(make: Maker) -> None:
    assert full_state(trained(make(50), 200)) != full_state(trained(make(None), 200))


def test_counters_include_forgotten_rewards(make: Maker) -> None:
    policy = trained(make(7), 200)
    assert policy.updates == 200
    assert sum(policy.reward_counts.values()) == 200


def test_an_invalid_half_life_is_refused(make: Maker) -> None:
    for half_life in (1, 0, 2.5, "long"):
        with pytest.raises(InvalidSettings, match="half_life"):
            make(half_life)


def test_a_policy_that_forgets_is_saved_and_continues_bit_for_bit(make: Maker, tmp_path: Path) -> None:
    policy = trained(make(30), 100)
    policy.save(tmp_path / "policy")
    loaded = type(policy).load(tmp_path / "policy")
    assert loaded.half_life == 30
    assert full_state(trained(loaded, 100, seed=1)) == full_state(trained(policy, 100, seed=1))


def test_learning_many_forgets_at_the_same_decisions(make: Maker) -> None:
    rng = np.random.default_rng(0)
    one, many = make(9), make(9)
    contexts = rng.random((40, FEATURES))
    arms = [ARMS[k] for k in rng.integers(len(ARMS), size=40)]
    rewards = [reward(one, rng) for _ in range(40)]
    for x, arm, value in zip(contexts, arms, rewards, strict=True):
        one.learn(x, arm, value)
    many.learn_many(contexts, arms, rewards)
    assert full_state(one) == full_state(many)


def test_decisions_without_reward_count_toward_the_half_life(make: Maker) -> None:
    policy = trained(make(10), 9)
    before = full_state(copy.deepcopy(policy))
    policy.count_decision([0.5] * FEATURES, "red")
    halved = policy.estimate([0.5] * FEATURES).pseudocounts
    assert full_state(policy) != before
    remembering = trained(make(None), 9)
    remembering.count_decision([0.5] * FEATURES, "red")
    assert (halved <= remembering.estimate([0.5] * FEATURES).pseudocounts).all()
    assert (halved < remembering.estimate([0.5] * FEATURES).pseudocounts).any()


def test_the_shortest_half_life_keeps_all_numbers_finite(make: Maker) -> None:
    policy = trained(make(2), 3000, contexts=5)
    estimates = policy.estimate([0.9, 0.1, 0.5])
    assert np.isfinite(estimates.values).all()
    for array in policy.snapshot().arrays.values():
        assert np.isfinite(array).all()


def test_changed_arms_keep_their_evidence(make: Maker) -> None:
    policy = trained(make(30), 100)
    policy.add_arm("white", like="red")
    policy.remove_arm("green")
    estimates = policy.estimate([0.5] * FEATURES)
    assert estimates.pseudocounts[policy.arms.index("white")] == estimates.pseudocounts[0]
    twin = copy.deepcopy(policy)
    for own in (policy, twin):
        trained(own, 60, seed=2)
    assert full_state(policy) == full_state(twin)


@pytest.mark.parametrize("name", ["glcb", "linucb", "lints"])
def test_an_arm_that_becomes_good_is_found_again(name: str) -> None:
    """One arm pays nothing for 3000 steps and is then the best. Without forgetting, it is found too late."""

    def earned(half_life: int | None) -> float:
        policy = build(name, 2, 1, half_life=half_life)
        rng = np.random.default_rng(10_000)
        total = 0.0
        for step in range(4500):
            x = rng.random(1)
            arm = int(policy.decide(x).arm)
            value = float(rng.random() < (0.2 if arm == 0 else 0.95 if step >= 3000 else 0.0))
            policy.learn(x, arm, value)
            total += value if step >= 3000 else 0
        return total

    assert earned(300) > earned(None) + 100


def test_forgetting_halves_effective_rewards_and_pseudocounts() -> None:
    policy = GLCB(2, 1, half_life=100)
    for _ in range(99):
        policy.learn([0.5], 0, 1)
    assert policy._effective_rewards.tolist() == [99, 0]
    assert policy.estimate([0.5]).pseudocounts[0] == pytest.approx(99)
    policy.learn([0.5], 0, 1)
    assert policy._effective_rewards.tolist() == [50, 0]
    assert policy.estimate([0.5]).pseudocounts[0] == pytest.approx(50)
    assert policy.reward_counts == {0: 100, 1: 0}
