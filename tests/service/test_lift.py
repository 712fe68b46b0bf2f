"""The confidence interval of the lift: valid at all times, also while the bandit learns."""

import json
import math
from typing import Any

import msgspec
import numpy as np
import pytest

from benchmarks.lift import WORLDS, coverage, decisions_needed, decisions_needed_before, weights
from glcb._api.requests import DecisionRequest, RankingRequest, RewardItem
from glcb.evaluate.sequences import boundary
from glcb.service.core.experiment import Experiment
from glcb.service.core.lift import CONFIDENCE, MAX_WEIGHT, LiftSums, intervals, missing_decisions
from glcb.service.views import lift as lifts
from tests.support.builders import RecordedExperiment


@pytest.mark.parametrize("revenue", [False, True], ids=["conversions", "revenue"])
@pytest.mark.parametrize("world", WORLDS)
def test_the_interval_covers_the_true_lift_at_all_times(world: str, revenue: bool) -> None:
    # At an error rate of 5 %, less than 84 % of 50 experiments have a probability of 0.001.
    found = coverage(world, runs=50, decisions=600, every=1, seed=10_000, revenue=revenue)
    assert found.covered >= 0.84
    assert found.width < 1


def test_the_fixed_horizon_interval_is_narrower_but_fails_when_checked_repeatedly() -> None:
    """All arms are equal, so the lift is zero. This also shows that the test above has power."""
    rng, missed = np.random.default_rng(10_001), 0
    own, holdout = np.array([0.7, 0.1, 0.1, 0.1]), 0.2
    found = [weights(p, 0.1, 0.7, 4, holdout) for p in own.tolist()]
    for _ in range(60):
        sums, was_missed = LiftSums(), False
        for arm in rng.choice(4, 1500, p=holdout / 4 + (1 - holdout) * own).tolist():
            own_weights = found[arm]
            assert own_weights is not None
            sums.add(float(rng.random() < 0.5), own_weights)
            low, high = sums.fixed_interval() or (-1.0, 1.0)
            was_missed |= sums.n > 20 and not low <= 0 <= high
        wide, narrow = intervals([sums])[0], sums.fixed_interval()
        assert wide is not None
        assert narrow is not None
        assert wide[0] < narrow[0] < narrow[1] < wide[1]
        missed += was_missed
    assert missed > 15  # the nominal number is 3


@pytest.mark.parametrize(
    ("random", "bandit", "factor"), [(0.048, 0.086, 4), (0.45, 0.5, 4)], ids=["clicks", "large rates"]
)
def test_the_interval_needs_far_fewer_decisions_than_the_holdout_alone(
    random: float, bandit: float, factor: float
) -> None:
    seeds = range(10_000, 10_005)
    now = sorted(decisions_needed(random, bandit, 0.05, 0.05, seed) for seed in seeds)
    before = sorted(decisions_needed_before(random, bandit, 0.05, seed) for seed in seeds)
    assert factor * now[2] < before[2]


def test_the_weights_of_all_arms_average_to_the_difference_of_the_policies() -> None:
    own, holdout = np.array([0.9, 0.02, 0.08]), 0.05
    actual = holdout / 3 + (1 - holdout) * own
    found = [weights(p, own.min(), own.max(), 3, holdout) for p in own.tolist()]
    lifts = np.array([one.lift for one in found if one is not None])
    random = np.array([one.random for one in found if one is not None])
    assert actual * lifts == pytest.approx(own - 1 / 3)
    assert actual * random == pytest.approx(1 / 3)
    assert found[0] is not None
    assert (found[0].lowest, found[0].highest) == (lifts.min(), lifts.max())


def test_a_decision_without_exploration_is_left_out() -> None:
    assert weights(1.0, 0.0, 1.0, 2, holdout=0.0) is None
    assert weights(1.0, 0.0001, 0.9999, 2, holdout=0.0) is None
    for chosen in (0.0, 1.0):
        found = weights(chosen, 0.0, 1.0, 2, holdout=0.01)
        assert found is not None
        assert abs(found.lift) <= MAX_WEIGHT


