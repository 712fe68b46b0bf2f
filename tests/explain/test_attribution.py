"""Contributions add up to the difference between value and base, for all settings."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glcb import GLCB
from glcb._types import Rewards
from glcb.experts.mixture import mix_values
from glcb.gln import Bank
from glcb.values import Bernoulli, Tree

changes = st.fixed_dictionaries(
    {
        "layers": st.sampled_from([(1,), (6,), (5, 3, 1), (4, 2, 3)]),
        "hyperplanes": st.sampled_from([1, 3, (1, 2, 4)]),
        "optimizer": st.sampled_from(["gradient", "newton"]),
        "initialization": st.sampled_from(["inputs", "frequency"]),
        "learning_rate": st.sampled_from([0.03, 1.0, 5.0]),
        "rate_factors": st.sampled_from([(1.0,), (0.1, 1.0, 3.0)]),
        "switching_rate": st.sampled_from([0.1, 10.0]),
        "tree_depth": st.integers(1, 4),
        "leaf_values": st.sampled_from(["midpoint", "mean"]),
        "experts": st.sampled_from([(), ("linear",), ("fourier",), ("linear", "fourier")]),
        "output": st.sampled_from(["switching", "last"]),
        "clip": st.sampled_from([0.001, 0.01, 0.2]),
        "input_clip": st.sampled_from([0.001, 0.03]),
        "bias": st.sampled_from([-1.0, 0.0, 2.0]),
    }
)
kinds = st.sampled_from(["binary", (0.0, 1.0), (-35.0, 5.0)])


def learned(rewards: Rewards, seed: int, steps: int, settings: dict[str, Any]) -> GLCB:
    """Return a policy trained on rewards that depend on the context. Contexts include corners of the cube."""
    bandit, rng = GLCB(3, 4, rewards=rewards, seed=seed, **settings), np.random.default_rng(seed)
    low, high = (0.0, 1.0) if rewards == "binary" else rewards
    for _ in range(steps):
        x = context(rng)
        part = rng.random() * x[0]
        reward = float(part > 0.3) if rewards == "binary" else low + part * (high - low)
        bandit.learn(x, int(rng.integers(2)), reward)  # the third arm stays untrained
    return bandit


def context(rng: np.random.Generator) -> np.ndarray:
    return np.clip(rng.random(4) * 1.4 - 0.2, 0, 1)


@settings(max_examples=60)
@given(kinds, st.integers(10_000, 10**6), st.integers(0, 120), changes)
def test_contributions_add_up_to_value_minus_base(
    rewards: Rewards, seed: int, steps: int, changed: dict[str, Any]
) -> None:
    bandit = learned(rewards, seed, steps, changed)
    span = 1.0 if rewards == "binary" else rewards[1] - rewards[0]
    rng = np.random.default_rng(seed + 1)
    for baseline in (np.full(4, 0.5), context(rng)):
        x = context(rng)
        explanation = bandit.explain(x, baseline=baseline)
        assert explanation.contributions.shape == (3, 4)
        np.testing.assert_array_equal(explanation.values, bandit.decide(x).values)
        # The base computed by the kernels, for the baseline with the signature of x.
        inputs = np.asarray(baseline, np.float32)
        signature = bandit._gates.signature(np.asarray(x, np.float32))
        probabilities = bandit._bank.predict(inputs, signature).reshape(3, -1)
        bases = bandit._values.expected(probabilities).values
        experts = bandit._experts
        if experts.inputs:
            mix_values(inputs, experts.features.at(inputs), bases, np.empty(3), np.empty(3), experts.arrays)
        np.testing.assert_allclose(explanation.bases, bases, rtol=0, atol=1e-5 * span)
        sums = explanation.contributions.sum(axis=1)
        np.testing.assert_allclose(sums, explanation.values - bases, rtol=0, atol=1e-5 * span)


@given(st.integers(10_000, 10**6))
@settings(max_examples=10)
def test_a_feature_that_equals_the_baseline_contributes_nothing(seed: int) -> None:
    bandit, rng = learned((0.0, 1.0), seed, 60, {}), np.random.default_rng(seed)
    x = context(rng)
    x[2] = 0.5
    assert (bandit.explain(x).contributions[:, 2] == 0).all()
    assert (bandit.explain(x, baseline=x).contributions == 0).all()
    np.testing.assert_allclose(bandit.explain(x, baseline=x).bases, bandit.decide(x).values, atol=1e-5)


def test_one_unit_by_hand() -> None:
    # The untrained unit outputs the mean of its inputs: the bias 1 and the logits 2 and −1.
    bank = Bank(2, 1, (1,), 2)
    x = (1 / (1 + np.exp([-2.0, 1.0]))).astype(np.float32)
    explanation = bank.attribution(x, np.full(2, 0.5, np.float32), np.zeros(1, np.int64))
    here, base = 1 / (1 + math.exp(-2 / 3)), 1 / (1 + math.exp(-1 / 3))
    assert explanation.probabilities[:, 0] == pytest.approx([here, base], abs=1e-6)
    # Logits of +2/3 and −1/3 share the difference in proportion.
    assert explanation.contributions[0] == pytest.approx([2 * (here - base), base - here], abs=1e-6)


def test_a_clipped_logit_is_attributed_in_proportion() -> None:
    # The bound is logit 0.8 = 1.386; the mean of 1, 4 and 1 is 2, that of the bias alone is 1/3.
    bank = Bank(2, 1, (1,), 2, clip=0.2)
    x = (1 / (1 + np.exp([-4.0, -1.0]))).astype(np.float32)
    explanation = bank.attribution(x, np.full(2, 0.5, np.float32), np.zeros(1, np.int64))
    gain = 0.8 - 1 / (1 + math.exp(-1 / 3))
    assert explanation.contributions[0] == pytest.approx([0.8 * gain, 0.2 * gain], abs=1e-6)


def test_two_layers_by_hand() -> None:
    # The lower unit outputs (1 + z) / 2, the upper unit the mean of 1 and that; each has half the mixture.
    bank = Bank(1, 1, (1, 1), 2)
    x = np.array([1 / (1 + math.exp(-1.5))], np.float32)
    explanation = bank.attribution(x, np.full(1, 0.5, np.float32), np.zeros(2, np.int64))
    lower, upper = (1 / (1 + np.exp(-np.array(logits))) for logits in ([1.25, 0.5], [1.125, 0.75]))
    assert explanation.probabilities[:, 0] == pytest.approx((lower + upper) / 2, abs=1e-6)
    assert explanation.contributions[0, 0] == pytest.approx(
        (lower + upper)[0] / 2 - (lower + upper)[1] / 2, abs=1e-6
    )


def test_a_tree_of_two_levels_by_hand() -> None:
    tree = Tree(0.0, 4.0, 2, arms=1)  # the values of the bins are 0.5, 1.5, 2.5, 3.5
    here, there = np.array([[0.8, 0.5, 0.5]]), np.array([[0.4, 0.5, 0.1]])
    # The halves have the values 1 and 3, and 1 and 2.6 for the baseline: the root's mean gap is 1.8, mean p
    # 0.6.
    assert tree.slopes(here, there)[0] == pytest.approx([1.8, 0.4, 0.6])


@given(st.integers(1, 5), st.integers(1, 4), st.integers(0, 10**6))
def test_slopes_times_differences_add_up_to_the_change_of_value(depth: int, arms: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    tree = Tree(-3.0, 7.0, depth, arms, "mean")
    for _ in range(10):
        tree.learn(int(rng.integers(arms)), rng.uniform(-3, 7))
    for model in (tree, Bernoulli(arms)):
        here, there = rng.random((2, arms, model.networks_per_arm)).astype(np.float32)
        slopes = model.slopes(here.astype(np.float64), there.astype(np.float64))
        change = model.expected(here).values - model.expected(there).values
        np.testing.assert_allclose((slopes * (here - there)).sum(axis=1), change, atol=1e-5)
