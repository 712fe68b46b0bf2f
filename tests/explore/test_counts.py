"""Counts, pseudocounts, bonuses and the choice of the best arm."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glcb.explore import VisitCounts, best_arm, bonus
from glcb.explore.counts import MAX_COUNT
from glcb.explore.scoring import SKEW, add_skew


def test_a_pseudocount_by_hand() -> None:
    counts = VisitCounts(units=2, signatures=2, arms=1)
    for _ in range(4):
        counts.add(np.array([0, 1]), 0)
    counts.add(np.array([1, 0]), 0)
    for _ in range(5):
        counts.add(np.array([0, 0]), 0)
    # Unit 0 has counted signature 1 once, unit 1 has counted it four times; t − 1 = 10.
    small, large = 10 ** -(1 / 4), 10 ** -(4 / 4)
    expected = (small * 1 + large * 4) / (small + large)
    assert expected == pytest.approx(
        1.453, abs=1e-3
    )  # close to the smaller count; with the opposite sign it would be 3.55
    assert counts.pseudocounts(np.array([1, 1])) == pytest.approx([expected])


def test_without_decisions_the_pseudocount_is_zero_and_the_bonus_infinite() -> None:
    counts = VisitCounts(units=3, signatures=2, arms=2)
    assert counts.pseudocounts(np.zeros(3, np.int64)).tolist() == [0, 0]
    counts.add(np.zeros(3, np.int64), 1)
    pseudocounts = counts.pseudocounts(np.zeros(3, np.int64))
    assert pseudocounts.tolist() == [0, 1]
    assert bonus(pseudocounts, step=2, scale=0.5) == pytest.approx([math.inf, 0.5 * math.sqrt(math.log(2))])
    assert bonus(pseudocounts, step=2, scale=0.0).tolist() == [math.inf, 0.0]


@given(st.integers(1, 6), st.integers(1, 4), st.integers(1, 60), st.integers(0, 10**6))
def test_a_pseudocount_is_between_the_counts(units: int, arms: int, decisions: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = VisitCounts(units, 4, arms)
    same = np.zeros(arms)
    queried = rng.integers(0, 4, units)
    for _ in range(decisions):
        signature, arm = rng.integers(0, 4, units), int(rng.integers(arms))
        counts.add(signature, arm)
        same[arm] += np.array_equal(signature, queried)
    each = np.array([counts.of(unit, queried[unit]) for unit in range(units)])
    result = counts.pseudocounts(queried)
    assert np.all(each.min(axis=0) <= result + 1e-9)
    assert np.all(result <= each.max(axis=0) + 1e-9)
    assert np.all(same <= result + 1e-9)


def test_forgetting_halves_counts_rounded_down() -> None:
    counts = VisitCounts(units=2, signatures=2, arms=2)
    for _ in range(5):
        counts.add(np.array([0, 1]), 0)
    counts.add(np.array([0, 0]), 1)
    counts.forget()
    assert counts.of(0, 0).tolist() == [2, 0]
    assert counts.of(1, 1).tolist() == [2, 0]
    assert counts.total == 3
    assert counts.pseudocounts(np.array([0, 1])) == pytest.approx([2, 0])


def test_counts_saturate() -> None:
    signature = np.zeros(2, np.int64)
    counts = VisitCounts(units=2, signatures=1, arms=2)
    counts.add(signature, 0)
    snapshot = {name: array.copy() for name, array in counts.snapshot().items()}
    snapshot["counts"][0] = [MAX_COUNT - 1, 2**40]  # a file can hold larger counts
    counts.restore(snapshot)
    assert counts.of(0, 0).tolist() == [MAX_COUNT - 1, MAX_COUNT]
    for _ in range(3):
        counts.add(signature, 0)
        counts.add(signature, 1)
    assert counts.of(0, 0).tolist() == [MAX_COUNT, MAX_COUNT]
    assert counts.of(1, 0).tolist() == [4, 3]
    assert counts.total == 7


def test_ties_are_broken_evenly_among_the_allowed_arms() -> None:
    rng = np.random.default_rng(0)
    values, bonuses = np.array([1.0, 0.5, 0.0, 2.0]), np.array([math.inf, 0.5, math.inf, math.inf])
    drawn = [best_arm(values, bonuses, None, rng) for _ in range(3000)]
    assert np.bincount(drawn, minlength=4)[1] == 0
    assert np.all(np.bincount(drawn, minlength=4)[[0, 2, 3]] > 900)
    assert {best_arm(values, bonuses, [1, 2], rng) for _ in range(20)} == {2}


def test_without_a_tie_the_generator_is_not_used() -> None:
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    assert best_arm(np.array([1.0, 2.0, 2.0]), np.array([0.5, 1.0, 0.5]), None, rng) == 1
    assert rng.bit_generator.state == before


def test_rare_rewards_have_a_bonus_beyond_their_deviation() -> None:
    bonuses = np.array([np.inf, 0.0, 0.0, 0.0])
    add_skew(np.array([0.1, 0.1, 0.1, 0.7]), 10, np.array([0.0, 1.0, 4.0, 1.0]), bonuses)
    rare = SKEW * 0.8 * math.log(10)
    assert bonuses == pytest.approx([math.inf, rare, rare / 4, 0.0])
