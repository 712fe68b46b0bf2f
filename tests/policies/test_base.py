"""The laws of the base class: validation, counters, copies and snapshots."""

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glcb import (
    GLCB,
    UCB1,
    GlcbError,
    InvalidContext,
    InvalidInput,
    InvalidReward,
    InvalidSettings,
    LinTS,
    ModelFileError,
    Policy,
    UnknownArm,
)
from tests.policies.cases import (
    ARMS,
    FEATURES,
    REWARD_KINDS,
    Maker,
    full_state,
    learned_state,
    reward,
    trained,
)

X = [0.2, 0.9, 0.5]
INVALID_CONTEXTS = {
    "too short": [0.1, 0.2],
    "too long": [0.1, 0.2, 0.3, 0.4],
    "empty": [],
    "not flat": [[0.1, 0.2, 0.3]],
    "ragged": [[0.1], [0.2, 0.3], 0.4],
    "NaN": [0.1, float("nan"), 0.3],
    "infinite": [0.1, float("inf"), 0.3],
    "too large": [0.1, 1.0001, 0.3],
    "negative": [0.1, -0.0001, 0.3],
    "huge": [0.1, 1e300, 0.3],
    "text": ["a", "b", "c"],
    "missing": [0.1, None, 0.3],
    "complex": [0.1, 0.2j, 0.3],
    "none": None,
    "number": 0.5,
    "dict": {"a": 1},
    "masked": np.ma.array([0.1, 0.2, 0.3], mask=[False, True, False]),
}
INVALID_REWARDS = {
    "NaN": float("nan"),
    "infinite": float("inf"),
    "text": "1",
    "none": None,
    "list": [1.0],
    "complex": 1j,
    "beyond float": 10**400,
    "too large": 3.1,
    "too small": -1.1,
}


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("arms", 0),
        ("arms", -1),
        ("arms", 2.5),
        ("arms", True),
        ("arms", []),
        ("arms", "abc"),
        ("arms", None),
        ("arms", ["a", "a"]),
        ("arms", ["a", 1.5]),
        ("arms", 10**9),
        ("features", 0),
        ("features", -3),
        ("features", 1.0),
        ("features", 10**12),
        ("features", None),
        ("rewards", (1.0, 0.0)),
        ("rewards", (0.0, float("inf"))),
        ("rewards", "continuous"),
        ("rewards", (0.0, "1")),
        ("rewards", (0, 10**400)),
        ("rewards", (-1e308, 1e308)),
        ("rewards", None),
        ("seed", -1),
        ("seed", 0.5),
        ("seed", None),
    ],
)
def test_an_invalid_argument_is_refused(argument: str, value: object) -> None:
    arguments: dict[str, Any] = {"arms": ARMS, "features": FEATURES, argument: value}
    with pytest.raises(InvalidSettings, match=argument.removesuffix("s")):
        UCB1(**arguments)


@pytest.mark.parametrize("kind", REWARD_KINDS)
def test_invalid_input_is_refused_and_changes_nothing(kind: str) -> None:
    policy = trained(GLCB(ARMS, FEATURES, rewards=REWARD_KINDS[kind]), 100)
    before = full_state(policy)
    for x in INVALID_CONTEXTS.values():
        for call in (policy.decide, policy.estimate, policy.explain):
            with pytest.raises(InvalidContext, match="context"):
                call(x)  # type: ignore[arg-type]
        with pytest.raises(InvalidContext, match="context"):
            policy.learn(x, "red", 1)  # type: ignore[arg-type]
        with pytest.raises(InvalidContext, match="context"):
            policy.count_decision(x, "red")  # type: ignore[arg-type]
    for invalid in [*INVALID_REWARDS.values(), *([0.5, 2] if policy.rewards == "binary" else [])]:
        with pytest.raises(InvalidReward, match="reward"):
            policy.learn(X, "red", invalid)  # type: ignore[arg-type]
    for arm in ("purple", 0, None, ["red"], float("nan"), True, 1.0):
        with pytest.raises(UnknownArm, match="arm"):
            policy.learn(X, arm, 1)  # type: ignore[arg-type]
        with pytest.raises(UnknownArm, match="arm"):
            policy.count_decision(X, arm)  # type: ignore[arg-type]
        with pytest.raises(UnknownArm, match="arm"):
            policy.decide(X, eligible=["red", arm])  # type: ignore[list-item]
    not_lists_of_arms: list[Any] = [[], "red", 5]
    for eligible in not_lists_of_arms:
        with pytest.raises(UnknownArm, match="eligible"):
            policy.decide(X, eligible=eligible)
    assert full_state(policy) == before


