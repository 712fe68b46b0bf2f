"""Explanations of policies: which ones support them, that they are complete, and that they change nothing."""

from typing import Any

import numpy as np
import pytest

from glcb import InvalidContext, NotSupported, UnknownArm
from tests.policies.cases import ARMS, FEATURES, POLICIES, REWARD_KINDS, full_state, trained

SUPPORTED = {"glcb", "glcb-paper", "linucb", "lints", "linfullpost", "rff-ucb", "rff-ucb-sd", "squarecb"}
X = [0.2, 0.9, 0.5]


@pytest.mark.parametrize("kind", REWARD_KINDS)
@pytest.mark.parametrize("name", sorted(SUPPORTED))
def test_base_and_contributions_add_up_to_the_value(name: str, kind: str) -> None:
    policy = trained(POLICIES[name](ARMS, FEATURES, rewards=REWARD_KINDS[kind]), 100)
    explanation = policy.explain(X)
    np.testing.assert_allclose(
        explanation.bases + explanation.contributions.sum(axis=1), explanation.values, atol=4e-5
    )
    assert np.abs(explanation.contributions[:, :2]).max(axis=0).min() > 0
    assert np.abs(explanation.contributions[:, 2]).max() == 0
    decision = policy.decide(X)
    for explained, decided in (
        (explanation.values, decision.values),
        (explanation.bonuses, decision.bonuses),
        (explanation.pseudocounts, decision.pseudocounts),
    ):
        np.testing.assert_array_equal(explained, decided)


@pytest.mark.parametrize("name", ["linucb", "lints", "linfullpost", "rff-ucb", "squarecb"])
def test_a_linear_base_is_the_value_of_the_baseline(name: str) -> None:
    policy = trained(POLICIES[name](ARMS, FEATURES, rewards=(-1.0, 3.0)), 100)
    explanation = policy.explain(X, baseline=[0.1, 0.1, 0.1])
    np.testing.assert_allclose(explanation.bases, policy.decide([0.1, 0.1, 0.1]).values, atol=1e-12)


@pytest.mark.parametrize("name", ["linucb", "lints"])
@pytest.mark.parametrize("ridge", [1e-6, 0.3, 100.0, 1e6])
def test_the_prior_does_not_count_as_similar_decisions(name: str, ridge: float) -> None:
    make: Any = POLICIES[name]
    policy = make(ARMS, FEATURES, ridge=ridge)
    assert "No similar decisions yet" in policy.explain(X).sentence("red")
    for _ in range(67):
        policy.learn(X, "red", 1)
    assert "Estimated from about 67 similar decisions" in policy.explain(X).sentence("red")


@pytest.mark.parametrize("name", sorted(SUPPORTED))
def test_explaining_changes_neither_the_policy_nor_its_generator(name: str) -> None:
    for steps in (0, 60):
        policy = trained(POLICIES[name](ARMS, FEATURES), steps)
        before = full_state(policy)
        policy.explain(X)
        assert full_state(policy) == before


@pytest.mark.parametrize("name", sorted(POLICIES.keys() - SUPPORTED))
def test_policies_without_explanations_say_so(name: str) -> None:
    policy = POLICIES[name](ARMS, FEATURES)
    before = full_state(policy)
    with pytest.raises(NotSupported, match=r"cannot explain .* such as glcb"):
        policy.explain(X)
    assert full_state(policy) == before


def test_bad_contexts_and_arms_are_refused() -> None:
    policy = POLICIES["glcb"](ARMS, FEATURES)
    with pytest.raises(InvalidContext, match=r"shape \(3,\)"):
        policy.explain([0.5, 0.5])
    with pytest.raises(InvalidContext, match="within"):
        policy.explain(X, baseline=[0.5, 0.5, 2.0])
    with pytest.raises(UnknownArm, match="purple"):
        policy.explain(X).sentence("purple")
