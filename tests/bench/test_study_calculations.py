"""Calculations of the studies."""

import numpy as np
import pytest

from glcb.bench import simulate
from glcb.bench.studies import gating, learning_curve
from glcb.bench.studies.convergence import verdict
from glcb.gln import Gates
from glcb.policies.glcb.paper import GLCBPaper
from glcb.tasks.smooth import Smooth

# ---- learning curves ---------------------------------------------------------------------------------


def test_measuring_a_policy_does_not_change_it() -> None:
    task, steps = Smooth(), 250
    followed = learning_curve.follow_policy(GLCBPaper(3, 2, seed=6), task, 6, steps, lambda _: None)
    stream = task.stream(6, steps)
    arms = simulate(GLCBPaper(3, 2, seed=6), stream).arms
    lost = learning_curve.regret_of(task.expected(stream.contexts), arms)
    assert followed.regret[-1] == pytest.approx(lost.mean())
    np.testing.assert_array_equal(followed.decisions.sum(axis=(0, 1)), np.bincount(arms, minlength=3))


def test_round_robin_trains_all_arms_equally_often() -> None:
    bandit = GLCBPaper(3, 2)
    reported: list[int] = []
    trained = learning_curve.follow_round_robin(bandit, Smooth(), 0, 240, reported.append)
    assert bandit.reward_counts == {0: 80, 1: 80, 2: 80}
    assert trained.checkpoints.tolist() == [100, 155, 240]
    assert reported == [100, 55, 85]
    assert trained.pseudocounts[-1] > trained.pseudocounts[0] > 0


def test_an_untrained_policy_is_measured_correctly() -> None:
    bandit, task = GLCBPaper(3, 2), Smooth()
    side = (np.arange(20) + 0.5) / 20
    grid = [(x, y) for x in side for y in side]
    values = np.array([bandit.decide(x).values for x in grid])
    error, pseudocount = learning_curve.measure(bandit, task)
    assert error == pytest.approx(np.abs(values - task.expected(np.array(grid))).mean(), abs=1e-6)
    assert pseudocount == 0


def test_shares_are_computed_between_checkpoints() -> None:
    hits = np.array([1, 1, 1, 0, 1, 0, 0, 0], bool)
    np.testing.assert_allclose(learning_curve.shares_between(hits, np.array([2, 4, 8])), [1.0, 0.5, 0.25])


def test_decisions_are_counted_by_quarter_and_region() -> None:
    corner, other = [0.0, 0.0], [1.0, 0.3]
    contexts = np.array([corner, corner, other, corner, other, other, other, corner], np.float32)
    arms = np.array([0, 1, 1, 1, 0, 0, 1, 0])
    decisions = learning_curve.decisions_by_quarter(contexts, arms, 2)
    assert decisions.shape == (4, 16, 2)
    assert decisions.sum() == 8
    assert decisions[0, 0].tolist() == [1, 1]
    assert decisions[1, 0].tolist() == [0, 1]
    assert decisions[1, 13].tolist() == [0, 1]
    assert decisions[2, 13].tolist() == [2, 0]
    nothing = np.zeros(1)
    one = learning_curve.LearningCurve(np.ones(1, np.int64), nothing, nothing, nothing, nothing, decisions)
    np.testing.assert_allclose(one.coverage, np.array([2, 2, 1, 2]) / 32)


def test_a_verdict_names_the_variants_for_which_it_holds() -> None:
    assert verdict("So", [True, True, True]) == "So: yes."
    assert verdict("So", [True, False, False]) == "So: only with paper settings."
    assert verdict("So", [False, False, False]) == "So: no."


# ---- gating -----------------------------------------------------------------------------------------


def test_shared_half_spaces_are_counted() -> None:
    gates = Gates(2, [2, 2, 2], 0.0, np.random.default_rng(0))
    mirrored = (1 - gating.POINT).astype(np.float32)
    shares = gating.shared_half_spaces(gates, np.stack([gating.POINT, mirrored]))
    np.testing.assert_array_equal(shares, [1.0, 0.0])


def test_training_changes_predictions_near_the_point_most() -> None:
    few, many = gating.imprint(1, 0, 20), gating.imprint(8, 0, 20)
    at = tuple((gating.POINT[::-1] * 20).astype(int))
    for one in (few, many):
        first, last = (float(change[at]) for change in one.changes)
        assert 0 < first < last
        assert last > np.quantile(one.changes[-1], 0.9)
        assert one.change(0.9, 1.0) > one.change(0.5, 0.9) > one.change(0.0, 0.5)
    assert (many.changes[-1][many.shared < 0.2] == 0).all()
    assert few.change(0.0, 0.5) > many.change(0.0, 0.5)
