"""Offsets of the scores: they change the choice, and nothing else."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from glcb import Bandit, InvalidInput, UnknownArm

PLAIN: Any = ["a", "b", "c"]
WITH_FEATURES: Any = {"a": {"size": 1}, "b": {"size": 2}, "c": {"size": 3}}


@pytest.mark.parametrize("arms", [PLAIN, WITH_FEATURES])
def test_offsets_change_the_probabilities_and_not_the_estimates(arms: Any) -> None:
    bandit, same = Bandit(arms, exploration=0.2), Bandit(arms, exploration=0.2)
    for one in (bandit, same):
        for _ in range(30):
            decision = one.decide({"age": 31})
            one.reward(decision.id, 1)
    plain, penalized = same.decide({"age": 31}), bandit.decide({"age": 31}, offsets={"a": -5.0, "b": -5.0})
    assert (plain.values == penalized.values).all()
    assert (plain.bonuses == penalized.bonuses).all()
    assert penalized.probabilities["c"] == pytest.approx(0.8)
    assert penalized.propensity == penalized.probabilities[penalized.arm]


@pytest.mark.parametrize("arms", [PLAIN, WITH_FEATURES])
def test_propensities_with_offsets_are_exact(arms: Any) -> None:
    bandit = Bandit(arms, exploration=0.5)
    for _ in range(10):
        bandit.reward(bandit.decide({"age": 31}).id, 1)
    offsets = {"a": -0.3, "b": -0.1}
    decisions = [bandit.decide({"age": 31}, offsets=offsets) for _ in range(800)]
    shares = Counter(decision.arm for decision in decisions)
    for arm in "abc":
        expected = np.mean([decision.probabilities[arm] for decision in decisions])
        assert shares[arm] / 800 == pytest.approx(expected, abs=0.06)


@pytest.mark.parametrize("arms", [PLAIN, WITH_FEATURES])
@pytest.mark.parametrize(
    ("offsets", "error"),
    [
        ({"d": 1.0}, UnknownArm),
        ({"a": float("nan")}, InvalidInput),
        ({"a": "x"}, InvalidInput),
        (3, InvalidInput),
    ],
)
def test_invalid_offsets_change_nothing(arms: Any, offsets: Any, error: type[Exception]) -> None:
    bandit = Bandit(arms)
    with pytest.raises(error):
        bandit.decide({"age": 31}, offsets=offsets)
    assert bandit.counts["decisions"] == 0
    assert bandit.schema is None
