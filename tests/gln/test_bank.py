"""Networks small enough to compute by hand."""

import math

import numpy as np
import pytest

from glcb.gln import Bank


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def context(*logits: float) -> np.ndarray:
    return np.array([sigmoid(logit) for logit in logits], np.float32)


def learn(
    bank: Bank, x: np.ndarray, signature: list[int], target: int, rate: float, switching: float
) -> None:
    network, targets = np.zeros(1, np.int64), np.array([target], np.float32)
    bank.learn(x, np.array(signature), network, targets, rate, switching)


def predict(bank: Bank, x: np.ndarray, signature: list[int]) -> float:
    return float(bank.predict(x, np.array(signature))[0])


def test_one_unit_with_one_gate_over_two_updates() -> None:
    bank = Bank(features=1, networks=1, layers=(1,), signatures=2)

    # Weights start at 1/2, inputs are [1, logit 2]: the prediction is σ(½·1 + ½·2) = σ(1.5).
    assert predict(bank, context(2), [0]) == pytest.approx(sigmoid(1.5), abs=1e-6)
    learn(bank, context(2), [0], 1, 0.1, 1.0)
    step = 0.1 * (1 - sigmoid(1.5))
    assert bank.weights(0, 0)[0] == pytest.approx([0.5 + step, 0.5 + 2 * step], abs=1e-6)

    # The other side of the gate has learned nothing.
    assert predict(bank, context(2), [1]) == pytest.approx(sigmoid(1.5), abs=1e-6)

    # Second update: target 0, input logit −1, half the rate.
    before = np.array([0.5 + step, 0.5 + 2 * step])
    p = sigmoid(before[0] - before[1])
    assert predict(bank, context(-1), [0]) == pytest.approx(p, abs=1e-6)
    learn(bank, context(-1), [0], 0, 0.05, 1.0)
    assert bank.weights(0, 0)[0] == pytest.approx(before - 0.05 * p * np.array([1, -1]), abs=1e-6)


def test_layers_learn_from_outputs_before_the_update() -> None:
    bank = Bank(features=1, networks=1, layers=(1, 1), signatures=2)
    learn(bank, context(1), [0, 0], 1, 1.0, 1.0)
    first = 1.0  # ½·1 + ½·1
    second = 0.5 * 1 + 0.5 * first
    step = 1 - sigmoid(first)
    assert bank.weights(0, 0)[0] == pytest.approx([0.5 + step, 0.5 + step], abs=1e-6)
    step = 1 - sigmoid(second)
    assert bank.weights(1, 0)[0] == pytest.approx([0.5 + step, 0.5 + first * step], abs=1e-6)


def test_a_clipped_prediction_still_learns() -> None:
    bank = Bank(features=1, networks=1, layers=(1,), signatures=1, bias=50.0)
    assert predict(bank, context(0), [0]) == pytest.approx(0.99, abs=1e-6)  # ½·50 is far beyond the clip
    learn(bank, context(0), [0], 0, 0.1, 1.0)
    assert bank.weights(0, 0)[0, 0] == pytest.approx(0.5 - 0.1 * 0.99 * 50, abs=1e-4)


def test_the_mixture_follows_the_better_unit_and_redistributes_a_share() -> None:
    bank = Bank(features=1, networks=1, layers=(1, 1), signatures=1, bias=2.0)
    p1 = sigmoid(0.5 * 2 + 0.5 * 0)
    p2 = sigmoid(0.5 * 2 + 0.5 * 1)
    assert predict(bank, context(0), [0, 0]) == pytest.approx((p1 + p2) / 2, abs=1e-6)
    learn(bank, context(0), [0, 0], 1, 0.0, 0.1)
    assert bank.mixture[0] == pytest.approx(
        [0.9 * p1 / (p1 + p2) + 0.05, 0.9 * p2 / (p1 + p2) + 0.05], abs=1e-6
    )
    learn(bank, context(0), [0, 0], 0, 0.0, 1.0)  # a rate of 1 resets the mixture
    assert bank.mixture[0] == pytest.approx([0.5, 0.5], abs=1e-6)


def test_the_output_can_be_the_last_unit_alone() -> None:
    bank = Bank(features=1, networks=1, layers=(1, 1), signatures=1, bias=2.0, output="last")
    learn(bank, context(0), [0, 0], 1, 0.0, 0.1)
    assert predict(bank, context(0), [0, 0]) == pytest.approx(sigmoid(0.5 * 2 + 0.5 * 1), abs=1e-6)


def test_weights_stay_in_their_box() -> None:
    bank = Bank(features=1, networks=1, layers=(1,), signatures=1, weight_bound=1.0)
    for _ in range(100):
        learn(bank, context(4), [0], 1, 100.0, 1.0)
    assert bank.weights(0, 0)[0] == pytest.approx([1.0, 1.0])


def test_only_visited_cells_use_memory_and_networks_are_independent() -> None:
    bank = Bank(features=3, networks=4, layers=(5, 2), signatures=8)
    x = context(0.1, 0.2, 0.3)
    assert bank.cells == 0
    before = bank.predict(x, np.zeros(7, np.int64))
    bank.learn(x, np.zeros(7, np.int64), np.array([2]), np.ones(1, np.float32), 0.5, 0.5)
    assert bank.cells == 7
    after = bank.predict(x, np.zeros(7, np.int64))
    assert after[2] > before[2]
    np.testing.assert_allclose(np.delete(after, 2), np.delete(before, 2), atol=1e-6)


def test_the_pool_grows_until_every_cell_is_allocated() -> None:
    bank = Bank(features=2, networks=2, layers=(3, 1), signatures=4)
    rng = np.random.default_rng(0)
    for _ in range(200):
        x, signature = rng.random(2).astype(np.float32), rng.integers(0, 4, 4)
        bank.learn(x, signature, np.array([1]), np.ones(1, np.float32), 0.1, 0.1)
    assert bank.cells == 4 * 4
    assert bank.arrays.weights.size == bank.arrays.used[0] == 2 * 4 * (3 + 1) * 8
