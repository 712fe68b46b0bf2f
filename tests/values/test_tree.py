"""The tree of networks: targets, distributions and values of bins."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glcb.values import Bernoulli, Tree


def test_a_tree_of_depth_one_by_hand() -> None:
    tree = Tree(low=-2.0, high=6.0, depth=1, arms=2)
    assert tree.networks_per_arm == 1
    assert tree.outcomes[0] == pytest.approx([0.0, 4.0])
    p = np.array([[0.25], [1.0]], np.float32)
    assert tree.expected(p).values == pytest.approx([1.0, 4.0])
    assert tree.distributions(p)[0] == pytest.approx([0.75, 0.25])
    assert [tree.bin_of(r) for r in (-2, 1.9, 2, 6)] == [0, 0, 1, 1]
    nodes, targets = tree.targets_for(0, 5.0)
    assert (nodes.tolist(), targets.tolist()) == ([0], [1.0])


def test_a_tree_of_depth_three_by_hand() -> None:
    tree = Tree(low=0.0, high=8.0, depth=3, arms=1)
    assert tree.outcomes[0] == pytest.approx([0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5])
    # Root up, then down, then up is 0b101: bin 5, the rewards from 5 to 6.
    nodes, targets = tree.targets_for(0, 5.5)
    assert nodes.tolist() == [0, 2, 5]
    assert targets.tolist() == [1.0, 0.0, 1.0]
    p = np.full((1, 7), 0.5, np.float32)
    p[0, [0, 2, 5]] = 1.0, 0.0, 1.0
    assert tree.distributions(p)[0] == pytest.approx([0, 0, 0, 0, 0, 1, 0, 0])
    assert tree.expected(p).values == pytest.approx([5.5])
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
def test_targets_lead_to_the_bin_of_the_reward(
    depth: int, low: float, width: float, where: float, seed: int
) -> None:
    tree = Tree(low, low + width, depth, arms=1)
    reward = min(low + where * width, low + width)
    leaf = tree.bin_of(reward)
    assert 0 <= leaf < tree.bins
    # Networks that predict these targets give the bin all probability.
    nodes, targets = tree.targets_for(0, reward)
    p = np.random.default_rng(seed).random((1, tree.networks_per_arm)).astype(np.float32)
    p[0, nodes] = targets
    assert tree.distributions(p)[0, leaf] == pytest.approx(1.0)
    assert tree.expected(p).values[0] == pytest.approx(tree.outcomes[0, leaf], rel=1e-6, abs=1e-6)


@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 10**6))
def test_the_value_is_the_mean_of_the_distribution(depth: int, arms: int, seed: int) -> None:
    tree = Tree(-3.0, 7.0, depth, arms)
    p = np.random.default_rng(seed).random((arms, tree.networks_per_arm)).astype(np.float32)
    distributions = tree.distributions(p)
    np.testing.assert_allclose(distributions.sum(axis=1), 1, atol=1e-6)
    expected = tree.expected(p)
    np.testing.assert_allclose(expected.values, (distributions * tree.outcomes).sum(axis=1), atol=1e-5)
    variance = (distributions * (tree.outcomes - expected.values[:, None]) ** 2).sum(axis=1)
    np.testing.assert_allclose(expected.deviations, np.sqrt(variance), atol=1e-4)


def test_a_bernoulli_value_is_the_probability() -> None:
    p = np.array([[0.25], [0.75]], np.float32)
    assert Bernoulli(2).expected(p).values == pytest.approx([0.25, 0.75])
    assert Bernoulli(2).expected(p).deviations == pytest.approx([0.1875**0.5] * 2)
    assert Bernoulli(2).distributions(p).tolist() == [[0.75, 0.25], [0.25, 0.75]]
    nodes, targets = Bernoulli(2).targets_for(0, 1.0)
    assert (nodes.tolist(), targets.tolist()) == ([0], [1.0])


def test_the_value_of_a_bin_follows_the_mean_of_its_rewards() -> None:
    tree = Tree(low=-35.0, high=5.0, depth=3, arms=2, leaf_values="mean")
    for reward in (5.0, 5.0, 0.0, -35.0):
        tree.learn(1, reward)
    # 0 and 5 are in the bin from 0 to 5, whose midpoint counts as one more reward.
    assert tree.outcomes[1, 7] == pytest.approx((2.5 + 5 + 5 + 0) / 4)
    assert tree.outcomes[1, 0] == pytest.approx((-32.5 - 35) / 2)
    assert tree.outcomes[0] == pytest.approx(np.arange(-32.5, 5, 5))


def test_a_reward_between_the_values_of_two_bins_has_a_fractional_target() -> None:
    tree = Tree(low=0.0, high=8.0, depth=2, arms=2, leaf_values="mean")
    tree.learn(1, 2.0)  # the bins of arm 1 have the values 1, 2.5, 5 and 7
    for reward, branches in (
        (1.0, [0, 0]),
        (1.3, [0, 0.2]),
        (2.2, [0, 0.8]),
        (3.9, [0, 1]),
        (6.5, [1, 0.75]),
    ):
        nodes, targets = tree.targets_for(1, reward)
        assert nodes.tolist() == [3, 3 + 1 + branches[0]], "the networks of arm 1 follow those of arm 0"
        assert targets == pytest.approx(branches)
        # Networks that predict these targets predict the reward, clipped to the values of the two bins.
        p = np.zeros((2, 3), np.float32)
        p.ravel()[nodes] = targets
        assert tree.expected(p).values[1] == pytest.approx(
            min(reward, 2.5 if branches[0] == 0 else 7), abs=1e-6
        )


def test_bins_of_equal_value_are_separated_by_their_edge() -> None:
    tree = Tree(low=0.0, high=1.0, depth=1, arms=1, leaf_values="mean")
    tree.restore({"leaf_values": np.array([[0.5, 0.5]]), "leaf_counts": np.array([[3, 3]])})
    assert [tree.targets_for(0, reward)[1].tolist() for reward in (0.4, 0.6)] == [[0], [1]]


def test_forgetting_keeps_the_value_of_a_bin_and_halves_its_weight() -> None:
    tree = Tree(low=0.0, high=1.0, depth=1, arms=1, leaf_values="mean")
    for reward in (0.6, 0.7, 0.8, 0.65, 0.7):
        tree.learn(0, reward)
    value = tree.outcomes[0, 1]
    tree.forget()
    assert tree.outcomes[0, 1] == value, "forgetting does not move values"
    tree.learn(0, 1.0)
    assert tree.outcomes[0, 1] == pytest.approx((3 * value + 1.0) / 4)  # two rewards and the midpoint


def test_a_midpoint_does_not_move() -> None:
    tree = Tree(low=0.0, high=1.0, depth=1, arms=1)
    tree.learn(0, 1.0)
    assert tree.outcomes.tolist() == [[0.25, 0.75]]
