"""Choice probabilities, and draws with these probabilities."""

import math
from itertools import pairwise
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glcb._arrays import Float64
from glcb._types import MAX_EXPLORATION, ExplorationMode
from glcb.explore.probabilities import arm_at, probabilities

EXPLORATION_MODES: tuple[ExplorationMode, ...] = get_args(ExplorationMode)

scores = st.lists(
    st.one_of(st.floats(-1e6, 1e6), st.sampled_from([0.0, 0.5, 1.0, math.inf])), min_size=1, max_size=20
).map(np.array)
shares = st.floats(0, MAX_EXPLORATION)


@given(scores, shares, st.sampled_from(EXPLORATION_MODES), st.data())
def test_probabilities_follow_the_scores(
    scores: Float64, share: float, exploration_mode: ExplorationMode, data: st.DataObject
) -> None:
    arms = range(scores.size)
    allowed = data.draw(st.none() | st.sets(st.sampled_from(arms), min_size=1).map(sorted))
    result = probabilities(scores, allowed, share, exploration_mode)
    inside = list(arms) if allowed is None else allowed
    assert result.sum() == pytest.approx(1, abs=1e-12)
    assert (result >= 0).all()
    assert result[[arm for arm in arms if arm not in inside]].sum() == 0
    # No arm is less likely than one with a lower score, and arms that tie are equally likely.
    order = sorted(inside, key=lambda arm: scores[arm])
    for low, high in pairwise(order):
        assert result[low] <= result[high] + 1e-12
        if scores[low] == scores[high]:
            assert result[low] == pytest.approx(result[high], abs=1e-12)
    # Every allowed arm has a minimum probability.
    if len(inside) > 1:
        floor = share / (len(inside) - 1) * (0.5 if exploration_mode == "gap" else 1)
        assert result[inside].min() >= floor * (1 - 1e-9)
    # With probability 1 − share, one of the best arms is chosen.
    best = [arm for arm in inside if scores[arm] == scores[inside].max()]
    assert result[best].sum() >= 1 - share - 1e-12
    if len(best) == 1 < len(inside):
        assert result[best].sum() == pytest.approx(1 - share, abs=1e-12)


@pytest.mark.parametrize("exploration_mode", EXPLORATION_MODES)
def test_without_exploration_the_best_arms_share_all_probability(
    exploration_mode: ExplorationMode,
) -> None:
    assert probabilities(np.array([0.1, 0.9, 0.3]), None, 0, exploration_mode).tolist() == [0, 1, 0]
    assert probabilities(np.array([0.9, 0.9, 0.3]), None, 0, exploration_mode).tolist() == [0.5, 0.5, 0]
    assert probabilities(np.array([0.9, 0.9, 0.3]), [0, 2], 0, exploration_mode).tolist() == [1, 0, 0]
    untried = np.array([math.inf, 0.9, math.inf, math.inf])
    np.testing.assert_allclose(probabilities(untried, None, 0, exploration_mode), [1 / 3, 0, 1 / 3, 1 / 3])


def test_a_smaller_gap_makes_an_arm_more_likely() -> None:
    result = probabilities(np.array([1.0, 0.9, 0.8, 0.6]), None, 0.1, "gap")
    evenly, weights = 0.05 / 3, np.array([1, 1 / 2, 1 / 4])
    np.testing.assert_allclose(result[1:], evenly + 0.05 * weights / weights.sum())
    assert result[0] == pytest.approx(0.9)


def test_probabilities_do_not_depend_on_the_unit_of_the_scores() -> None:
    scores = np.array([1.0, 0.9, 0.8, 0.6])
    expected = probabilities(scores, None, 0.1, "gap")
    np.testing.assert_allclose(probabilities(1000 * scores - 7, None, 0.1, "gap"), expected)


def test_next_to_an_untried_arm_all_others_are_equally_likely() -> None:
    result = probabilities(np.array([math.inf, 0.9, 0.1]), None, 0.1, "gap")
    np.testing.assert_allclose(result, [0.9, 0.05, 0.05])


@pytest.mark.parametrize("exploration_mode", EXPLORATION_MODES)
@pytest.mark.parametrize("allowed", [None, [1, 2, 4]])
def test_draws_follow_the_probabilities(exploration_mode: ExplorationMode, allowed: list[int] | None) -> None:
    scores = np.array([0.2, 0.9, 0.8, 0.85, 0.1])
    result = probabilities(scores, allowed, 0.3, exploration_mode)
    rng = np.random.default_rng(10_000)
    draws = 40_000
    counts = np.bincount([arm_at(result, rng.random()) for _ in range(draws)], minlength=5)
    possible = result > 0
    assert counts[~possible].sum() == 0
    expected = draws * result[possible]
    chi_square = float(((counts[possible] - expected) ** 2 / expected).sum())
    # 99.9 % quantiles of the χ² distribution with 4 and 2 degrees of freedom.
    assert chi_square < {4: 18.47, 2: 13.82}[int(possible.sum()) - 1]


def test_rounding_never_draws_an_arm_of_probability_zero() -> None:
    result = np.array([0.1] * 9 + [0.1 - 1e-15, 0.0])
    assert arm_at(result, 1 - 2**-53) == 9
