"""Training of the neural policies: optimizer and schedule as in the library."""

from typing import Any

import numpy as np
import pytest

from glcb.policies.buffer import Batch, Buffer
from glcb.policies.neural import network
from glcb.policies.neural.training import (
    BATCH_SIZE,
    GRADIENT_STEPS,
    Network,
    adam,
    compile_training,
    learning_rate,
    rms_prop,
)

pytestmark = pytest.mark.baselines


def quadratic(weights: Any, batch: Batch, points: Any, noise: Any) -> Any:
    return network.mean_squared_error(network.values(weights, batch.contexts), batch)


def a_network(rows: int, loss: Any = quadratic, seed: int = 0) -> Network:
    rng = np.random.default_rng(seed)
    data = Buffer(features=2, arms=3)
    for _ in range(rows):
        data.add(rng.random(2).astype(np.float32), int(rng.integers(3)), float(rng.random()))
    return Network(network.uniform_weights(2, 3, rng), data, compile_training(loss, rms_prop))


def steps_of(optimizer: Any, *gradients: list[float]) -> list[np.ndarray]:
    state = optimizer.init({"w": np.zeros(2, np.float32)})
    taken = []
    for gradient in gradients:
        update, state = optimizer.update({"w": np.array(gradient, np.float32)}, state)
        taken.append(np.asarray(update["w"]))
    return taken


def test_the_learning_rate_decays_with_the_gradient_steps() -> None:
    assert [learning_rate(n) for n in (0, 1, 2, 100)] == pytest.approx([0.1, 0.1 / 1.5, 0.05, 0.1 / 51])


def test_the_first_steps_of_rms_prop() -> None:
    # Squares start at 1: 0.9 + 0.1 · 3² = 1.8 and 0.9 + 0.1 · 4² = 2.5; then 0.9 · 1.8 + 0.9 = 2.52.
    first, second = steps_of(rms_prop(), [3.0, 4.0], [3.0, 0.0])
    np.testing.assert_allclose(first, [-0.1 * 3 / 1.8**0.5, -0.1 * 4 / 2.5**0.5], rtol=1e-6)
    np.testing.assert_allclose(second, [-(0.1 / 1.5) * 3 / 2.52**0.5, 0.0], rtol=1e-6)


def test_gradients_are_clipped_to_a_norm_of_five() -> None:
    (long,) = steps_of(rms_prop(), [30.0, 40.0])
    (short,) = steps_of(rms_prop(), [3.0, 4.0])
    np.testing.assert_allclose(long, short, rtol=1e-6)


def test_the_steps_of_adam_do_not_decay() -> None:
    taken = steps_of(adam(), *[[2.0, -0.5]] * 50)
    np.testing.assert_allclose(taken[0], [-0.1, 0.1], rtol=1e-5)
    np.testing.assert_allclose(taken[-1], [-0.1, 0.1], rtol=1e-4)


def test_a_second_training_continues_the_learning_rate_of_the_first() -> None:
    net = a_network(100)
    rng = np.random.default_rng(3)
    net.train({}, rng)
    assert [GRADIENT_STEPS] in [
        array.tolist() for name, array in net.snapshot().items() if "optimizer" in name
    ]
    before = net.weights["outer"].copy()
    net.train({}, rng)
    # A step is at most lr · g / √(0.1 g²); a schedule that restarted could go much further.
    largest = sum(learning_rate(n) for n in range(GRADIENT_STEPS, 2 * GRADIENT_STEPS)) * 10**0.5
    assert 0 < np.abs(net.weights["outer"] - before).max() < largest


def test_one_step_of_a_training_is_one_gradient_step() -> None:
    rng = np.random.default_rng(0)
    weights = {"w": np.array([1.0, -2.0], np.float32)}

    def loss(weights: Any, batch: Batch, points: Any, noise: Any) -> Any:
        return (weights["w"] * noise["g"]).sum()

    training = compile_training(loss, rms_prop)
    gradients = np.zeros((GRADIENT_STEPS, 2), np.float32)
    gradients[0] = [3.0, 4.0]
    data = Buffer(1, 1)
    data.add(np.zeros(1, np.float32), 0, 0.0)
    net = Network(weights, data, training)
    net.train({"g": gradients}, rng)
    np.testing.assert_allclose(net.weights["w"], [1 - 0.3 / 1.8**0.5, -2 - 0.4 / 2.5**0.5], rtol=1e-6)


