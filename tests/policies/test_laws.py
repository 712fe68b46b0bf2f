"""The laws that a policy can break, for every registered policy."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glcb import InvalidSettings, make_policy
from glcb._types import Arm
from tests.policies.cases import (
    ARMS,
    CASES,
    FEATURES,
    POLICIES,
    Maker,
    full_state,
    learned_state,
    reward,
    trained,
)
from tests.policies.conftest import maker

X = [0.2, 0.9, 0.5]
CONSTANT_SIZE = [case for case in CASES if not POLICIES[case[0]].stores_data]
INDEPENDENT_ARMS = [case for case in CASES if POLICIES[case[0]].arms_are_independent]


def test_an_untrained_policy_decides(make: Maker) -> None:
    decision = make().decide(X)
    assert decision.arm in ARMS
    assert len(decision.values) == len(decision.bonuses) == len(decision.pseudocounts) == len(ARMS)


def test_the_pseudocount_of_one_context_is_its_number_of_decisions(make: Maker) -> None:
    policy = make()
    assert policy.estimate(X).pseudocounts.tolist() == [0, 0, 0, 0]
    for _ in range(3):
        policy.learn(X, "green", 1)
    np.testing.assert_allclose(policy.estimate(X).pseudocounts, [0, 3, 0, 0], rtol=1e-6)


def test_deciding_changes_only_the_random_generator(make: Maker) -> None:
    policy = trained(make(), 60)
    before = learned_state(policy)
    for _ in range(20):
        policy.decide(X)
        policy.decide(X, eligible=["red", "blue"])
    assert learned_state(policy) == before


def test_only_randomized_policies_draw_random_numbers_to_estimate(make: Maker) -> None:
    policy = trained(make(), 60)
    before = full_state(policy)
    policy.estimate(X)
    assert (full_state(policy) != before) == policy.is_randomized


def test_equal_seeds_give_equal_decisions(make: Maker) -> None:
    def choices(seed: int) -> list[Arm]:
        policy, rng = make(seed=seed), np.random.default_rng(5)
        chosen: list[Arm] = []
        for _ in range(120):  # longer than the initial rounds of every policy
            x = rng.random(FEATURES)
            chosen.append(policy.decide(x).arm)
            policy.learn(x, chosen[-1], reward(policy, rng))
        return chosen

    assert choices(7) == choices(7)
    assert choices(7) != choices(8)


@pytest.mark.parametrize(("name", "kind"), CONSTANT_SIZE)
def test_the_size_does_not_grow_with_the_number_of_updates(name: str, kind: str) -> None:
    policy = trained(maker(name, kind)(), 400)
    before = {array: len(content) for array, content in learned_state(policy).items()}
    trained(policy, 800, seed=1)
    assert {array: len(content) for array, content in learned_state(policy).items()} == before


@pytest.mark.parametrize(("name", "kind"), INDEPENDENT_ARMS)
def test_a_reward_of_one_arm_leaves_the_values_of_the_others_unchanged(name: str, kind: str) -> None:
    policy = trained(maker(name, kind)(), 60)
    before = policy.decide(X).values
    for _ in range(5):
        policy.learn(X, "blue", 1)
    after = policy.decide(X).values
    others = [index for index, arm in enumerate(ARMS) if arm != "blue"]
    np.testing.assert_allclose(after[others], before[others], atol=1e-6)


def test_a_saved_policy_continues_bit_for_bit(make: Maker, tmp_path: Path) -> None:
    original = trained(make(), 100)
    original.save(tmp_path / "model")
    loaded = type(original).load(tmp_path / "model")
    assert full_state(loaded) == full_state(original)
    assert repr(loaded) == repr(original)
    trained(original, 100, seed=2)
    trained(loaded, 100, seed=2)
    assert full_state(loaded) == full_state(original)


def test_decisions_and_rewards_in_two_calls_are_the_same_as_in_one(make: Maker) -> None:
    one, two = make(), make()
    rng = np.random.default_rng(0)
    for _ in range(60):
        x, arm, value = rng.random(FEATURES), ARMS[rng.integers(len(ARMS))], reward(one, rng)
        one.learn(x, arm, value)
        two.count_decision(x, arm)
        two.learn(x, arm, value, counted=True)
    assert learned_state(one) == learned_state(two)


def test_choosing_and_counting_in_two_calls_is_the_same_as_in_one(make: Maker) -> None:
    together, apart = make(), make()
    points = np.random.default_rng(1)
    for x in np.random.default_rng(0).random((20, together.features)).astype(np.float32):
        point = points.random()
        one = together.choose(x, 0.2, "gap", point, True)
        other = apart.choose(x, 0.2, "gap", point, False)
        apart.count_decision(x, apart.arms[other.arm])
        assert one.arm == other.arm
        np.testing.assert_array_equal(one.probabilities, other.probabilities)
    assert full_state(together) == full_state(apart)


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_validates_the_shared_arguments(name: str) -> None:
    invalid: list[tuple[str, Any]] = [
        ("arms", []),
        ("arms", 10**9),
        ("features", 0),
        ("features", 10**12),
        ("rewards", (1.0, 0.0)),
        ("rewards", "continuous"),
        ("seed", -1),
    ]
    for argument, value in invalid:
        arguments: dict[str, Any] = {"arms": ARMS, "features": FEATURES, argument: value}
        with pytest.raises(InvalidSettings, match=argument.removesuffix("s")):
            POLICIES[name](**arguments)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        (
            "ekf-subspace",
            [{"dimension": 0}, {"dimension": 501}, {"prior_variance": 0}, {"noise_variance": 0}],
        ),
        ("neuralucb", [{"nu": -1}]),
        ("neuralts", [{"nu": -1}]),
        ("tree-ts", [{"trees": 0}, {"trees": 1001}, {"depth": 0}, {"depth": 13}, {"learning_rate": 0}]),
        ("tree-ts", [{"learning_rate": 1.5}, {"posterior_scale": -1}]),
    ],
)
def test_an_invalid_setting_is_refused(name: str, changes: list[dict[str, Any]]) -> None:
    for change in changes:
        with pytest.raises(InvalidSettings, match=next(iter(change))):
            make_policy(name, 2, 3, **change)


@pytest.mark.parametrize("name", ["linfullpost", "rms", "neuralucb", "tree-ts"])
def test_every_arm_is_chosen_twice_first(name: str) -> None:
    policy = make_policy(name, ["a", "b", "c"], 2)
    chosen = []
    for _ in range(6):
        chosen.append(policy.decide([0.1, 0.7]).arm)
        policy.learn([0.1, 0.7], chosen[-1], 1)
    assert chosen == ["a", "b", "c", "a", "b", "c"]
    assert np.isfinite(policy.decide([0.1, 0.7]).bonuses).all()


@pytest.mark.parametrize(
    ("name", "steps", "share"),
    [
        ("rms", 1200, 0.75),
        ("neuralucb", 1200, 0.75),
        ("neuralts", 1200, 0.75),
        ("ekf-subspace", 2000, 0.7),
        ("tree-ts", 1500, 0.95),
    ],
)
def test_an_exclusive_or_which_linear_policies_cannot_express_is_learned(
    name: str, steps: int, share: float
) -> None:
    def earned(name: str) -> float:
        policy, rng = make_policy(name, 2, 2, rewards=(0.0, 5.0), seed=1), np.random.default_rng(0)
        hits = []
        for _ in range(steps):
            x = rng.random(2)
            arm = policy.decide(x).arm
            hits.append(arm == int((x[0] > 0.5) != (x[1] > 0.5)))
            policy.learn(x, arm, 5 * hits[-1])
        return float(np.mean(hits[-500:]))

    assert earned(name) > share
    assert earned("lints") < 0.7
