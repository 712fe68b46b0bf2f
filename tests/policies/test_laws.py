"""The laws that every policy of the registry keeps, for both kinds of reward."""

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glcb import InvalidContext, InvalidReward, InvalidSettings, UnknownArm
from glcb._types import Arm
from tests.policies.everyone import (
    ARMS,
    FEATURES,
    POLICIES,
    Maker,
    everything,
    learned,
    reward,
    trained,
)

X = [0.2, 0.9, 0.5]


def test_decides_before_any_data(make: Maker) -> None:
    decision = make().decide(X)
    assert decision.arm in ARMS
    assert len(decision.values) == len(decision.bonuses) == len(decision.pseudocounts) == len(ARMS)
    assert str(decision.arm) in repr(decision)


def test_plays_are_counted(make: Maker) -> None:
    policy = trained(make(), 300)
    assert sum(policy.reward_counts.values()) == policy.updates == 300


def test_tries_of_one_context_are_its_pseudocount(make: Maker) -> None:
    policy = make()
    assert policy.estimate(X).pseudocounts.tolist() == [0, 0, 0, 0]
    for _ in range(3):
        policy.learn(X, "green", 1)
    np.testing.assert_allclose(policy.estimate(X).pseudocounts, [0, 3, 0, 0], rtol=1e-6)


def test_the_best_score_is_played(make: Maker) -> None:
    policy = trained(make(), 60)
    decision = policy.decide(X)
    assert decision.scores[ARMS.index(str(decision.arm))] == decision.scores.max()


def test_deciding_changes_nothing_but_the_generator(make: Maker) -> None:
    policy = trained(make(), 60)
    before = learned(policy)
    for _ in range(20):
        policy.decide(X)
        policy.decide(X, eligible=["red", "blue"])
    assert learned(policy) == before


def test_same_seed_same_choices(make: Maker) -> None:
    def choices(seed: int) -> list[Arm]:
        policy, rng = make(seed=seed), np.random.default_rng(5)
        made: list[Arm] = []
        for _ in range(80):
            x = rng.random(FEATURES)
            made.append(policy.decide(x).arm)
            policy.learn(x, made[-1], reward(policy, rng))
        return made

    assert choices(7) == choices(7)
    assert choices(7) != choices(8)


def test_inputs_are_neither_kept_nor_changed(make: Maker) -> None:
    careful, careless = make(), make()
    scratch = np.empty(FEATURES)
    rng = np.random.default_rng(1)
    for _ in range(40):
        x = rng.random(FEATURES)
        arm, r = ARMS[rng.integers(len(ARMS))], reward(careful, rng)
        careful.learn(x, arm, r)
        scratch[:] = x
        careless.decide(scratch)
        careless.learn(scratch, arm, r)
        assert np.array_equal(scratch, x)
        scratch[:] = np.nan
    assert learned(careful) == learned(careless)


def test_read_only_strided_and_other_types_are_the_same_context(make: Maker) -> None:
    base = np.array(X, np.float32)
    frozen = base.copy()
    frozen.setflags(write=False)
    strided = np.repeat(base, 2)[::2]
    twins = [make() for _ in range(4)]
    same: list[np.ndarray] = [base, frozen, strided, base.astype(np.float64)]
    for policy, x in zip(twins, same, strict=True):
        policy.decide(x)
        policy.learn(x, "red", 1)
    assert all(learned(twin) == learned(twins[0]) for twin in twins)


def test_memory_does_not_grow_with_steps(make: Maker) -> None:
    policy = make()
    if policy.stores_data:
        pytest.skip("stores all data by design")
    trained(policy, 400)
    before = {name: len(content) for name, content in learned(policy).items()}
    trained(policy, 800, seed=1)
    assert {name: len(content) for name, content in learned(policy).items()} == before


