"""One place turns scores into probabilities, and everybody who states a probability calls it."""

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import glcb
from glcb import Bandit
from glcb._arrays import Float64
from glcb.bandit.offline import OfflineBandit
from glcb.explore.choice import ChoiceRule, distribution, draw
from glcb.explore.shares import share_bounds

PACKAGE = Path(glcb.__file__).parent
PARTS = {"glcb.explore.probabilities", "glcb.explore.focus", "glcb.explore.shares"}
KERNELS = {"policies/glcb/kernels.py": {"choose_arm"}, "bandit/warm.py": {"choose_arm", "probabilities"}}
"""Modules that need the compiled functions themselves."""
NAMES: set[str] = {"ShareBounds", "share_bounds"}

ARMS = ["a", "b", "c", "d"]
SHARES = {"a": (0.3, 1.0), "c": (0.0, 0.1)}
CONTEXT = {"age": 31, "country": "FR"}
RESTRICTIONS: list[dict[str, Any]] = [
    {},
    {"eligible": ["a", "c", "d"]},
    {"uniform": True},
    {"offsets": {"a": -0.5, "d": 0.2}},
    {"eligible": ["b", "c"], "uniform": True},
    {"eligible": ["c", "d"], "offsets": {"c": 0.4}},
]


def test_nobody_else_turns_scores_into_probabilities() -> None:
    for path in PACKAGE.rglob("*.py"):
        module = path.relative_to(PACKAGE).as_posix()
        if module.startswith("explore/"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module in PARTS:
                used = {alias.name for alias in node.names}
                assert used <= NAMES | KERNELS.get(module, set()), module


def trained(**arguments: Any) -> Bandit:
    bandit = Bandit(**{"arms": ARMS, "exploration": 0.2, **arguments})
    for step in range(40):
        decision = bandit.decide({"age": step, "country": "FR" if step % 3 else "DE"})
        bandit.reward(decision.id, step % 2)
    return bandit


def stated(bandit: Bandit, values: Float64, bonuses: Float64, asked: dict[str, Any]) -> Float64:
    """Return the probabilities that the estimates of a decision call for."""
    arguments = bandit.get_params()
    names = list(bandit.arms)
    shares = arguments["shares"]
    rule = ChoiceRule(
        arguments["exploration"],
        arguments["exploration_mode"],
        asked.get("uniform", False),
        isinstance(arguments["arms"], dict),
        None if shares is None else share_bounds(shares, {arm: place for place, arm in enumerate(names)}),
    )
    offsets = np.array([asked.get("offsets", {}).get(arm, 0.0) for arm in names])
    eligible = asked.get("eligible")
    allowed = None if eligible is None else [names.index(arm) for arm in eligible]
    return distribution(values + bonuses + offsets, bonuses, rule, allowed)


@pytest.mark.parametrize("asked", RESTRICTIONS)
@pytest.mark.parametrize("shares", [None, SHARES])
@pytest.mark.parametrize("policy", ["glcb", "linucb"])
def test_decisions_have_the_stated_probabilities(policy: str, shares: Any, asked: dict[str, Any]) -> None:
    bandit = trained(policy=policy, shares=shares)
    for _ in range(20):
        decision = bandit.decide(CONTEXT, **asked)
        expected = stated(bandit, decision.values, decision.bonuses, asked)
        np.testing.assert_allclose(decision.arm_probabilities, expected, rtol=1e-12)
        assert decision.propensity == decision.arm_probabilities[decision.arms.index(decision.arm)]


@pytest.mark.parametrize("shares", [None, SHARES])
def test_rankings_previews_and_explanations_agree_with_decisions(shares: Any) -> None:
    for arms in (ARMS, {arm: {"price": float(place)} for place, arm in enumerate(ARMS)}):
        bandit = trained(arms=arms, shares=shares)
        preview = OfflineBandit(bandit).preview(CONTEXT)
        explanation = bandit.explain(CONTEXT)
        ranking = bandit.rank(CONTEXT, k=3)
        first = ranking.estimates[0]
        expected = stated(bandit, first.values, first.bonuses, {})
        np.testing.assert_array_equal(ranking.slot_probabilities[0], expected)
        np.testing.assert_array_equal(preview.probabilities, expected)
        if isinstance(arms, dict):
            assert explanation.probabilities is not None
            order = [ARMS.index(str(arm)) for arm in explanation.arms]
            np.testing.assert_array_equal(explanation.probabilities, expected[order])


def test_draws_have_the_probabilities_of_the_distribution() -> None:
    shares = distribution(np.array([0.9, 0.5, 0.7]), np.zeros(3), ChoiceRule(0.3, "gap"))
    points = np.random.default_rng(0).random(30_000)
    counts = np.bincount([draw(shares, point) for point in points.tolist()], minlength=3)
    np.testing.assert_allclose(counts / points.size, shares, atol=0.01)
