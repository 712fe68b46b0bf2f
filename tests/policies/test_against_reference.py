"""The kernels and a direct transcription of the algorithm agree on random histories."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from glcb import GLCB
from tests.support.reference import ReferenceGLCB

TOLERANCE = 2e-3  # float32 against float64, over a few dozen large steps


@st.composite
def histories(draw: st.DrawFn) -> tuple[GLCB, ReferenceGLCB, int, int]:
    arms = draw(st.integers(1, 4))
    features = draw(st.integers(1, 12))
    bounds = draw(st.sampled_from([None, (0.0, 1.0), (-35.0, 5.0)]))
    policy = GLCB(
        arms,
        features,
        rewards="binary" if bounds is None else bounds,
        seed=draw(st.integers(0, 10**6)),
        layers=tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))),
        hyperplanes=draw(st.integers(1, 4) | st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)),
        bias_scale=draw(st.sampled_from([0.05, 0.3])),
        optimizer=draw(st.sampled_from(["gradient", "newton"])),
        rate_factors=draw(st.sampled_from([(1.0,), (0.1, 1.0, 0.3)])),
        ridges=draw(st.sampled_from([(1.0,), (0.1, 10.0)])),
        damping=draw(st.sampled_from([0.0, 0.25])),
        initialization=draw(st.sampled_from(["inputs", "frequency"])),
        bonus_scale=0.3,
        bonus_unit=draw(st.sampled_from(["reward", "deviation"])),
        leaf_values=draw(st.sampled_from(["midpoint", "mean"])),
        tree_depth=draw(st.integers(1, 3)),
        learning_rate=draw(st.sampled_from([0.01, 0.1, 1.0])),
        switching_rate=draw(st.sampled_from([0.0, 0.05, 1.0, 10.0])),
        input_clip=draw(st.sampled_from([0.01, 0.05])),
        bias=draw(st.sampled_from([1.0, 2.0])),
        weight_bound=draw(st.sampled_from([1.0, 200.0])),
        experts=(),
        output=draw(st.sampled_from(["switching", "last"])),
        half_life=draw(st.sampled_from([None, 2, 5, 17])),
    )
    reference = ReferenceGLCB(arms, features, policy.settings, bounds)
    return policy, reference, draw(st.integers(0, 10**6)), draw(st.integers(1, 40))


@settings(max_examples=60)
@given(histories())
def test_the_kernels_agree_with_the_transcription(history: tuple[GLCB, ReferenceGLCB, int, int]) -> None:
    policy, reference, seed, steps = history
    rng = np.random.default_rng(seed)
    low, high = reference.bounds or (0.0, 1.0)
    for _ in range(steps):
        x = rng.random(policy.features).round(2).astype(np.float32)
        signature = policy._gates.signature(x)
        decision = policy.decide(x)

        values = reference.values(x.astype(float), signature)
        np.testing.assert_allclose(decision.values, values, atol=TOLERANCE * (high - low))
        counts = [reference.pseudocount(signature, arm) for arm in range(reference.arms)]
        np.testing.assert_allclose(decision.pseudocounts, counts, rtol=1e-9)
        bonuses = np.array([reference.bonus(x.astype(float), signature, a) for a in range(reference.arms)])
        exact = policy.settings.bonus_unit == "reward"
        np.testing.assert_allclose(decision.bonuses, bonuses, rtol=1e-9 if exact else 2 * TOLERANCE)
        scores = values + bonuses
        assert scores[policy.arms.index(decision.arm)] >= scores.max() - TOLERANCE * (high - low)
        distribution = policy.distribution(x)
        for arm in range(reference.arms):
            np.testing.assert_allclose(distribution.outcomes[arm], reference.outcomes(arm))
            expected = reference.distribution(x.astype(float), signature, arm)
            np.testing.assert_allclose(distribution.probabilities[arm], expected, rtol=0.0, atol=TOLERANCE)

        arm = int(rng.integers(reference.arms))
        reward = float(rng.integers(2)) if reference.bounds is None else rng.uniform(low, high)
        policy.learn(x, arm, reward)
        reference.learn(x.astype(float), signature, arm, reward)
    assert_same_state(policy, reference)


def assert_same_state(policy: GLCB, reference: ReferenceGLCB) -> None:
    for arm, networks in enumerate(reference.networks):
        for node, network in enumerate(networks.values()):
            number = arm * len(networks) + node
            if policy.settings.output == "switching":
                np.testing.assert_allclose(policy._bank.mixture[number], network.mixture, atol=TOLERANCE)
            for (unit, signature), weights in network.weights.items():
                own = policy._bank.weights(unit, signature)[number]
                np.testing.assert_allclose(own, weights, rtol=TOLERANCE, atol=TOLERANCE)
    for (unit, signature, arm), count in reference.counts.items():
        assert policy._counts.of(unit, signature)[arm] == count


@given(st.integers(0, 10**6), st.integers(1, 30), st.lists(st.integers(1, 16), min_size=3, max_size=3))
def test_a_signature_holds_the_side_of_each_hyperplane(
    seed: int, features: int, hyperplanes: list[int]
) -> None:
    policy = GLCB(1, features, seed=seed, layers=(3,), hyperplanes=tuple(hyperplanes))
    x = np.random.default_rng(seed).random(features).astype(np.float32)
    margin = policy._gates.normals.astype(float) @ x.astype(float) - policy._gates.thresholds
    signature = policy._gates.signature(x)
    assert all(0 <= own < 1 << planes for own, planes in zip(signature, hyperplanes, strict=True))
    bits = np.concatenate(
        [(own >> np.arange(planes)) & 1 for own, planes in zip(signature, hyperplanes, strict=True)]
    )
    clear = np.abs(margin) > 1e-5
    np.testing.assert_array_equal(bits[clear], margin[clear] > 0)


def test_hyperplanes_have_unit_normals_and_pass_near_the_center() -> None:
    gates = GLCB(1, 50, seed=3, bias_scale=0.05)._gates
    np.testing.assert_allclose(np.linalg.norm(gates.normals, axis=-1), 1, rtol=1e-5)
    offsets = gates.thresholds - gates.normals.sum(axis=-1) / 2
    assert abs(offsets.mean()) < 0.01
    assert 0.04 < offsets.std() < 0.06
