"""The mixture of networks and regressions."""

import math
from pathlib import Path

import numpy as np
import pytest

from glcb import GLCB, InvalidSettings
from glcb._arrays import Float64
from glcb._types import Rewards
from glcb.experts import Experts
from glcb.experts.fourier import CONTEXTS_TO_MEASURE
from glcb.experts.mixture import (
    CLIP,
    FOURIER_RIDGE,
    LOGISTIC_RIDGE,
    REDISTRIBUTED,
    REDISTRIBUTED_PER_SUCCESS,
    learn_mixture,
    mix_values,
    residual_deviation,
)
from glcb.experts.regression import learn_target
from glcb.policies.glcb.paper import GLCBPaper


def experts(kinds: tuple[str, ...] = ("linear", "fourier"), *, binary: bool = True, arms: int = 2) -> Experts:
    low, high = (0.0, 1.0) if binary else (-2.0, 2.0)
    return Experts(arms, 3, kinds, low, high, binary, np.random.default_rng(0))  # type: ignore[arg-type]


def learn(own: Experts, x: np.ndarray, arm: int, reward: float, network: float) -> None:
    if learn_mixture(x, own.features.at(x), arm, reward, network, own.arrays):
        for context, rewarded, target in own.restart_fourier():
            learn_target(own.features.at(context), rewarded, target, own.arrays.fourier)


X = np.array([0.9, 0.2, 0.4], np.float32)


def test_a_reward_multiplies_shares_by_its_likelihood() -> None:
    own = experts()
    learn(own, X, 0, 1.0, network=0.9)
    # Untrained: the logistic regressions predict ½, that on random features 0, which is clipped.
    likelihoods = np.array([0.9, 0.5, 0.5, CLIP])
    expected = (1 - REDISTRIBUTED) * likelihoods / likelihoods.sum() + REDISTRIBUTED / 4
    np.testing.assert_allclose(list(own.shares.values()), [*expected, 0])


def test_rare_rewards_redistribute_less() -> None:
    own = experts(("linear",))
    for step in range(2000):
        learn(own, X, 0, float(step % 100 == 0), network=0.5)
    # The two regressions know the frequency, 1%. The networks do not: each 0 halves their share.
    redistributed = REDISTRIBUTED_PER_SUCCESS * 21 / 2001
    assert own.shares["networks"] == pytest.approx(2 / 3 * redistributed, rel=0.1)


def test_bounded_rewards_have_a_normal_likelihood() -> None:
    own = experts(("linear",), binary=False)
    learn(own, X, 0, 2.0, network=1.0)
    # On the scale of [0, 1]: reward 1, predictions ¾ and 0.
    variance = (1 - 0.75 / 2) ** 2
    ratio = math.exp((0.25**2 - 1) / (2 * variance))
    expected = (1 - REDISTRIBUTED) / (1 + ratio) + REDISTRIBUTED / 2
    assert own.shares["linear"] == pytest.approx(1 - expected)
    assert own.shares["fourier"] == 0


def test_an_expert_that_was_wrong_for_long_can_recover() -> None:
    own = experts(binary=False)
    for _ in range(2000):
        learn(own, X, 0, 2.0, network=-2.0)
    assert own.shares["networks"] == pytest.approx(REDISTRIBUTED / 3)
    for step in range(30):
        learn(own, X, 0, -2.0 if step % 2 else 2.0, network=-2.0 if step % 2 else 2.0)
    assert own.shares["networks"] > 0.9


@pytest.mark.parametrize("steps", [CONTEXTS_TO_MEASURE, CONTEXTS_TO_MEASURE + 30])
def test_the_first_rewards_are_learned_again_with_random_features(steps: int) -> None:
    rng = np.random.default_rng(1)
    own = experts(arms=3)
    contexts, arms = rng.random((steps, 3), np.float32), rng.integers(2, size=steps)
    targets = rng.random(steps)
    for step in range(steps):
        if step == 20:  # an arm is added and the arms change places
            own, arms = own.reordered(np.array([2, 0, 1, -1])), arms + 1
        learn(own, contexts[step], arms[step], targets[step], network=0.5)
    features = np.array([own.features.at(x) for x in contexts])
    assert features[:, :-4].all()
    for arm in range(4):
        z = features[arms == arm]
        moment = FOURIER_RIDGE * np.eye(features.shape[1]) + z.T @ z
        weights = np.linalg.solve(moment, z.T @ targets[arms == arm])
        np.testing.assert_allclose(own.fourier.arrays.weights[arm], weights, atol=1e-9)
        np.testing.assert_allclose(own.fourier.inverse(arm), np.linalg.inv(moment), atol=1e-9)


