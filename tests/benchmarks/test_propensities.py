"""Choices have their stated propensities; ``make soak`` draws a million of each kind."""

import math
from collections import Counter

import numpy as np
import pytest

from benchmarks.propensities import (
    ARMS,
    LENGTHS,
    MAX_DEVIATION,
    RESTRICTIONS,
    RULE,
    VALUES,
    compare,
    draw_decisions,
    draw_rankings,
)
from glcb.bandit.ranking import draw_slots
from glcb.policies import Estimates


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("length", LENGTHS)
def test_rankings_have_their_stated_propensities(length: int, values: str) -> None:
    observed, stated = draw_rankings(VALUES[values], length, draws=4000, seed=1)
    assert sum(stated.values()) <= 1 + 1e-9
    assert all(len(set(ranking)) == length for ranking in observed)
    assert compare(observed, stated).deviation < MAX_DEVIATION


@pytest.mark.parametrize("restriction", RESTRICTIONS)
def test_restricted_decisions_have_their_stated_propensities(restriction: str) -> None:
    observed, stated = draw_decisions(*RESTRICTIONS[restriction], draws=3000, seed=1)
    assert sum(stated.values()) == pytest.approx(1)
    assert compare(observed, stated).deviation < MAX_DEVIATION


def test_propensities_that_are_a_tenth_too_small_are_noticed() -> None:
    observed, stated = draw_rankings(VALUES["ties"], 1, draws=20_000, seed=1)
    wrong = {ranking: p * (0.9 if ranking == (0,) else 1.0) for ranking, p in stated.items()}
    assert compare(observed, stated).deviation < MAX_DEVIATION < compare(observed, wrong).deviation


def test_rankings_are_those_of_the_bandit() -> None:
    estimates = Estimates(VALUES["ties"], np.zeros(ARMS), np.ones(ARMS))
    rng = np.random.default_rng(1)
    rankings = [draw_slots(lambda _: estimates, None, 3, RULE, lambda _: rng.random()) for _ in range(300)]
    observed, stated = draw_rankings(VALUES["ties"], 3, draws=300, seed=1)
    assert observed == Counter(tuple(slot.chosen for slot in slots) for slots in rankings)
    for slots in rankings:
        propensity = math.prod(slot.propensity for slot in slots)
        assert stated[tuple(slot.chosen for slot in slots)] == pytest.approx(propensity)
