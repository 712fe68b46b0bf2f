"""What every policy keeps to that can forget, and that forgetting helps."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glcb import GLCB, InvalidSettings, Policy
from tests.policies.everyone import ARMS, FEATURES, KINDS, POLICIES, Maker, everything, reward, trained

FORGETFUL = [name for name, make in POLICIES.items() if make.can_forget]


def build(name: str, *sizes: Any, **settings: Any) -> Policy:
    return POLICIES[name](*sizes, **settings)


@pytest.fixture(params=[(name, kind) for name in FORGETFUL for kind in KINDS], ids="-".join)
def make(request: pytest.FixtureRequest) -> Maker:
    name, kind = request.param

    return lambda half_life: build(name, ARMS, FEATURES, rewards=KINDS[kind], half_life=half_life)


def test_those_that_can_forget() -> None:
    assert {"glcb", "glcb-paper", "linucb", "lints"} == set(FORGETFUL)


def test_a_memory_that_is_never_full_changes_no_bit(make: Maker) -> None:
    assert everything(trained(make(10_000), 200)) == everything(trained(make(None), 200))


def test_a_memory_that_was_full_changes_what_is_thought(make: Maker) -> None:
    assert everything(trained(make(50), 200)) != everything(trained(make(None), 200))


def test_plays_and_steps_count_everything(make: Maker) -> None:
    policy = trained(make(7), 200)
    assert policy.updates == 200
    assert sum(policy.reward_counts.values()) == 200


def test_nonsense_is_refused(make: Maker) -> None:
    for memory in (1, 0, 2.5, "long"):
        with pytest.raises(InvalidSettings, match="half_life"):
            make(memory)


def test_it_is_saved_with_all_that_is_half_forgotten(make: Maker, tmp_path: Path) -> None:
    policy = trained(make(30), 100)
    policy.save(tmp_path / "policy")
    loaded = type(policy).load(tmp_path / "policy")
    assert loaded.half_life == 30
    assert everything(trained(loaded, 100, seed=1)) == everything(trained(policy, 100, seed=1))


def test_many_at_once_are_forgotten_as_one_by_one(make: Maker) -> None:
    rng = np.random.default_rng(0)
    one, many = make(9), make(9)
    contexts = rng.random((40, FEATURES))
    arms = [ARMS[k] for k in rng.integers(len(ARMS), size=40)]
    rewards = [reward(one, rng) for _ in range(40)]
    for x, arm, value in zip(contexts, arms, rewards, strict=True):
        one.learn(x, arm, value)
    many.learn_many(contexts, arms, rewards)
    assert everything(one) == everything(many)


def test_a_play_counts_when_it_is_issued(make: Maker) -> None:
    """Rewards that get lost must not keep the memory from fading."""
    policy = trained(make(10), 9)
    before = everything(copy.deepcopy(policy))
    policy.count_decision([0.5] * FEATURES, "red")
    faded = policy.estimate([0.5] * FEATURES).pseudocounts
    assert everything(policy) != before
    unlucky = trained(make(None), 9)
    unlucky.count_decision([0.5] * FEATURES, "red")
    assert (faded <= unlucky.estimate([0.5] * FEATURES).pseudocounts).all()
    assert (faded < unlucky.estimate([0.5] * FEATURES).pseudocounts).any()


def test_the_shortest_memory_stays_sound(make: Maker) -> None:
    """What is halved with every other play must reach neither zero nor infinity."""
    policy = trained(make(2), 3000, contexts=5)
    estimates = policy.estimate([0.9, 0.1, 0.5])
    assert np.isfinite(estimates.values).all()
    for array in policy.__getstate__().arrays.values():
        assert np.isfinite(array).all()


def test_arms_come_and_go_with_their_evidence(make: Maker) -> None:
    policy = trained(make(30), 100)
    policy.add_arm("white", like="red")
    policy.remove_arm("green")
    estimates = policy.estimate([0.5] * FEATURES)
    assert estimates.pseudocounts[policy.arms.index("white")] == estimates.pseudocounts[0]
    twin = copy.deepcopy(policy)
    for own in (policy, twin):
        trained(own, 60, seed=2)
    assert everything(policy) == everything(twin)


@pytest.mark.parametrize("name", ["glcb", "linucb", "lints"])
def test_an_arm_that_turned_good_is_tried_again(name: str) -> None:
    """An arm is worthless for 3000 steps, then the best: who remembers for ever finds out late, if at all."""

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


def test_rates_rise_again_and_counts_fall() -> None:
    bandit = GLCB(2, 1, half_life=100)
    for _ in range(99):
        bandit.learn([0.5], 0, 1)
    assert bandit._evidence.tolist() == [99, 0]
    assert bandit.estimate([0.5]).pseudocounts[0] == pytest.approx(99)
    bandit.learn([0.5], 0, 1)
    assert bandit._evidence.tolist() == [50, 0]
    assert bandit.estimate([0.5]).pseudocounts[0] == pytest.approx(50)
    assert bandit.reward_counts == {0: 100, 1: 0}
