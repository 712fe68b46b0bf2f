import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glcb.values import Bernoulli, Tree


def test_depth_one_by_hand() -> None:
    tree = Tree(low=-2.0, high=6.0, depth=1)
    assert tree.networks_per_arm == 1
    assert tree.outcomes == pytest.approx([0.0, 4.0])
    p = np.array([[0.25], [1.0]], np.float32)
    assert tree.values(p) == pytest.approx([1.0, 4.0])
    assert tree.distributions(p)[0] == pytest.approx([0.75, 0.25])
    assert [tree.bin_of(r) for r in (-2, 1.9, 2, 6)] == [0, 0, 1, 1]
    nodes, targets = tree.targets(5.0)
    assert (nodes.tolist(), targets.tolist()) == ([0], [1.0])


def test_depth_three_by_hand() -> None:
    tree = Tree(low=0.0, high=8.0, depth=3)
    assert tree.outcomes == pytest.approx([0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5])
    # Root up, then down, then up is 0b101: bin 5, the rewards from 5 to 6.
    nodes, targets = tree.targets(5.5)
    assert nodes.tolist() == [0, 2, 5]
    assert targets.tolist() == [1.0, 0.0, 1.0]
    p = np.full((1, 7), 0.5, np.float32)
    p[0, [0, 2, 5]] = 1.0, 0.0, 1.0
    assert tree.distributions(p)[0] == pytest.approx([0, 0, 0, 0, 0, 1, 0, 0])
    assert tree.values(p) == pytest.approx([5.5])
    p = np.array([[0.5, 0.1, 0.2, 0.3, 0.4, 0.6, 0.7]], np.float32)
    expected = [
        0.5 * 0.9 * 0.7,
        0.5 * 0.9 * 0.3,
        0.5 * 0.1 * 0.6,
        0.5 * 0.1 * 0.4,
        0.5 * 0.8 * 0.4,
        0.5 * 0.8 * 0.6,
        0.5 * 0.2 * 0.3,
        0.5 * 0.2 * 0.7,
    ]
    assert tree.distributions(p)[0] == pytest.approx(expected, abs=1e-6)


@given(
    st.integers(1, 6),
    st.floats(-1e6, 1e6),
    st.floats(1e-3, 1e6),
    st.floats(0, 1),
    st.integers(0, 10**6),
)
def test_every_reward_has_its_bin(depth: int, low: float, width: float, where: float, seed: int) -> None:
    tree = Tree(low, low + width, depth)
    reward = min(low + where * width, low + width)
    leaf = tree.bin_of(reward)
    assert 0 <= leaf < tree.bins
    # A network that is sure of each turn sends all probability to that bin.
    nodes, targets = tree.targets(reward)
    p = np.random.default_rng(seed).random((1, tree.networks_per_arm)).astype(np.float32)
    p[0, nodes] = targets
    assert tree.distributions(p)[0, leaf] == pytest.approx(1.0)
    assert tree.values(p)[0] == pytest.approx(tree.outcomes[leaf], rel=1e-6, abs=1e-6)


@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 10**6))
def test_value_is_the_mean_of_the_distribution(depth: int, arms: int, seed: int) -> None:
    tree = Tree(-3.0, 7.0, depth)
    p = np.random.default_rng(seed).random((arms, tree.networks_per_arm)).astype(np.float32)
    distributions = tree.distributions(p)
    np.testing.assert_allclose(distributions.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(tree.values(p), distributions @ tree.outcomes, atol=1e-5)


def test_bernoulli_is_the_probability_itself() -> None:
    p = np.array([[0.25], [0.75]], np.float32)
    assert Bernoulli().values(p) == pytest.approx([0.25, 0.75])
    assert Bernoulli().distributions(p).tolist() == [[0.75, 0.25], [0.25, 0.75]]
    nodes, targets = Bernoulli().targets(1.0)
    assert (nodes.tolist(), targets.tolist()) == ([0], [1.0])
