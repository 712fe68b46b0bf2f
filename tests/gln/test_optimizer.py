"""The optimizers: results computed by hand, and edge cases."""

from collections.abc import Callable

import numpy as np
import pytest

from glcb import GLCB
from glcb.gln import Bank, GradientDescent, Newton

LAYERS = (4, 2)


def newton(features: int, ridges: tuple[float, ...] = (0.1, 10.0), damping: float = 0.05) -> Newton:
    return Newton(features, LAYERS, (0.1, 1.0), ridges, damping, group_size=1)


def inputs(rng: np.random.Generator, features: int) -> np.ndarray:
    """Inputs as the bank creates them: a bias, logits, and zeros as padding."""
    padded = np.zeros(-(-(features + 1) // 8) * 8, np.float32)
    padded[0] = 2.0
    padded[1 : features + 1] = rng.normal(0, 2, features)
    return padded


def test_gradient_descent_moves_along_the_inputs_and_rotates_rates() -> None:
    z = inputs(np.random.default_rng(0), 3)
    move = GradientDescent(LAYERS, (1.0, 0.5)).move(z, 0.2)
    np.testing.assert_array_equal(move.directions, z[None])
    assert move.direction_of.tolist() == [0] * 6
    assert move.rates == pytest.approx([0.2, 0.1, 0.2, 0.1, 0.2, 0.1])


def test_one_newton_update_by_hand() -> None:
    """z = [2, 1], λ = 1 · 2: P = (2 I + z zᵀ)⁻¹ has P z = z / (2 + 5), and q is that at t = 1."""
    optimizer = newton(1, ridges=(1.0,), damping=0.5)
    move = optimizer.move(np.array([2, 1, 0, 0, 0, 0, 0, 0], np.float32), 1.0)
    assert move.directions[0, :2] == pytest.approx(np.array([2, 1]) / 7)
    length = 5 / 7
    expected = [0.1 / (1 + 0.5 * 0.1 * length), 1 / (1 + 0.5 * length)] * 2 + [0.03, 0.03]
    assert move.rates == pytest.approx(expected)


def test_units_rotate_through_all_combinations_of_rate_and_ridge() -> None:
    optimizer = Newton(2, (12, 1), (0.1, 1.0), (0.1, 10.0), 0.0, group_size=3)
    move = optimizer.move(inputs(np.random.default_rng(0), 2), 1.0)
    assert move.rates == pytest.approx(([0.1] * 3 + [1.0] * 3) * 2 + [0.03])
    assert move.direction_of.tolist() == [0] * 6 + [1] * 6


@pytest.mark.parametrize("steps", [1, 100, 20_000])
def test_the_running_inverse_equals_the_exact_inverse(steps: int) -> None:
    rng = np.random.default_rng(1)
    optimizer, features = newton(6), 6
    moments = [ridge * 7 * np.eye(7) for ridge in (0.1, 10.0)]
    for _ in range(steps):
        z = inputs(rng, features)
        move = optimizer.move(z, 1.0)
        for moment in moments:
            moment += np.outer(z[:7], z[:7].astype(float))
    for kind, moment in enumerate(moments):
        np.testing.assert_allclose(optimizer.inverses[kind], np.linalg.inv(moment), rtol=1e-7, atol=1e-12)
        np.testing.assert_array_equal(optimizer.inverses[kind], optimizer.inverses[kind].T)
        q = steps * np.linalg.solve(moment, z[:7].astype(float))
        np.testing.assert_allclose(move.directions[kind, :7], q, rtol=1e-4, atol=1e-5)


def test_forgetting_halves_the_accumulated_inputs() -> None:
    rng = np.random.default_rng(2)
    optimizer, history = newton(6), [inputs(rng, 6) for _ in range(300)]
    for z in history:
        optimizer.move(z, 1.0)
    optimizer.forget()
    half = sum(np.outer(z[:7], z[:7].astype(float)) for z in history) / 2
    for inverse, ridge in zip(optimizer.inverses, (0.1, 10.0), strict=True):
        np.testing.assert_allclose(inverse, np.linalg.inv(ridge * 7 * np.eye(7) + half), rtol=1e-8)
    z = inputs(rng, 6)
    q = 151 * np.linalg.solve(0.1 * 7 * np.eye(7) + half + np.outer(z[:7], z[:7].astype(float)), z[:7])
    np.testing.assert_allclose(optimizer.move(z, 1.0).directions[0, :7], q, rtol=1e-4, atol=1e-5)


def test_forgetting_halves_upper_gradients_and_targets() -> None:
    layers = (2, 1)
    bank = Bank(
        1, 2, layers, 1, optimizer=Newton(1, layers, (0.1,), (1.0,), 0.05, 1), initialization="frequency"
    )
    x, signature = np.array([0.3], np.float32), np.zeros(3, np.int64)
    for target in (1, 1, 0, 1, 1):
        bank.learn(x, signature, np.zeros(1, np.int64), np.array([target], np.float32), 1.0, 0.1)
    before = {name: array.copy() for name, array in bank.snapshot().items()}
    weights = [bank.weights(unit, 0) for unit in range(3)]
    bank.forget()
    after = bank.snapshot()
    assert before["tally"].tolist() == [[4, 5], [0, 0]]
    assert after["tally"].tolist() == [[2, 2], [0, 0]]
    np.testing.assert_array_equal(after["mixture"], before["mixture"])
    for unit, own in enumerate(weights):
        np.testing.assert_array_equal(bank.weights(unit, 0), own)
    changed = np.flatnonzero(after["weights"] != before["weights"])
    np.testing.assert_array_equal(after["weights"][changed], before["weights"][changed] / 2)
    assert changed.size == 3, "the squares of the three weights of the upper unit, of one network"
    twin = Bank(
        1, 2, layers, 1, optimizer=Newton(1, layers, (0.1,), (1.0,), 0.05, 1), initialization="frequency"
    )
    twin.restore(after)
    np.testing.assert_array_equal(twin.predict(x, signature), bank.predict(x, signature))


def test_constant_inputs_keep_the_inverse_positive_definite() -> None:
    optimizer, z = newton(3), inputs(np.random.default_rng(0), 3)
    for _ in range(50_000):
        move = optimizer.move(z, 1.0)
    assert np.isfinite(optimizer.inverses).all()
    assert np.linalg.eigvalsh(optimizer.inverses).min() > 0
    # All inputs have one direction, in which the second moment is t·z zᵀ: z·q = 1.
    assert (move.directions[:, :4] @ z[:4]) == pytest.approx([1.0, 1.0], rel=1e-3)


@pytest.mark.parametrize("damping", [0.05, 0.25])
def test_a_late_category_moves_no_logit_beyond_the_bound(damping: float) -> None:
    optimizer = newton(2, damping=damping)
    usual = np.array([2, 1, -4.6, 0, 0, 0, 0, 0], np.float32)
    for sign in np.random.default_rng(0).choice([-1, 1], 100_000):
        usual[1] = sign
        optimizer.move(usual, 1.0)
    late = usual.copy()
    late[2] = 4.6
    move = optimizer.move(late, 1.0)
    lengths = move.directions @ late
    assert lengths.max() > 1000, "an undamped update would push the weights to the edge of their box"
    assert (move.rates[:4] * lengths[move.direction_of]).max() < 1 / damping


def test_above_the_first_layer_a_rate_decreases_with_the_gradients_of_its_weight() -> None:
    layers = (1, 1)
    bank = Bank(1, 1, layers, 1, optimizer=Newton(1, layers, (0.0,), (1.0,), 0.0, 1), bias=2.0)
    x, signature, one = np.array([0.5], np.float32), np.zeros(2, np.int64), np.zeros(1, np.int64)
    weights, squares = np.full(2, 0.5), np.full(2, 0.01)
    z = np.array([2.0, 0.5 * 2.0])  # the first layer has the rate 0, so its output stays ½·2 + ½·0
    for target in (1, 1, 0):
        p = 1 / (1 + np.exp(-weights @ z))
        squares += ((p - target) * z) ** 2
        weights -= 0.03 * (p - target) * z / np.sqrt(squares)
        bank.learn(x, signature, one, np.array([target], np.float32), 1.0, 0.1)
        assert bank.weights(1, 0)[0] == pytest.approx(weights, abs=1e-6)
    assert bank.weights(0, 0)[0] == pytest.approx([0.5, 0.5])


def test_a_policy_recovers_from_a_late_category() -> None:
    bandit = GLCB(2, 2, seed=0)
    rng = np.random.default_rng(0)
    for _ in range(3000):
        x, arm = [rng.random(), 0.0], int(rng.integers(2))
        bandit.learn(x, arm, float(arm))
    late = [0.5, 1.0]
    for _ in range(30):
        bandit.learn(late, 0, 1)
        bandit.learn(late, 1, 0)
    assert bandit.decide(late).values[0] > 0.9
    values = bandit.decide([0.5, 0.0]).values
    assert values[0] < 0.1
    assert values[1] > 0.9


def test_one_feature_and_a_thousand_arms_stay_finite() -> None:
    bandit = GLCB(1000, 1, seed=0)
    rng = np.random.default_rng(0)
    for _ in range(200):
        x = rng.random(1)
        decision = bandit.decide(x)
        assert np.isfinite(decision.values).all()
        bandit.learn(x, decision.arm, 1)
    tried = sum(count > 0 for count in bandit.reward_counts.values())
    assert tried > 190, "untried arms come first"


def test_reordered_networks_predict_as_before() -> None:
    rng = np.random.default_rng(0)
    layers = (5, 2)
    bank = Bank(
        3, 4, layers, 4, optimizer=Newton(3, layers, (0.1, 1.0), (1.0,), 0.05, 1), initialization="frequency"
    )
    for _ in range(200):
        x, signature = rng.random(3).astype(np.float32), rng.integers(0, 4, 7)
        bank.learn(x, signature, rng.integers(0, 4, 1), rng.integers(0, 2, 1).astype(np.float32), 1.0, 0.1)
    before, mixture = bank.predict(x, signature), bank.mixture.copy()
    bank.reorder(np.array([2, -1, 0, 2]))
    after = bank.predict(x, signature)
    np.testing.assert_array_equal(after[[0, 2, 3]], before[[2, 0, 2]])
    np.testing.assert_array_equal(bank.mixture[[0, 2]], mixture[[2, 0]])
    assert bank.mixture[1] == pytest.approx([1 / 7] * 7)
    assert after[1] == pytest.approx(0.5, abs=0.1), "a new network is untrained"
    bank.learn(x, signature, np.array([3]), np.ones(1, np.float32), 1.0, 0.1)
    assert bank.predict(x, signature)[3] > after[3]
    np.testing.assert_array_equal(bank.predict(x, signature)[:3], after[:3])


def indefinite(inverses: np.ndarray) -> None:
    inverses[0, 0, 1] = inverses[0, 1, 0] = 100.0


def asymmetric(inverses: np.ndarray) -> None:
    inverses[0, 0, 1] += 1e-3


def negative(inverses: np.ndarray) -> None:
    inverses[1] *= -1


@pytest.mark.parametrize("corrupt", [indefinite, asymmetric, negative])
def test_an_invalid_inverse_is_refused(corrupt: Callable[[np.ndarray], None]) -> None:
    snapshot = {name: array.copy() for name, array in newton(2).snapshot().items()}
    newton(2).restore(snapshot)
    corrupt(snapshot["inverses"])
    with pytest.raises(ValueError, match=r"symmetric|positive definite"):
        newton(2).restore(snapshot)


def test_invalid_weights_are_refused() -> None:
    def bank() -> Bank:
        return Bank(1, 1, (1, 1), 1, optimizer=Newton(1, (1, 1), (1.0,), (1.0,), 0.05, 1), weight_bound=5.0)

    learned = bank()
    one = np.zeros(1, np.int64)
    learned.learn(np.ones(1, np.float32), np.zeros(2, np.int64), one, np.ones(1, np.float32), 1.0, 0.1)
    snapshot = {name: array.copy() for name, array in learned.snapshot().items()}
    bank().restore(snapshot)
    for index, value in ((0, 6.0), (-1, -1.0)):  # a weight of the first unit, a sum of squares of the second
        corrupted = {**snapshot, "weights": snapshot["weights"].copy()}
        corrupted["weights"][index] = value
        with pytest.raises(ValueError, match="out of bounds"):
            bank().restore(corrupted)
