"""The policies of other libraries decide and learn as these libraries do on their own."""

import gc
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from glcb import LinUCB, make_policy
from glcb._arrays import Float32, Float64
from glcb.policies.external.mabwiser_linucb import MABWiserLinUCB
from glcb.policies.external.river_linucb import RiverLinUCB
from glcb.policies.external.vowpal_wabbit import VowpalWabbitPolicy
from glcb.policies.linear.base import with_intercept

pytestmark = pytest.mark.rivals

VOWPAL_WABBIT = ["vw-cover", "vw-epsilon-greedy", "vw-regcb", "vw-squarecb", "vw-squarecb-quadratic"]
FEATURES, ARMS, STEPS = 5, 3, 300


def context(rng: np.random.Generator) -> Float32:
    """Draw a context in which some features are 0."""
    x = rng.random(FEATURES).astype(np.float32)
    x[rng.random(FEATURES) < 0.3] = 0
    return x


def reward_of(arm: int, x: Float32) -> float:
    """Return a reward within [0, 1] that is linear in the context, with a different best arm per context."""
    return float(x[arm] + x[arm + 1]) / 2


def vw(*arguments: str) -> None:
    """Run the command line of Vowpal Wabbit."""
    subprocess.run([sys.executable, "-m", "vowpalwabbit", "--quiet", *arguments], check=True)


@pytest.mark.parametrize("name", VOWPAL_WABBIT)
def test_the_command_line_of_vowpal_wabbit_learns_the_same_model(name: str, tmp_path: Path) -> None:
    policy, rng = make_policy(name, ARMS, FEATURES, rewards=(0.0, 1.0)), np.random.default_rng(0)
    assert isinstance(policy, VowpalWabbitPolicy)
    log: list[str] = []
    for _ in range(1000):
        x, arm = context(rng), int(rng.integers(ARMS))
        observation = (x, arm, 1 - reward_of(arm, x), 1 / ARMS)
        log.extend([*policy._model.lines(*observation), ""])
        policy._model.learn(*observation)
    tests = [context(rng) for _ in range(50)]
    unlabeled = [
        line.removeprefix("0:0.5:0.5 ") for x in tests for line in [*policy._model.lines(x, 0, 0.5, 0.5), ""]
    ]
    (tmp_path / "log").write_text("\n".join(log) + "\n")
    (tmp_path / "tests").write_text("\n".join(unlabeled) + "\n")
    model, output = str(tmp_path / "model"), tmp_path / "output"
    vw(*policy._model.arguments, "--data", str(tmp_path / "log"), "--final_regressor", model)
    vw("--initial_regressor", model, "--data", str(tmp_path / "tests"), "--predictions", str(output))
    predicted = [dict(pair.split(":") for pair in line.split(",")) for line in output.read_text().split()]
    theirs = np.array([[float(each[str(arm)]) for arm in range(ARMS)] for each in predicted])
    ours = np.array([policy._model.predict(x)[0] for x in tests])
    np.testing.assert_allclose(ours, theirs, atol=1e-4)  # floats are rounded when they are written and parsed
    assert np.ptp(ours, axis=0).min() > 0.01


@pytest.mark.parametrize("name", VOWPAL_WABBIT)
def test_arms_are_drawn_with_the_probabilities_of_vowpal_wabbit(name: str) -> None:
    policy, rng = make_policy(name, ARMS, FEATURES, rewards=(0.0, 1.0)), np.random.default_rng(0)
    assert isinstance(policy, VowpalWabbitPolicy)
    for _ in range(60):
        x = context(rng)
        arm = int(policy.decide(x).arm)
        policy.learn(x, arm, reward_of(arm, x))
    x = context(rng)
    probabilities, _ = policy._model.predict(x)
    for eligible in ([0, 1, 2], [1, 2]):
        expected = probabilities[eligible] / probabilities[eligible].sum()
        chosen = [policy.decide(x, eligible=eligible).arm for _ in range(3000)]
        shares = [chosen.count(arm) / len(chosen) for arm in eligible]
        np.testing.assert_allclose(shares, expected, atol=0.04)


@pytest.mark.parametrize("name", sorted(set(VOWPAL_WABBIT) - {"vw-cover"}))
def test_the_values_of_vowpal_wabbit_approach_the_rewards(name: str) -> None:
    policy, rng = make_policy(name, ARMS, FEATURES, rewards=(-1.0, 3.0)), np.random.default_rng(0)
    for step in range(3000):
        x = context(rng)
        policy.learn(x, step % ARMS, 4 * reward_of(step % ARMS, x) - 1)
    tests = [context(rng) for _ in range(50)]
    values = np.array([policy.estimate(x).values for x in tests])
    rewards = np.array([[4 * reward_of(arm, x) - 1 for arm in range(ARMS)] for x in tests])
    assert np.abs(values - rewards).mean() < 0.4