def test_values_are_the_mean_of_the_experts_and_bonuses_shrink_with_evidence() -> None:
    own = experts(("linear",))
    values, deviations, bonuses = np.array([0.8, 0.8]), np.empty(2), np.empty(2)
    mix_values(X, own.features.at(X), values, deviations, bonuses, own.arrays)
    np.testing.assert_allclose(values, 0.6)  # the mean of 0.8, ½ and ½
    np.testing.assert_allclose(deviations, math.sqrt(0.6 * 0.4 / 3))  # for the share of the networks
    np.testing.assert_allclose(
        bonuses, 2 / 3 * 0.5 * 0.25 * math.sqrt((1 + 0.16 + 0.09 + 0.01) / LOGISTIC_RIDGE), rtol=1e-5
    )
    for _ in range(20):
        learn(own, X, 1, 1.0, network=0.5)
    values = np.array([0.8, 0.8])
    mix_values(X, own.features.at(X), values, deviations, bonuses, own.arrays)
    assert values[1] > values[0]
    assert bonuses[1] < bonuses[0]


@pytest.mark.parametrize(
    ("features", "rewards", "present"),
    [
        (80, "binary", {"linear", "weak", "fourier"}),
        (80, (0.0, 2.0), {"linear", "fourier"}),
        (81, "binary", {"linear", "weak"}),
        (512, (0.0, 2.0), {"linear"}),
        (513, "binary", {"diagonal"}),
        (513, (0.0, 2.0), {"diagonal"}),
    ],
)
def test_experts_that_would_be_too_slow_are_left_out(
    features: int, rewards: Rewards, present: set[str]
) -> None:
    policy = GLCB(2, features, rewards=rewards, layers=(2, 1))
    assert {name for name, share in policy._experts.shares.items() if share > 0} == {"networks", *present}
    policy.learn(np.ones(features), 0, 1)
    policy.decide(np.ones(features))


@pytest.mark.parametrize("features", [20, 100, 600])
@pytest.mark.parametrize("binary", [True, False])
def test_the_memory_of_the_experts_is_known(features: int, binary: bool) -> None:
    own = Experts(7, features, ("linear", "fourier"), 0.0, 1.0, binary, np.random.default_rng(0))
    parts = (own.arrays.linear, own.arrays.weak, own.arrays.fourier)
    needed = sum(part.weights.nbytes + part.inverses.nbytes + part.rounded.nbytes for part in parts)
    needed += own.arrays.diagonal.weights.nbytes + own.arrays.diagonal.evidence.nbytes
    for array in ("wave_directions", "wave_first", "expert_first_targets", "expert_arm_errors"):
        needed += own.snapshot()[array].nbytes
    assert needed == Experts.bytes_needed(7, features, ("linear", "fourier"), binary)


def test_the_memory_of_the_experts_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glcb._validation.MAX_BYTES", Experts.bytes_needed(1000, 60, ("fourier",), True))
    with pytest.raises(InvalidSettings, match="GiB"):
        GLCB(1000, 60, layers=(1,), hyperplanes=1)
    GLCB(1000, 60, layers=(1,), hyperplanes=1, experts=())


def test_the_policy_of_the_paper_has_no_experts() -> None:
    policy = GLCBPaper(2, 3)
    assert {name for name, share in policy._experts.shares.items() if share > 0} == {"networks"}
    learned = ("expert", "linear", "weak", "fourier", "diagonal", "wave")
    assert not any(name.startswith(learned) for name in policy._snapshot())


@pytest.mark.parametrize("value", ["linear", ("quadratic",), 3])
def test_unknown_experts_are_refused(value: object) -> None:
    with pytest.raises(InvalidSettings, match='experts must be a tuple of any of "linear" and "fourier"'):
        GLCB(2, 3, experts=value)  # type: ignore[arg-type]