def test_learning_one_arm_leaves_the_others_alone(make: Maker) -> None:
    policy = make()
    if not policy.arms_are_independent:
        pytest.skip("its arms share a network")
    trained(policy, 60)
    before = policy.decide(X).values
    for _ in range(5):
        policy.learn(X, "blue", 1)
    after = policy.decide(X).values
    others = [index for index, arm in enumerate(ARMS) if arm != "blue"]
    np.testing.assert_allclose(after[others], before[others], atol=1e-6)


def test_only_eligible_arms_are_played(make: Maker) -> None:
    policy = make()
    assert {policy.decide(X, eligible=["green", "gray"]).arm for _ in range(50)} <= {"green", "gray"}
    trained(policy, 60)
    for arm in ARMS:
        assert policy.decide(X, eligible=[arm]).arm == arm


def test_saved_and_loaded_continues_bit_for_bit(make: Maker, tmp_path: Path) -> None:
    original = trained(make(), 100)
    original.save(tmp_path / "model")
    loaded = type(original).load(tmp_path / "model")
    assert everything(loaded) == everything(original)
    assert repr(loaded) == repr(original)
    trained(original, 100, seed=2)
    trained(loaded, 100, seed=2)
    assert everything(loaded) == everything(original)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda policy: pickle.loads(pickle.dumps(policy))])
def test_copies_continue_bit_for_bit_and_apart(make: Maker, duplicate: Maker) -> None:
    original = trained(make(), 100)
    twin = duplicate(original)
    before = everything(original)
    trained(twin, 50, seed=3)
    assert everything(original) == before
    trained(original, 50, seed=3)
    assert everything(original) == everything(twin)


BAD_CONTEXTS = {
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
    "nothing": None,
    "number": 0.5,
    "dict": {"a": 1},
    "masked": np.ma.array([0.1, 0.2, 0.3], mask=[False, True, False]),
}
BAD_REWARDS = {
    "NaN": float("nan"),
    "infinite": float("inf"),
    "text": "1",
    "nothing": None,
    "list": [1.0],
    "complex": 1j,
    "beyond float": 10**400,
    "too large": 3.1,
    "too small": -1.1,
}


def test_bad_input_is_refused_and_changes_nothing(make: Maker) -> None:
    policy = trained(make(), 100)
    before = everything(policy)
    for x in BAD_CONTEXTS.values():
        with pytest.raises(InvalidContext, match="context"):
            policy.decide(x)  # type: ignore[arg-type]
        with pytest.raises(InvalidContext, match="context"):
            policy.learn(x, "red", 1)  # type: ignore[arg-type]
    for bad in [*BAD_REWARDS.values(), *([0.5, 2] if policy.rewards == "binary" else [])]:
        with pytest.raises(InvalidReward, match="reward"):
            policy.learn(X, "red", bad)  # type: ignore[arg-type]
    for arm in ("purple", 0, None, ["red"], float("nan"), True, 1.0):
        with pytest.raises(UnknownArm, match="arm"):
            policy.learn(X, arm, 1)  # type: ignore[arg-type]
        with pytest.raises(UnknownArm, match="arm"):
            policy.decide(X, eligible=["red", arm])  # type: ignore[list-item]
    nonsense: list[Any] = [[], "red", 5]
    for eligible in nonsense:
        with pytest.raises(UnknownArm, match="eligible"):
            policy.decide(X, eligible=eligible)
    assert everything(policy) == before


def test_values_on_the_edge_are_taken_for_rounding(make: Maker) -> None:
    exact, rounded = make(), make()
    exact.learn([0.0, 1.0, 0.5], "red", 1)
    rounded.learn([-5e-7, 1 + 5e-7, 0.5], "red", 1)
    assert learned(exact) == learned(rounded)


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
@pytest.mark.parametrize("name", POLICIES)
def test_nonsense_is_refused_at_construction(name: str, argument: str, value: object) -> None:
    arguments: dict[str, Any] = {"arms": ARMS, "features": FEATURES, argument: value}
    with pytest.raises(InvalidSettings, match=argument.removesuffix("s")):
        POLICIES[name](**arguments)
