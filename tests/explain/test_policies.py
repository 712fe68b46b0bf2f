"""Who can explain does it alike and changes nothing; who cannot says so."""

from typing import Any

import numpy as np
import pytest

from glcb import InvalidContext, NotSupported, UnknownArm
from tests.policies.everyone import ARMS, FEATURES, KINDS, POLICIES, everything, trained

CAN = {"glcb", "glcb-paper", "linucb", "lints", "linfullpost"}
X = [0.2, 0.9, 0.5]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", sorted(CAN))
def test_contributions_lead_from_the_base_to_the_value(name: str, kind: str) -> None:
    policy = trained(POLICIES[name](ARMS, FEATURES, rewards=KINDS[kind]), 100)
    told = policy.explain(X)
    np.testing.assert_allclose(told.bases + told.contributions.sum(axis=1), told.values, atol=4e-5)
    assert np.abs(told.contributions[:, :2]).max(axis=0).min() > 0
    assert np.abs(told.contributions[:, 2]).max() == 0
    decision = policy.decide(X)
    for mine, its in (
        (told.values, decision.values),
        (told.bonuses, decision.bonuses),
        (told.pseudocounts, decision.pseudocounts),
    ):
        np.testing.assert_array_equal(mine, its)


@pytest.mark.parametrize("name", ["linucb", "lints", "linfullpost"])
def test_a_linear_base_is_the_value_of_the_baseline(name: str) -> None:
    policy = trained(POLICIES[name](ARMS, FEATURES, rewards=(-1.0, 3.0)), 100)
    told = policy.explain(X, baseline=[0.1, 0.1, 0.1])
    np.testing.assert_allclose(told.bases, policy.decide([0.1, 0.1, 0.1]).values, atol=1e-12)


@pytest.mark.parametrize("name", ["linucb", "lints"])
@pytest.mark.parametrize("ridge", [1e-6, 0.3, 100.0, 1e6])
def test_what_is_assumed_beforehand_is_not_told_as_tries(name: str, ridge: float) -> None:
    make: Any = POLICIES[name]
    policy = make(ARMS, FEATURES, ridge=ridge)
    assert "was never tried on contexts like this one" in policy.explain(X).sentence("red")
    for _ in range(67):
        policy.learn(X, "red", 1)
    assert "was tried about 67 times" in policy.explain(X).sentence("red")


@pytest.mark.parametrize("name", sorted(CAN))
def test_explaining_changes_nothing_not_even_the_generator(name: str) -> None:
    for steps in (0, 60):
        policy = trained(POLICIES[name](ARMS, FEATURES), steps)
        before = everything(policy)
        policy.explain(X)
        assert everything(policy) == before


@pytest.mark.parametrize("name", sorted(POLICIES.keys() - CAN))
def test_who_cannot_explain_says_so(name: str) -> None:
    policy = POLICIES[name](ARMS, FEATURES)
    before = everything(policy)
    with pytest.raises(NotSupported, match=r"cannot explain .* such as glcb"):
        policy.explain(X)
    assert everything(policy) == before


def test_bad_contexts_and_arms_are_refused() -> None:
    policy = POLICIES["glcb"](ARMS, FEATURES)
    with pytest.raises(InvalidContext, match=r"shape \(3,\)"):
        policy.explain([0.5, 0.5])
    with pytest.raises(InvalidContext, match="within"):
        policy.explain(X, baseline=[0.5, 0.5, 2.0])
    with pytest.raises(UnknownArm, match="purple"):
        policy.explain(X).sentence("purple")
