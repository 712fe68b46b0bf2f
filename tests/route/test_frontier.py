"""The frontier of single models, regret and savings."""

import numpy as np
import pytest

from glcb import InvalidInput
from glcb.route import Frontier, evaluate_routes


def test_the_frontier_is_the_concave_hull_of_the_models() -> None:
    frontier = Frontier.of_models([3, 1, 2, 4, 1], [0.9, 0.5, 0.6, 0.8, 0.4])
    assert frontier.costs.tolist() == [1, 3]
    assert frontier.quality_at(2) == pytest.approx(0.7)
    assert frontier.quality_at(0.1) == 0.5
    assert frontier.quality_at(9) == 0.9
    assert frontier.cost_of(0.7) == pytest.approx(2)
    assert frontier.cost_of(0.95) == np.inf


def test_single_models_and_their_mixtures_have_no_gain() -> None:
    rng = np.random.default_rng(10_000)
    qualities, costs = rng.random((200, 3)), rng.random((200, 3))
    for model in range(3):
        assert evaluate_routes([model] * 200, qualities, costs).gain <= 1e-12
    oracle = evaluate_routes(qualities.argmax(axis=1), qualities, costs)
    assert oracle.regret_oracle == pytest.approx(0)
    assert oracle.regret_single < 0
    assert oracle.savings == pytest.approx(1 - oracle.cost / costs.mean(axis=0).max())


def test_tables_of_different_shapes_are_refused() -> None:
    with pytest.raises(InvalidInput, match="one choice per prompt"):
        evaluate_routes([0, 1, 0], np.zeros((2, 2)), np.zeros((2, 2)))