def test_the_boundary_is_a_mixture_of_exponential_bounds() -> None:
    """At the boundary, the mixture of exponential supermartingales equals 1 / error."""
    for squares, scale in ((0.0, 1.0), (5.0, 19.0), (4e4, 9.0), (1e7, 0.0)):
        bound = boundary(squares, scale, 0.025)
        rates = 2.0 ** (-np.arange(37) / 2)
        prior = 1 / (1 + (np.log2(rates / 0.03) / 2) ** 2)
        prior /= prior.sum()
        usable = rates * scale < 1
        rates, prior = rates[usable], prior[usable]
        cost = (-np.log(1 - rates * scale) - rates * scale) / scale**2 if scale else rates**2 / 2
        assert float(prior @ np.exp(rates * bound - cost * squares)) == pytest.approx(40, rel=1e-6)
    assert CONFIDENCE == 0.95


def test_the_boundary_is_close_to_that_of_a_fixed_time() -> None:
    for squares in (1e3, 1e4, 1e5):
        assert 1.96 < boundary(squares, 0.5, 0.025) / math.sqrt(squares) < 3.8


def test_the_boundary_grows_with_its_arguments() -> None:
    assert boundary(10, 1, 0.01) < boundary(20, 1, 0.01) < boundary(20, 5, 0.01) < boundary(20, 5, 0.001)


def test_without_rewards_there_is_no_interval() -> None:
    assert intervals([LiftSums()]) == [None]
    assert LiftSums().fixed_interval() is None


def simulated(decisions: int, seed: int, judged: bool, sale: float = 1.0) -> LiftSums:
    """Return the sums of decisions in two contexts, which the predictions tell apart."""
    rng, sums = np.random.default_rng(seed), LiftSums()
    found = [weights(p, 0.2, 0.8, 2, 0.1) for p in (0.8, 0.2)]
    for number in range(decisions):
        expected = np.array([[0.9, 0.7], [0.2, 0.1]])[rng.integers(2)]
        arm = int(rng.random() >= 0.05 + 0.9 * 0.8)
        own = found[arm]
        assert own is not None
        own.modeled, own.predicted = 0.3 * (expected[0] - expected[1]) * sale, expected[arm] * sale
        sums.add(sale * float(rng.random() < expected[arm]), own, at=100.0 + number, judged=judged)
    return sums


def test_predictions_reduce_the_variance_and_do_not_change_the_mean() -> None:
    pairs = [[simulated(1500, seed, judged) for judged in (False, True)] for seed in range(10_000, 10_010)]
    for plain, adjusted in pairs:
        assert adjusted.variance < 0.8 * plain.variance
    for place in (0, 1):
        mean = sum(pair[place].lift for pair in pairs) / 15_000
        assert mean == pytest.approx(0.3 * (0.2 + 0.1) / 2, abs=0.02)


def test_the_interval_does_not_depend_on_the_declared_range() -> None:
    wide, narrow = (simulated(2000, 10_000, True, sale) for sale in (0.001, 1.0))
    for own, declared in zip(intervals([narrow])[0] or (), intervals([wide])[0] or (), strict=True):
        assert declared == pytest.approx(own / 1000)


def test_predictions_that_are_wrong_are_not_used() -> None:
    rng, sums = np.random.default_rng(10_000), LiftSums()
    own = weights(0.8, 0.2, 0.8, 2, 0.1)
    assert own is not None
    for _ in range(500):
        own.modeled, own.predicted = rng.normal(), rng.random()
        sums.add(float(rng.random() < 0.5), own, judged=True)
    assert sums.products < 0.2 * sums.model_squares


def test_as_many_decisions_are_missing_as_the_interval_needs_to_exclude_zero() -> None:
    sums = simulated(60, 10_001, False)
    found = intervals([sums])
    assert found[0] is not None
    assert found[0][0] <= 0 <= found[0][1]
    missing = missing_decisions(sums, found[0])
    assert missing is not None
    assert missing % 10 ** (len(str(missing)) - 2) == 0
    for share, excludes in ((0.6, False), (1.6, True)):
        later = LiftSums()
        for _ in range(round(share * (missing + 60) / 60)):
            later.merge(sums)
        interval = intervals([later])[0]
        assert interval is not None
        assert (interval[0] > 0 or interval[1] < 0) == excludes
        if excludes:
            assert missing_decisions(later, interval) == 0
    assert missing_decisions(LiftSums(), None) is None


def test_the_sums_know_the_time_of_their_first_decision() -> None:
    sums, later = simulated(3, 10_000, False), LiftSums()
    assert sums.since == 100.0
    later.merge(sums)
    assert later.since == 100.0


# ---- in an experiment -----------------------------------------------------------------------------