@pytest.mark.parametrize("rewards", ["binary", (-1.0, 3.0)])
def test_a_restored_policy_continues_bit_for_bit(rewards: object, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    policy = GLCB(3, 4, rewards=rewards, seed=1, half_life=40)  # type: ignore[arg-type]
    for steps in (10, 25, 65):  # before and after the kernel length is fixed
        teach(policy, rng.random((steps, 4)))
        policy.save(tmp_path / "model")
        restored = GLCB.load(tmp_path / "model")
        contexts = rng.random((20, 4))
        teach(policy, contexts)
        teach(restored, contexts)
        for name, array in policy._snapshot().items():
            np.testing.assert_array_equal(restored._snapshot()[name], array, name)


def teach(policy: GLCB, contexts: Float64) -> None:
    """Learn a reward in each context, for the arms in turn."""
    for step, x in enumerate(contexts):
        policy.learn(x, step % 3, float(x[step % 3] > 0.5))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("expert_shares", [0.5, 0.5, 0.5, 0.5, 0.0]),
        ("expert_shares", [1.2, -0.1, -0.1, 0.0, 0.0]),
        ("expert_shares", [0.5, 0.25, 0.25, 0.0, 0.0]),
        ("expert_errors", [-1.0, 0.0, 0.0]),
        ("expert_arm_errors", [[0.0, 0.0], [0.0, -1.0]]),
        ("expert_first_targets", np.full((2, 32), 2.0)),
        ("wave_square", [-1.0]),
        ("linear_weights", np.full((2, 4), np.nan)),
    ],
)
def test_an_invalid_snapshot_is_refused(name: str, value: object) -> None:
    own = experts()
    with pytest.raises(ValueError, match=r"shares|negative|finite|within"):
        own.restore({**own.snapshot(), name: np.array(value)})


def test_the_declared_range_of_rewards_changes_little_in_the_regressions() -> None:
    narrow, wide = (
        Experts(2, 3, ("linear", "fourier"), 0.0, high, False, np.random.default_rng(0))
        for high in (10.0, 1000.0)
    )
    rng, results = np.random.default_rng(1), []
    contexts, orders = rng.random((300, 3), np.float32), rng.random(300) < 0.1
    for own in (narrow, wide):
        for step, (x, order) in enumerate(zip(contexts, orders, strict=True)):
            learn(own, x, step % 2, 10.0 * float(order), network=1.0)
        values, deviations, bonuses = np.ones(2), np.full(2, np.inf), np.empty(2)
        mix_values(X, own.features.at(X), values, deviations, bonuses, own.arrays)
        results.append([values, deviations, bonuses])
    np.testing.assert_allclose(results[0], results[1], rtol=1e-6)


def test_a_single_reward_moves_a_neglected_arm_little_after_forgetting() -> None:
    policy, rng = GLCB(2, 3, half_life=100), np.random.default_rng(0)
    for step in range(6000):
        policy.learn(rng.random(3), int(step % 100 == 0), float(rng.random() < 0.01))
    before = policy._experts.weak.arrays.weights[1, -1]
    policy.learn(X, 1, 1.0)
    assert policy._experts.weak.arrays.weights[1, -1] < before + 4


def test_an_uncertain_arm_keeps_its_bonus_if_a_certain_one_is_chosen_instead() -> None:
    own = experts(("linear",), binary=False)
    for step in range(10):
        learn(own, X, 0, 2.0 if step % 2 else -2.0, network=0.0)
    before = residual_deviation(0, own.arrays)
    for _ in range(5000):
        learn(own, X, 1, 0.0, network=0.0)
    assert residual_deviation(0, own.arrays) > 0.9 * before
    assert residual_deviation(1, own.arrays) < 0.1 * before


def test_a_reward_of_one_arm_can_change_the_values_of_others() -> None:
    policy = GLCB(2, 3)
    before = policy.estimate(X).values[1]
    policy.learn(X, 0, 1)
    assert policy.estimate(X).values[1] != before
    assert not GLCB.arms_are_independent
    assert GLCBPaper.arms_are_independent


def test_a_linear_reward_is_learned_faster_than_by_networks_alone() -> None:
    def reward_of(kinds: tuple[str, ...]) -> float:
        rng, total = np.random.default_rng(10_000), 0.0
        directions = rng.normal(size=(3, 30))
        policy = GLCB(3, 30, seed=0, experts=kinds)  # type: ignore[arg-type]
        for x in rng.random((600, 30)):
            best = int(np.argmax(directions @ (x - 0.5)))
            arm = policy.decide(x).arm
            total += arm == best
            policy.learn(x, arm, float(arm == best))
        return total

    assert reward_of(("linear", "fourier")) > reward_of(()) + 20
