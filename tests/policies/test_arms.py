"""The laws of adding and removing arms, for every policy that supports it."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glcb import GLCB, UCB1, InvalidSettings, LinUCB, NotSupported, Policy, UnknownArm, _forgetting
from glcb._arrays import Float64
from glcb._types import reward_range
from tests.policies.cases import ARMS, CASES, FEATURES, POLICIES, full_state, reward, trained
from tests.policies.conftest import maker

CONTEXTS = np.random.default_rng(99).random((20, FEATURES))
UNTRIED = "gray"
CHANGEABLE = [case for case in CASES if POLICIES[case[0]].arms_can_change]


def trained_on_all_arms_but_one(name: str, kind: str) -> Policy:
    policy, rng = maker(name, kind)(), np.random.default_rng(3)
    for step in range(80):
        policy.learn(CONTEXTS[rng.integers(len(CONTEXTS))], ARMS[step % 3], reward(policy, rng))
    return policy


@pytest.fixture(params=CHANGEABLE, ids="-".join)
def policy(request: pytest.FixtureRequest) -> Policy:
    return trained_on_all_arms_but_one(*request.param)


def estimates_of(policy: Policy) -> tuple[Float64, Float64]:
    """Return values and pseudocounts, which are free of random draws: one row per context."""
    estimates = [policy.estimate(x) for x in CONTEXTS]
    return np.array([e.values for e in estimates]), np.array([e.pseudocounts for e in estimates])


@pytest.mark.baselines
def test_a_policy_with_fixed_arms_refuses_changes_and_stays_the_same() -> None:
    policy = trained(maker("rms", "binary")(), 20)
    before = full_state(policy)
    with pytest.raises(NotSupported, match="cannot add or remove arms"):
        policy.add_arm("new")
    with pytest.raises(NotSupported, match="cannot add or remove arms"):
        policy.remove_arm("red")
    assert full_state(policy) == before
    assert policy.arms == ARMS


def test_a_new_arm_leaves_the_other_arms_unchanged(policy: Policy) -> None:
    before = estimates_of(policy)
    policy.add_arm("new")
    assert policy.arms == (*ARMS, "new")
    for old, new in zip(before, estimates_of(policy), strict=True):
        assert np.array_equal(new[:, :-1], old)


def test_a_new_arm_is_the_same_as_an_untried_arm(policy: Policy) -> None:
    policy.add_arm("new")
    assert policy.reward_counts["new"] == policy.reward_counts[UNTRIED] == 0
    for each in estimates_of(policy):
        assert np.array_equal(each[:, -1], each[:, ARMS.index(UNTRIED)])


def test_a_copied_arm_has_the_estimates_of_the_original(policy: Policy) -> None:
    policy.add_arm("twin", like="green")
    assert policy.reward_counts["twin"] == policy.reward_counts["green"] > 0
    for each in estimates_of(policy):
        assert np.array_equal(each[:, -1], each[:, ARMS.index("green")])


def test_a_copy_of_a_well_known_arm_has_little_evidence(
    policy: Policy, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, green = estimates_of(policy), ARMS.index("green")
    monkeypatch.setattr(_forgetting, "COPIED_DECISIONS", 4)
    policy.add_arm("twin", like="green")
    assert policy.reward_counts["twin"] == policy.reward_counts["green"] >> 3 == 3
    values, counts = estimates_of(policy)
    assert np.array_equal(values[:, :-1], before[0])
    assert np.array_equal(counts[:, :-1], before[1])
    if policy.can_forget:
        assert (counts[:, -1] <= counts[:, green]).all()
        assert counts[:, -1].mean() < 0.5 * counts[:, green].mean()
    np.testing.assert_allclose(
        values[:, -1], values[:, green], atol=0.25 * np.ptp(reward_range(policy.rewards))
    )


def test_the_evidence_that_is_copied_is_halved_like_that_which_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_forgetting, "COPIED_DECISIONS", 4)
    policy = trained_on_all_arms_but_one("linucb", "binary")
    assert isinstance(policy, LinUCB)
    policy.add_arm("twin", like="green")
    moment = np.linalg.inv(policy._inverses[ARMS.index("green")]) - policy.ridge * np.eye(FEATURES + 1)
    expected = np.linalg.inv(policy.ridge * np.eye(FEATURES + 1) + moment / 8)
    np.testing.assert_allclose(policy._inverses[-1], expected, atol=1e-9)
    np.testing.assert_allclose(policy._moments[-1], policy._moments[ARMS.index("green")] / 8)


@pytest.mark.parametrize(("half_life", "halvings"), [(None, 3), (6, 2)], ids=["none", "6"])
def test_evidence_that_is_already_forgotten_is_not_discounted_again(
    half_life: int | None, halvings: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_forgetting, "COPIED_DECISIONS", 4)
    policy = LinUCB(ARMS, FEATURES, half_life=half_life)
    for x in np.random.default_rng(1).random((27, FEATURES)):
        policy.learn(x, "red", 1)
    policy.add_arm("twin", like="red")
    assert policy.reward_counts["twin"] == 27 >> halvings


def test_a_discounted_copy_is_saved_and_removed_without_a_trace(
    policy: Policy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_forgetting, "COPIED_DECISIONS", 4)
    before = full_state(policy)
    policy.add_arm("twin", like="red")
    policy.save(tmp_path / "model")
    loaded = type(policy).load(tmp_path / "model")
    assert full_state(trained(loaded, 20, seed=4)) == full_state(trained(copy.deepcopy(policy), 20, seed=4))
    policy.remove_arm("twin")
    assert full_state(policy) == before


def learn(policy: Policy, contexts: Float64, arm: str) -> None:
    """Learn rewards of one arm. Undo what it has in common with the others: the shares of the experts."""
    shares = policy._experts.arrays.shares.copy() if isinstance(policy, GLCB) else None
    for x in contexts:
        policy.learn(x, arm, 1)
    if isinstance(policy, GLCB):
        policy._experts.arrays.shares[:] = shares


def test_a_copied_arm_and_the_original_learn_independently(policy: Policy) -> None:
    policy.add_arm("twin", like="green")
    before = estimates_of(policy)[0]
    learn(policy, CONTEXTS[:5], "twin")
    np.testing.assert_allclose(estimates_of(policy)[0][:, :-1], before[:, :-1], atol=1e-6)
    between = estimates_of(policy)[0]
    learn(policy, CONTEXTS[:5], "green")
    np.testing.assert_allclose(estimates_of(policy)[0][:, -1], between[:, -1], atol=1e-6)


def test_a_removed_arm_leaves_the_other_arms_unchanged(policy: Policy) -> None:
    counts, before = policy.reward_counts, estimates_of(policy)
    for removed in ARMS:
        smaller = copy.deepcopy(policy)
        smaller.remove_arm(removed)
        kept = [index for index, arm in enumerate(ARMS) if arm != removed]
        assert smaller.arms == tuple(ARMS[index] for index in kept)
        assert smaller.reward_counts == {arm: count for arm, count in counts.items() if arm != removed}
        assert smaller.updates == 80
        for old, new in zip(before, estimates_of(smaller), strict=True):
            assert np.array_equal(new, old[:, kept])


def test_adding_and_removing_an_arm_restores_every_bit(policy: Policy) -> None:
    before = full_state(policy)
    policy.add_arm("new")
    policy.add_arm("twin", like="red")
    policy.remove_arm("new")
    policy.remove_arm("twin")
    assert full_state(policy) == before


def test_changed_arms_are_saved_and_continue_bit_for_bit(policy: Policy, tmp_path: Path) -> None:
    policy.add_arm("twin", like="red")
    policy.remove_arm("green")
    policy.add_arm(7)
    policy.save(tmp_path / "model")
    loaded = type(policy).load(tmp_path / "model")
    assert loaded.arms == policy.arms == ("red", "blue", "gray", "twin", 7)
    assert loaded.updates == policy.updates == 80
    assert full_state(loaded) == full_state(policy)
    assert full_state(trained(loaded, 60, seed=4)) == full_state(trained(policy, 60, seed=4))


def test_a_removed_arm_can_be_added_again_as_a_new_one(policy: Policy) -> None:
    policy.remove_arm("red")
    policy.add_arm("red")
    assert policy.reward_counts["red"] == 0
    assert {policy.decide(x, eligible=["red"]).arm for x in CONTEXTS} == {"red"}
    policy.learn(CONTEXTS[0], "red", 1)
    assert policy.reward_counts["red"] == 1


def test_learning_a_new_arm_leaves_the_other_arms_unchanged(policy: Policy) -> None:
    policy.add_arm("new")
    before = estimates_of(policy)[0][:, :-1]
    learn(policy, CONTEXTS[:1], "new")
    np.testing.assert_allclose(estimates_of(policy)[0][:, :-1], before, atol=1e-6)


def test_invalid_names_are_refused_and_change_nothing() -> None:
    policy = trained(UCB1(ARMS, FEATURES), 20)
    before = full_state(policy)
    invalid: list[Any] = ["red", True, 1.5, None, ["a"]]
    for name in invalid:
        with pytest.raises(InvalidSettings, match="arm"):
            policy.add_arm(name)
    with pytest.raises(UnknownArm, match="no arm 'purple'"):
        policy.add_arm("new", like="purple")
    with pytest.raises(UnknownArm, match="no arm 'purple'"):
        policy.remove_arm("purple")
    assert full_state(policy) == before
    for arm in ARMS[1:]:
        policy.remove_arm(arm)
    before = full_state(policy)
    with pytest.raises(InvalidSettings, match="the only arm"):
        policy.remove_arm("red")
    assert full_state(policy) == before