def run(recorded: RecordedExperiment, decisions: int, low: float = 0.0, high: float = 1.0) -> Experiment:
    """Simulate decisions: the arm "a" has a reward of ``high`` in 60 % of the cases, the others in 20 %."""
    rng = np.random.default_rng(10_003)
    for _ in range(decisions):
        decision = recorded.decide({"x": float(rng.random())})
        hit = rng.random() < (0.6 if decision.arm == "a" else 0.2)
        recorded.reward(decision.id, high if hit else low)
    return recorded.experiment


@pytest.mark.parametrize("arms", [["a", "b", "c"], {"a": {"price": 1}, "b": {"price": 2}, "c": {}}])
def test_predictions_of_all_arms_are_recorded_in_every_slot(arms: Any) -> None:
    recorded = RecordedExperiment(arms=arms, control="a", rewards=(0.0, 10.0))
    rng = np.random.default_rng(10_004)
    for _ in range(500):
        answer = json.loads(recorded.apply("rank", RankingRequest(context={"x": float(rng.random())}, k=2)))
        recorded.reward(answer["id"], 10 * float(rng.random() < 0.3))
    sums = recorded.experiment.state.tally.whole
    for lift in (sums.lift, sums.control):
        assert lift.judged > 100
        assert 0.15 < lift.predicted / lift.judged < 0.5
        assert lift.spread > 0
        assert lift.model_squares > 0


@pytest.mark.parametrize("holdout", [0.0, 0.1, 1.0])
def test_the_lift_is_measured_with_and_without_a_holdout(holdout: float) -> None:
    lift = lifts.lift(run(RecordedExperiment(holdout=holdout), 2500))
    assert lift.n == 2500
    assert lift.random is not None
    assert lift.random == pytest.approx((0.6 + 0.2 + 0.2) / 3, abs=0.08)
    assert lift.difference is not None
    assert lift.difference == pytest.approx(0.6 - 1 / 3, abs=0.1)
    assert lift.relative == pytest.approx(lift.difference / lift.random)
    assert lift.extra_rewards == pytest.approx(lift.difference * lift.bandit.n)
    assert lift.low is not None
    assert lift.fixed_low is not None
    assert lift.low < lift.fixed_low < lift.difference
    assert lift.low > 0


def test_the_lift_of_the_holdout_is_that_of_what_the_bandit_would_have_done() -> None:
    """With a holdout of 100 %, all weights come from the probabilities that the bandit did not use."""
    experiment = run(RecordedExperiment(holdout=1.0), 300)
    assert experiment.state.tally.whole.lift.above > 0.5
    assert lifts.lift(experiment).bandit.n == 0


def test_the_lift_is_in_units_of_the_reward() -> None:
    unit = lifts.lift(run(RecordedExperiment(rewards=(0.0, 1.0)), 300))
    scaled = lifts.lift(run(RecordedExperiment(rewards=(-5.0, 15.0)), 300, -5.0, 15.0))
    for name in ("difference", "low", "high", "fixed_low", "fixed_high"):
        assert getattr(scaled, name) == pytest.approx(20 * getattr(unit, name), abs=1.5)
    assert unit.relative is not None
    assert scaled.relative is None  # rewards can be negative
    assert scaled.random is not None
    assert -5 < scaled.random < 15


def test_only_eligible_arms_count_as_random_assignment() -> None:
    recorded = RecordedExperiment(policy="ucb1", holdout=0.2)
    for _ in range(600):
        decision = recorded.decide({"x": 1.0}, eligible=["a", "b"])
        recorded.reward(decision.id, float(decision.arm == "a"))
    lift = lifts.lift(recorded.experiment)
    assert lift.n == 600
    assert lift.random == pytest.approx(0.5, abs=0.1)


def test_without_exploration_and_holdout_there_is_no_lift() -> None:
    lift = lifts.lift(run(RecordedExperiment(exploration=0.0, holdout=0.0), 50))
    assert lift.n < 10  # only the first decisions, before all arms had been tried
    assert lift.bandit.n == 50


def test_the_sums_of_the_lift_have_a_constant_size() -> None:
    experiment = run(RecordedExperiment(), 100)
    size = len(msgspec.msgpack.encode(experiment.state.tally.whole.lift))
    for step in range(200):
        _, answer = experiment.apply("decide", DecisionRequest(context={"x": step / 200}), 2e6 + step)
        assert isinstance(answer, bytes)
        decision = msgspec.json.decode(answer)["id"]
        experiment.apply("reward", RewardItem(id=decision, value=step % 2), 2e6 + step)
    assert abs(len(msgspec.msgpack.encode(experiment.state.tally.whole.lift)) - size) <= 8
