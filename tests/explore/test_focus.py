"""Exploration among many candidates concentrates on a few, and forgets none."""

from typing import Any

import numpy as np
import pytest

from glcb.explore.focus import FEW, MANY, candidate_probabilities
from glcb.explore.probabilities import probabilities


@pytest.mark.parametrize("count", [MANY + 1, 500, 5000])
def test_every_candidate_keeps_a_tenth_of_an_even_share(count: int) -> None:
    rng = np.random.default_rng(0)
    scores, bonuses = rng.random(count), rng.random(count)
    result = candidate_probabilities(scores, bonuses, 0.2, "gap")
    assert result.sum() == pytest.approx(1)
    assert result.min() >= 0.2 / (10 * count)
    assert result[scores.argmax()] == pytest.approx(0.8)
    preferred = np.flatnonzero(result > 2 * result.min())
    assert set(np.argsort(-scores)[:FEW]) <= set(preferred)
    assert bonuses.argmax() in preferred
    assert preferred.size <= 2 * FEW + 1


@pytest.mark.parametrize(("count", "mode"), [(MANY, "gap"), (500, "uniform")])
def test_few_candidates_and_uniform_exploration_are_as_always(count: int, mode: Any) -> None:
    scores = np.random.default_rng(0).random(count)
    result = candidate_probabilities(scores, np.zeros(count), 0.1, mode)
    assert result.tolist() == probabilities(scores, None, 0.1, mode).tolist()


def test_ties_share_the_largest_probability() -> None:
    scores = np.r_[np.ones(3), np.zeros(500)]
    result = candidate_probabilities(scores, np.zeros(503), 0.1, "gap")
    assert result[:3] == pytest.approx(0.3)
    assert candidate_probabilities(np.full(500, np.inf), np.zeros(500), 0.1, "gap") == pytest.approx(1 / 500)
    unknown = np.r_[np.inf, np.zeros(500)]
    assert candidate_probabilities(unknown, unknown, 0.1, "gap")[0] == pytest.approx(0.9)