@pytest.mark.parametrize(
    ("contexts", "arms", "rewards", "error"),
    [
        ([[0.5] * 3, [0.5, 2.0, 0.5]], ["red", "red"], [1, 1], InvalidContext),
        ([[0.5] * 3, [0.5, float("nan"), 0.5]], ["red", "red"], [1, 1], InvalidContext),
        ([0.5] * 3, ["red"] * 3, [1] * 3, InvalidContext),
        ([[0.5] * 4], ["red"], [1], InvalidContext),
        ([["a"] * 3], ["red"], [1], InvalidContext),
        ([[0.5] * 3] * 2, ["red"], [1, 1], InvalidInput),
        ([[0.5] * 3] * 2, ["red", "pink"], [1, 1], UnknownArm),
        ([[0.5] * 3] * 2, ["red", "red"], [1, 7], InvalidReward),
    ],
)
def test_nothing_is_learned_if_one_row_is_invalid(
    contexts: list[list[float]], arms: list[str], rewards: list[float], error: type[GlcbError]
) -> None:
    policy = trained(GLCB(ARMS, FEATURES), 20)
    before = full_state(policy)
    with pytest.raises(error):
        policy.learn_many(contexts, arms, rewards)
    assert full_state(policy) == before


@pytest.mark.parametrize("arms", [None, "red", {"red": 1}, 3, (arm for arm in ["red", "green"])])
def test_arms_that_are_not_a_list_with_one_entry_per_row_are_refused(arms: object) -> None:
    with pytest.raises(InvalidInput):
        UCB1(ARMS, FEATURES).learn_many([[0.5] * 3], arms, [1])  # type: ignore[arg-type]


def test_the_error_names_the_row_and_the_feature() -> None:
    with pytest.raises(InvalidContext, match="feature 1 of context 1 "):
        UCB1(ARMS, FEATURES).decide_many([[0.5] * 3, [0.5, -1, 0.5]])


def test_values_just_outside_the_range_are_rounding_errors() -> None:
    exact, rounded = GLCB(ARMS, FEATURES), GLCB(ARMS, FEATURES)
    exact.learn([0.0, 1.0, 0.5], "red", 1)
    rounded.learn([-5e-7, 1 + 5e-7, 0.5], "red", 1)
    assert learned_state(exact) == learned_state(rounded)


def test_inputs_are_neither_kept_nor_changed(make_representative: Maker) -> None:
    fresh, reused = make_representative(), make_representative()
    scratch = np.empty(FEATURES)
    rng = np.random.default_rng(1)
    for _ in range(60):
        x = rng.random(FEATURES)
        arm, value = ARMS[rng.integers(len(ARMS))], reward(fresh, rng)
        fresh.learn(x, arm, value)
        scratch[:] = x
        reused.decide(scratch)
        reused.learn(scratch, arm, value)
        assert np.array_equal(scratch, x)
        scratch[:] = np.nan
    assert learned_state(fresh) == learned_state(reused)


def test_read_only_strided_and_float64_arrays_are_the_same_context(make_representative: Maker) -> None:
    base = np.array(X, np.float32)
    frozen = base.copy()
    frozen.setflags(write=False)
    contexts: list[np.ndarray] = [base, frozen, np.repeat(base, 2)[::2], base.astype(np.float64)]
    states = []
    for x in contexts:
        policy = make_representative()
        policy.decide(x)
        policy.learn(x, "red", 1)
        states.append(learned_state(policy))
    assert all(state == states[0] for state in states)