def test_growing_data_do_not_recompile() -> None:
    traced = 0

    def loss(weights: Any, batch: Batch, points: Any, noise: Any) -> Any:
        nonlocal traced
        traced += 1
        return quadratic(weights, batch, points, noise)

    net, rng = a_network(1, loss), np.random.default_rng(0)
    net.train({}, rng)
    once = traced
    for _ in range(3):
        for _ in range(300):
            net.data.add(np.ones(2, np.float32), 1, 1.0)
        net.train({}, rng)
    twin = a_network(5, loss)
    twin.train({}, rng)
    assert traced == once > 0


def test_batches_are_drawn_with_replacement_from_all_data() -> None:
    data = a_network(7).data
    batch = data.draw((GRADIENT_STEPS, BATCH_SIZE), np.random.default_rng(0))
    assert batch.contexts.shape == (GRADIENT_STEPS, BATCH_SIZE, 2)
    _, counts = np.unique(batch.rewards, return_counts=True)
    share = counts / batch.rewards.size
    np.testing.assert_allclose(share, np.full(7, 1 / 7), atol=0.01)


def test_the_loss_depends_on_the_chosen_arm_only() -> None:
    batch = Batch(np.zeros((2, 1)), np.array([0, 2]), np.array([1.0, 3.0]))
    predicted = np.array([[2.0, 100.0, 100.0], [100.0, 100.0, 0.0]])
    assert network.mean_squared_error(predicted, batch) == (1 + 9) / 2


def test_training_fits_a_line() -> None:
    rng = np.random.default_rng(0)
    data = Buffer(2, 2)
    for _ in range(500):
        x, arm = rng.random(2).astype(np.float32), int(rng.integers(2))
        data.add(x, arm, float(x[arm]))
    net = Network(network.uniform_weights(2, 2, rng), data, compile_training(quadratic, rms_prop))

    def error() -> float:
        return float(network.mean_squared_error(network.values(net.weights, data.all().contexts), data.all()))

    before = error()
    for _ in range(3):
        net.train({}, rng)
    assert error() < 0.1 * before


def test_the_buffer_keeps_all_rows_in_order() -> None:
    data = Buffer(features=1, arms=4)
    for i in range(1000):
        data.add(np.array([i / 1000], np.float32), i % 4, i / 7)
    kept = data.all()
    assert len(data) == 1000
    np.testing.assert_allclose(kept.contexts[:, 0], np.arange(1000) / 1000, rtol=1e-6)
    assert np.array_equal(kept.arms, np.arange(1000) % 4)
    assert np.array_equal(kept.rewards, np.arange(1000) / 7)


def damaged(array: np.ndarray, by: float) -> np.ndarray:
    """Return a copy with one invalid number."""
    copy = array.copy()
    copy.flat[0] = by
    return copy


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("contexts", lambda a: a[:, :1], "contexts must be .* got"),
        ("contexts", lambda a: damaged(a, np.nan), "contexts must"),
        ("arms", lambda a: a + 3, "an arm that the policy does not have"),
        ("arms", lambda a: damaged(a, -1), "arms must"),
        ("rewards", lambda a: a[:-1], "rewards must be .* got"),
        ("rewards", lambda a: a.astype(np.float32), "rewards must be .* got"),
        ("rewards", lambda a: damaged(a, np.inf), "rewards must"),
        ("outer", lambda a: a.T, "outer must be .* got"),
        ("outer", lambda a: damaged(a, np.nan), "outer must"),
        ("optimizer_0", lambda a: a.astype(np.float64), "optimizer_0 must be .* got"),
        ("optimizer_0", lambda a: damaged(a, np.nan), "optimizer_0 must"),
        ("optimizer_4", lambda a: damaged(a, -1), "optimizer_4 must"),
    ],
)
def test_a_snapshot_that_does_not_fit_is_refused(name: str, damage: Any, message: str) -> None:
    arrays = a_network(20).snapshot()
    with pytest.raises(ValueError, match=message):
        a_network(0).restore({**arrays, name: damage(arrays[name])})
