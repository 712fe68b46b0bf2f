"""A play in two events: the arm is played now, its reward comes later or never."""

import numpy as np
import pytest

from glcb import GLCB, UCB1, InvalidContext, Policy, UnknownArm
from tests.policies.everyone import ARMS, FEATURES, KINDS, POLICIES, everything, learned, reward, trained

X = [0.2, 0.9, 0.5]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", POLICIES)
def test_both_events_in_a_row_are_the_same_as_one(name: str, kind: str) -> None:
    one, two = (POLICIES[name](ARMS, FEATURES, rewards=KINDS[kind]) for _ in range(2))
    rng = np.random.default_rng(0)
    for _ in range(60):
        x, arm, value = rng.random(FEATURES), ARMS[rng.integers(len(ARMS))], reward(one, rng)
        one.learn(x, arm, value)
        two.count_decision(x, arm)
        two.learn(x, arm, value, counted=True)
    assert learned(one) == learned(two)


@pytest.mark.parametrize("name", POLICIES)
def test_an_issue_is_neither_a_step_nor_a_play_and_is_saved(name: str) -> None:
    policy = trained(POLICIES[name](ARMS, FEATURES), 30)
    plays, before = policy.reward_counts, everything(policy)
    policy.count_decision(X, "red")
    assert (policy.updates, policy.reward_counts) == (30, plays)
    assert everything(policy) != before
    twin = POLICIES[name].__new__(POLICIES[name])
    twin.__setstate__(policy.__getstate__())
    assert everything(twin) == everything(policy)


@pytest.mark.parametrize("name", POLICIES)
def test_what_cannot_be_issued_changes_nothing(name: str) -> None:
    policy = trained(POLICIES[name](ARMS, FEATURES), 10)
    before = everything(policy)
    with pytest.raises(InvalidContext):
        policy.count_decision([0.5, 2.0, 0.5], "red")
    with pytest.raises(UnknownArm):
        policy.count_decision(X, "purple")
    assert everything(policy) == before


@pytest.mark.parametrize("policy", [GLCB(ARMS, FEATURES), UCB1(ARMS, FEATURES)], ids=repr)
def test_tries_count_when_issued_and_rates_go_by_rewards(policy: Policy) -> None:
    assert np.isinf(policy.decide(X).bonuses).all()
    for _ in range(3):
        policy.count_decision(X, "red")
    decision = policy.decide(X)
    assert np.isfinite(decision.bonuses).tolist() == [True, False, False, False]
    assert decision.pseudocounts[0] == pytest.approx(3)
    assert policy.reward_counts["red"] == 0