def test_the_arm_with_the_best_score_is_chosen(make_representative: Maker) -> None:
    decision = trained(make_representative(), 60).decide(X)
    assert decision.scores[ARMS.index(str(decision.arm))] == decision.scores.max()
    assert str(decision.arm) in repr(decision)


def test_only_eligible_arms_are_chosen(make_representative: Maker) -> None:
    policy = make_representative()
    assert {policy.decide(X, eligible=["green", "gray"]).arm for _ in range(50)} <= {"green", "gray"}
    trained(policy, 60)
    for arm in ARMS:
        assert policy.decide(X, eligible=[arm]).arm == arm


def test_rewards_are_counted(make_representative: Maker) -> None:
    policy = trained(make_representative(), 120)
    assert sum(policy.reward_counts.values()) == policy.updates == 120


def test_a_counted_decision_is_saved_but_is_no_reward(make_representative: Maker) -> None:
    policy = trained(make_representative(), 30)
    rewards, before = policy.reward_counts, full_state(policy)
    policy.count_decision(X, "red")
    assert (policy.updates, policy.reward_counts) == (30, rewards)
    assert full_state(policy) != before
    assert full_state(type(policy).from_snapshot(policy.snapshot())) == full_state(policy)


@pytest.mark.parametrize("policy", [GLCB(ARMS, FEATURES), UCB1(ARMS, FEATURES)], ids=repr)
def test_exploration_depends_on_counted_decisions_not_on_rewards(policy: Policy) -> None:
    assert np.isinf(policy.decide(X).bonuses).all()
    for _ in range(3):
        policy.count_decision(X, "red")
    decision = policy.decide(X)
    assert np.isfinite(decision.bonuses).tolist() == [True, False, False, False]
    assert decision.pseudocounts[0] == pytest.approx(3)
    assert policy.reward_counts["red"] == 0


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda policy: pickle.loads(pickle.dumps(policy))])
def test_a_copy_continues_bit_for_bit_and_independently(make_representative: Maker, duplicate: Maker) -> None:
    original = trained(make_representative(), 100)
    twin = duplicate(original)
    before = full_state(original)
    trained(twin, 50, seed=3)
    assert full_state(original) == before
    trained(original, 50, seed=3)
    assert full_state(original) == full_state(twin)


def test_restoring_a_snapshot_returns_to_its_moment(make_representative: Maker) -> None:
    policy = trained(make_representative(), 60)
    moment, before = policy.snapshot(), full_state(policy)
    trained(policy, 60, seed=1)
    after = full_state(policy)
    policy.restore(moment)
    assert full_state(policy) == before
    trained(policy, 60, seed=1)
    assert full_state(policy) == after


def test_a_snapshot_that_does_not_fit_changes_nothing(make_representative: Maker) -> None:
    policy = trained(make_representative(), 60)
    moment, before = policy.snapshot(), full_state(policy)
    moment.arrays["reward_counts"] = np.zeros(7, np.int64)
    with pytest.raises(ValueError, match="reward_counts"):
        policy.restore(moment)
    assert full_state(policy) == before


def test_setting_the_state_of_the_generator_repeats_the_draws() -> None:
    policy = LinTS(ARMS, FEATURES)
    state = policy.rng_state
    first = policy.estimate(X).bonuses
    assert not np.array_equal(policy.estimate(X).bonuses, first)
    policy.rng_state = state
    assert np.array_equal(policy.estimate(X).bonuses, first)


def test_a_file_of_another_policy_is_refused(tmp_path: Path) -> None:
    UCB1(ARMS, FEATURES).save(tmp_path / "model")
    with pytest.raises(ModelFileError, match=r"holds a UCB1, not a LinTS: load it with UCB1\.load"):
        LinTS.load(tmp_path / "model")