@pytest.mark.parametrize("name", VOWPAL_WABBIT)
def test_an_arm_that_is_never_drawn_can_be_learned(name: str) -> None:
    policy = make_policy(name, ARMS, FEATURES)
    x = np.ones(FEATURES)
    for _ in range(200):
        policy.learn(x, 0, 1)
        policy.learn(x, 1, 0)
    assert np.isfinite(policy.estimate(x).bonuses).all()


def test_a_damaged_model_of_vowpal_wabbit_is_refused() -> None:
    policy = make_policy("vw-squarecb", ARMS, FEATURES)
    snapshot = policy.snapshot()
    snapshot.arrays["model"][:100] = 255
    with pytest.raises(ValueError, match="Vowpal Wabbit cannot read the model"):
        type(policy).from_snapshot(snapshot)


def test_the_memory_of_vowpal_wabbit_is_freed() -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    def create(times: int) -> None:
        for _ in range(times):
            make_policy("vw-squarecb", ARMS, FEATURES).decide(np.ones(FEATURES))
        gc.collect()

    create(20)
    before = resident()
    create(50)
    assert resident() - before < 50 * 2**20  # the weights of one model take 4 MB


def mabwiser() -> Any:
    from mabwiser.mab import MAB, LearningPolicy

    bandit = MAB(list(range(ARMS)), LearningPolicy.LinUCB(alpha=0.5))
    bandit.fit(np.arange(ARMS), np.zeros(ARMS), np.zeros((ARMS, FEATURES + 1)))
    return bandit


def test_mabwiser_makes_the_same_choices_on_its_own() -> None:
    policy, alone, rng = MABWiserLinUCB(ARMS, FEATURES, alpha=0.5), mabwiser(), np.random.default_rng(0)
    for step in range(STEPS):
        x = context(rng)
        z = with_intercept(x)[None]
        decision = policy.decide(x)
        np.testing.assert_allclose(decision.scores, list(alone.predict_expectations(z).values()), rtol=1e-9)
        if step >= ARMS:  # before, arms can tie
            assert decision.arm == alone.predict(z)
        arm, reward = int(decision.arm), int(rng.random() < reward_of(int(decision.arm), x))
        policy.learn(x, arm, reward)
        alone.partial_fit([arm], [reward], z)


def river() -> Any:
    from river.bandit import LinUCBDisjoint

    return LinUCBDisjoint(seed=0)


def test_river_makes_the_same_choices_on_its_own() -> None:
    policy, alone, rng = RiverLinUCB(ARMS, FEATURES), river(), np.random.default_rng(0)
    for step in range(STEPS):
        x = context(rng)
        named = dict(enumerate(with_intercept(x).tolist()))
        decision = policy.decide(x)
        if step >= ARMS:
            assert decision.arm == alone.pull(list(range(ARMS)), context=named)
        arm, reward = int(decision.arm), int(rng.random() < reward_of(int(decision.arm), x))
        policy.learn(x, arm, reward)
        alone.update(arm, named, reward)


def test_mabwiser_river_and_our_linucb_compute_the_same() -> None:
    ours, rng = LinUCB(ARMS, FEATURES, rewards=(-1.0, 3.0), alpha=0.5), np.random.default_rng(0)
    theirs = MABWiserLinUCB(ARMS, FEATURES, rewards=(-1.0, 3.0), alpha=0.5)
    other = RiverLinUCB(ARMS, FEATURES, rewards=(-1.0, 3.0))
    for _ in range(STEPS):
        x, arm, reward = context(rng), int(rng.integers(ARMS)), float(rng.uniform(-1, 3))
        expected, mabwisers, rivers = (each.estimate(x) for each in (ours, theirs, other))
        for estimates in (mabwisers, rivers):
            np.testing.assert_allclose(estimates.values, expected.values, atol=1e-6)
            np.testing.assert_allclose(estimates.pseudocounts, expected.pseudocounts, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(mabwisers.bonuses, expected.bonuses, atol=1e-6)
        widths: Float64 = (expected.bonuses / (4 * 0.5)) ** 2
        np.testing.assert_allclose(rivers.bonuses, 4 * np.sqrt(1 + widths), atol=1e-6)  # with the noise
        for policy in (ours, theirs, other):
            policy.learn(x, arm, reward)
