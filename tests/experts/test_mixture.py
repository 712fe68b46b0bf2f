"""The mixture of networks and regressions."""

import math
from pathlib import Path

import numpy as np
import pytest

from glcb import GLCB, InvalidSettings
from glcb._arrays import Float64
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
)
from glcb.experts.regression import learn_target
from glcb.policies.glcb import kernels
from glcb.policies.glcb.paper import GLCBPaper


def experts(kinds: tuple[str, ...] = ("linear", "fourier"), *, binary: bool = True, arms: int = 2) -> Experts:
    low, high = (0.0, 1.0) if binary else (-2.0, 2.0)
    return Experts(arms, 3, kinds, low, high, binary, np.random.default_rng(0))  # type: ignore[arg-type]


def learn(own: Experts, x: np.ndarray, arm: int, reward: float, network: float) -> None:
    if learn_mixture(x, own.features.at(x), arm, reward, network, own.arrays):
        for context, rewarded, target in own.restart_waves():
            learn_target(own.features.at(context), rewarded, target, own.arrays.fourier)


X = np.array([0.9, 0.2, 0.4], np.float32)


def test_a_reward_multiplies_shares_by_its_likelihood() -> None:
    own = experts()
    learn(own, X, 0, 1.0, network=0.9)
    # Untrained: the logistic regression predicts ½, the other one 0, which is clipped.
    likelihoods = np.array([0.9, 0.5, CLIP])
    expected = (1 - REDISTRIBUTED) * likelihoods / likelihoods.sum() + REDISTRIBUTED / 3
    np.testing.assert_allclose(list(own.shares.values()), expected)


def test_rare_rewards_redistribute_less() -> None:
    own = experts(("linear",))
    for step in range(2000):
        learn(own, X, 0, float(step % 100 == 0), network=0.5)
    # The regression knows the frequency, 1%. The networks do not: each 0 halves their share.
    redistributed = REDISTRIBUTED_PER_SUCCESS * 21 / 2001
    assert own.shares["networks"] == pytest.approx(redistributed, rel=0.1)


def test_bounded_rewards_have_a_normal_likelihood() -> None:
    own = experts(("linear",), binary=False)
    learn(own, X, 0, 2.0, network=1.0)
    # On the scale of [0, 1]: reward 1, predictions ¾ and 0, which is clipped.
    variance = (0.25 + (1 - (0.75 + CLIP) / 2) ** 2) / 2
    ratio = math.exp((0.25**2 - (1 - CLIP) ** 2) / (2 * variance))
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
def test_the_first_rewards_are_learned_again_with_waves(steps: int) -> None:
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


def test_an_interrupt_does_not_leave_the_first_rewards_half_learned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy, contexts = GLCB(arms=2, features=3), np.random.default_rng(1).random((CONTEXTS_TO_MEASURE, 3))
    for step, x in enumerate(contexts[:-1]):
        policy.learn(x, step % 2, step % 3 == 0)
    before = policy._experts.arrays.fourier.weights.copy()
    steps = iter(range(5))

    def learn_some(*arguments: object) -> None:
        if next(steps, None) is None:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(kernels, "learn_waves", learn_some)
        with pytest.raises(KeyboardInterrupt):
            policy.learn(contexts[-1], 0, 1)
    assert (policy._experts.arrays.fourier.weights.any(axis=1) == before.any(axis=1)).all()
    restored = GLCB.from_snapshot(policy.snapshot())
    np.testing.assert_array_equal(policy.decide(contexts[-1]).values, restored.decide(contexts[-1]).values)


def test_values_are_the_mean_of_the_experts_and_bonuses_shrink_with_evidence() -> None:
    own = experts(("linear",))
    values, deviations, bonuses = np.array([0.8, 0.8]), np.empty(2), np.empty(2)
    mix_values(own.features.at(X), values, deviations, bonuses, own.arrays)
    np.testing.assert_allclose(values, 0.65)  # the mean of 0.8 and ½
    np.testing.assert_allclose(deviations, math.sqrt(0.65 * 0.35))
    np.testing.assert_allclose(
        bonuses, 0.5 * 0.5 * 0.25 * math.sqrt((1 + 0.16 + 0.09 + 0.01) / LOGISTIC_RIDGE), rtol=1e-5
    )
    for _ in range(20):
        learn(own, X, 1, 1.0, network=0.5)
    values = np.array([0.8, 0.8])
    mix_values(own.features.at(X), values, deviations, bonuses, own.arrays)
    assert values[1] > values[0]
    assert bonuses[1] < bonuses[0]


@pytest.mark.parametrize(
    ("features", "present"), [(80, {"linear", "fourier"}), (81, {"linear"}), (513, set())]
)
def test_experts_that_would_be_too_slow_are_left_out(features: int, present: set[str]) -> None:
    policy = GLCB(2, features, layers=(2, 1))
    assert {name for name, share in policy._experts.shares.items() if share > 0} == {"networks", *present}
    policy.learn(np.ones(features), 0, 1)
    policy.decide(np.ones(features))


def test_the_memory_of_the_experts_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Experts(7, 20, ("linear", "fourier"), 0.0, 1.0, False, np.random.default_rng(0))
    parts = (own.arrays.linear, own.arrays.fourier)
    needed = sum(part.weights.nbytes + part.inverses.nbytes + part.rounded.nbytes for part in parts)
    for array in ("wave_directions", "wave_first", "expert_first_targets"):
        needed += own.snapshot()[array].nbytes
    assert needed == Experts.bytes_needed(7, 20, ("linear", "fourier"))
    monkeypatch.setattr("glcb._validation.MAX_BYTES", Experts.bytes_needed(1000, 60, ("fourier",)))
    with pytest.raises(InvalidSettings, match="GiB"):
        GLCB(1000, 60, layers=(1,), hyperplanes=1)
    GLCB(1000, 60, layers=(1,), hyperplanes=1, experts=())


def test_the_policy_of_the_paper_has_no_experts() -> None:
    policy = GLCBPaper(2, 3)
    assert policy._experts.shares == {"networks": 1.0, "linear": 0.0, "fourier": 0.0}
    assert not any(name.startswith(("expert", "linear", "fourier", "wave")) for name in policy._snapshot())


@pytest.mark.parametrize("value", ["linear", ("quadratic",), 3])
def test_unknown_experts_are_refused(value: object) -> None:
    with pytest.raises(InvalidSettings, match='experts must be a tuple of any of "linear" and "fourier"'):
        GLCB(2, 3, experts=value)  # type: ignore[arg-type]


@pytest.mark.parametrize("rewards", ["binary", (-1.0, 3.0)])
def test_a_restored_policy_continues_bit_for_bit(rewards: object, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    policy = GLCB(3, 4, rewards=rewards, seed=1, half_life=40)  # type: ignore[arg-type]
    for steps in (10, 25, 65):  # before and after the waves have a length
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
        ("expert_shares", [0.5, 0.5, 0.5]),
        ("expert_shares", [1.2, -0.1, -0.1]),
        ("expert_shares", [0.5, 0.5, 0.0]),
        ("expert_errors", [-1.0, 0.0, 0.0]),
        ("expert_first_targets", np.full((2, 32), 2.0)),
        ("wave_square", [-1.0]),
        ("linear_weights", np.full((2, 4), np.nan)),
    ],
)
def test_an_invalid_snapshot_is_refused(name: str, value: object) -> None:
    own = experts()
    with pytest.raises(ValueError, match=r"shares|negative|finite|within"):
        own.restore({**own.snapshot(), name: np.array(value)})


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
