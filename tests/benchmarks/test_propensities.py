"""Rankings have their stated propensities; ``make soak`` draws a million of each kind."""

import pytest

from benchmarks.propensities import LENGTHS, MAX_DEVIATION, VALUES, compare, draw_rankings


@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("length", LENGTHS)
def test_rankings_have_their_stated_propensities(length: int, values: str) -> None:
    observed, stated = draw_rankings(VALUES[values], length, draws=4000, seed=1)
    assert sum(stated.values()) <= 1 + 1e-9
    assert all(len(set(ranking)) == length for ranking in observed)
    assert compare(observed, stated).deviation < MAX_DEVIATION


def test_propensities_that_are_a_tenth_too_small_are_noticed() -> None:
    observed, stated = draw_rankings(VALUES["ties"], 1, draws=20_000, seed=1)
    wrong = {ranking: p * (0.9 if ranking == (0,) else 1.0) for ranking, p in stated.items()}
    assert compare(observed, stated).deviation < MAX_DEVIATION < compare(observed, wrong).deviation
