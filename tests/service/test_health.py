"""Health checks and statistics of an experiment."""

import random
import re
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from benchmarks import health as health_benchmark
from glcb import _model_file
from glcb._api.requests import Creation, DecisionRequest, ExperimentSettings, NewArm, RewardItem, encode
from glcb.bandit import Bandit
from glcb.service.core.experiment import Experiment
from glcb.service.core.forecasts import ArmForecasts
from glcb.service.core.tally import Tally, TallyBlock
from glcb.service.core.vitals import Arrivals, ClockVitals, Features, RewardValues
from glcb.service.engine.summaries import stored_experiment_info
from glcb.service.process.metrics import Activity
from glcb.service.storage.rows import ExperimentRow
from glcb.service.views import health, responses, stats

DAY = 86_400
DEFAULT_ZERO = {"reward_timeout": 60.0, "default_reward": 0.0}


MANY_FEATURES: dict[str, Any] = {f"f{i}": i for i in range(20)}


class Simulation:
    """An experiment with simulated visitors, one per second."""

    def __init__(self, **settings: Any) -> None:
        arguments = {"arms": ["a", "b", "c"], "policy": "linucb", "holdout": 0.1, **settings}
        creation = Creation(
            name="home", salt="always the same", id_prefix="", settings=ExperimentSettings(**arguments)
        )
        self.experiment, _ = Experiment.create(creation, 0.0)
        self.rng = random.Random(10_000)
        self.time = 0.0

    def visit(
        self,
        visitors: int,
        match_rate: float = 1.0,
        mean: float = 0.3,
        *,
        reported: tuple[float, ...] = (0.0, 1.0),
        missing: float = 0.0,
        seconds: float = 1.0,
        **features: Any,
    ) -> "Simulation":
        """Simulate visitors who send rewards with this mean, of the values in ``reported`` only."""
        for _ in range(visitors):
            self.time += seconds
            x = None if self.rng.random() < missing else self.rng.random()
            context = {"x": x, "y": self.rng.choice("pqr"), **features}
            _, answer = self.experiment.apply("decide", DecisionRequest(context=context), self.time)
            assert isinstance(answer, bytes)
            decision = msgspec.json.decode(answer)
            value = float(self.rng.random() < mean)
            if self.rng.random() < match_rate and value in reported:
                reward = RewardItem(id=decision["id"], value=value)
                self.experiment.apply("reward", reward, self.time)
        return self

    def wait(self, seconds: float) -> "Simulation":
        self.time += seconds
        self.experiment.apply("settle", b"", self.time)
        return self

    def results(self) -> dict[str, bool | None]:
        return {check.check: check.ok for check in health.checks(self.experiment)}

    def text(self, name: str) -> str:
        return next(check.text for check in health.checks(self.experiment) if check.check == name)


def test_a_fresh_experiment_has_no_results_yet() -> None:
    results = Simulation().results()
    assert results.pop("holdout") is True
    assert set(results.values()) == {None}
    assert Simulation().visit(5).results()["rewards"] is True


@pytest.mark.parametrize("settings", [{}, DEFAULT_ZERO], ids=["zeros reported", "default reward"])
def test_a_healthy_experiment_passes_every_check(settings: dict[str, Any]) -> None:
    reported = (1.0,) if settings else (0.0, 1.0)
    simulation = Simulation(**settings).visit(1500, match_rate=0.9, reported=reported, missing=0.3).wait(61)
    names = {
        "rewards",
        "reward_values",
        "calibration",
        "exploration",
        "propensities",
        "contexts",
        "features",
        "clock",
        "holdout",
    }
    assert simulation.results() == dict.fromkeys(names, True)


# ---- each check, failed and passed ----------------------------------------------------------------

CASES: dict[str, tuple[str, Callable[[], Simulation], Callable[[], Simulation]]] = {
    "no reward has ever arrived": (
        "rewards",
        lambda: Simulation(**DEFAULT_ZERO).visit(600, reported=()),
        lambda: Simulation(**DEFAULT_ZERO).visit(600, mean=0.02, reported=(1.0,)),
    ),
    "no reward has ever arrived, without a timeout": (
        "rewards",
        lambda: Simulation().visit(500, reported=()),
        lambda: Simulation().visit(500, match_rate=0.02),
    ),
    "rewards stopped arriving": (
        "rewards",
        lambda: Simulation().visit(800).visit(400, match_rate=0.05),
        lambda: Simulation().visit(800).visit(400, match_rate=0.7),
    ),
    "rare rewards stopped arriving": (
        "rewards",
        lambda: Simulation(**DEFAULT_ZERO).visit(1500, 0.05).visit(600, 0.0),
        lambda: Simulation(**DEFAULT_ZERO).visit(1500, 0.05).visit(600, 0.03),
    ),
    "all rewards are equal": (
        "reward_values",
        lambda: Simulation().visit(500, mean=1.0),
        lambda: Simulation().visit(500, mean=0.98),
    ),
    "all rewards are equal from some time on": (
        "reward_values",
        lambda: Simulation().visit(500).visit(500, mean=0.0),
        lambda: Simulation().visit(1000, mean=0.02),
    ),
    "only positive rewards": (
        "reward_values",
        lambda: Simulation().visit(500, mean=0.2, reported=(1.0,)),
        lambda: Simulation().visit(1500, match_rate=0.4, mean=0.2),
    ),
    "predictions are biased": (
        "calibration",
        lambda: Simulation().visit(2000, mean=0.1).visit(600, mean=0.9),
        lambda: Simulation().visit(2600, mean=0.1),
    ),
    "too little exploration": (
        "exploration",
        lambda: Simulation(exploration=0.001, holdout=0.0).visit(400),
        lambda: Simulation(exploration=0.0, holdout=0.05).visit(400),
    ),
    "values of the wrong type": (
        "contexts",
        lambda: Simulation().visit(100, size=1.0).visit(100, size="large"),
        lambda: Simulation().visit(300, size=1.0, missing=0.5),
    ),
    "frequent features have no slot": (
        "contexts",
        lambda: Simulation(schema={"y": ["p", "q", "r"]}).visit(1).visit(300, **MANY_FEATURES),
        lambda: Simulation(schema={"y": ["p", "q", "r"]}).visit(1).visit(600, f0=1.0),
    ),
    "a feature vanished": (
        "features",
        lambda: Simulation().visit(600, size=1.0).visit(200),
        lambda: Simulation().visit(800, size=1.0),
    ),
    "a feature appeared": (
        "features",
        lambda: Simulation().visit(600).visit(200, size=1.0),
        lambda: Simulation().visit(30).visit(770, size=1.0),
    ),
    "a feature is missing more often": (
        "features",
        lambda: Simulation().visit(600, missing=0.3).visit(300, missing=0.7),
        lambda: Simulation().visit(900, missing=0.3),
    ),
    "a feature is missing less often": (
        "features",
        lambda: Simulation().visit(600, missing=0.6).visit(300, missing=0.1),
        lambda: Simulation().visit(900, missing=0.6),
    ),
    "the clock was set back": (
        "clock",
        lambda: Simulation().visit(200).visit(1100, seconds=-100.0),
        lambda: Simulation().visit(1300),
    ),
    "the clock jumped forward": (
        "clock",
        lambda: Simulation().visit(600).wait(400 * DAY).visit(1),
        lambda: Simulation().visit(600).wait(DAY / 2).visit(1),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_problem_fails_its_check_and_normal_traffic_passes(case: str) -> None:
    name, broken, normal = CASES[case]
    assert broken().results()[name] is False
    results = normal().results()
    assert results[name] is True
    assert False not in results.values()


@pytest.mark.parametrize("arm", [0, 1], ids=["more", "less"])
def test_choices_that_contradict_the_logged_propensities_fail(arm: int) -> None:
    simulation = Simulation(policy="uniform").visit(300)
    assert simulation.results()["propensities"] is True
    sums = simulation.experiment.state.tally.forecasts._rows()
    sums[2, arm] += (100, -80)[arm]  # as if the arm had been chosen more or less often than its propensities
    assert simulation.results()["propensities"] is False
    assert f"chosen {('more', 'less')[arm]} often" in simulation.text("propensities")


@pytest.mark.parametrize(
    ("case", "cause"),
    [
        ("no reward has ever arrived", "before the reward timeout"),
        ("rewards stopped arriving", "before, 68.5% of the decisions had one"),
        ("only positive rewards", "report 0 as well, or set reward_timeout and default_reward=0"),
        ("frequent features have no slot", "of the recent contexts have a value of 'f"),
        ("a feature vanished", "'size' has vanished"),
        ("a feature appeared", "'size' has appeared"),
        ("a feature is missing more often", "'x' was missing in 28% of the contexts, now 77%"),
    ],
)
def test_a_failed_check_names_the_cause(case: str, cause: str) -> None:
    name, broken, _ = CASES[case]
    assert cause in broken().text(name)


def test_an_identifier_among_the_features_is_named() -> None:
    simulation = Simulation()
    for number in range(300):
        simulation.visit(1, size=1.0, visitor=f"v{number}", city=f"c{number % 10}")
    assert simulation.results()["contexts"] is False
    assert re.search(r"^'visitor': up to 9\d\.\d% of the values are new ones", simulation.text("contexts"))


def test_default_rewards_are_not_reported_rewards() -> None:
    simulation = Simulation(**DEFAULT_ZERO).visit(1000, mean=0.1, reported=(1.0,)).wait(61)
    assert re.search(r"(8|9|10|11)\.\d% of the decisions have a reported reward", simulation.text("rewards"))
    assert "the others count as 0 after the timeout" in simulation.text("rewards")
    answer = stats.stats(simulation.experiment, Activity())
    assert answer.match_rate == pytest.approx(0.1, abs=0.03)
    assert answer.lift.bandit.n + answer.lift.holdout.n == 1000


def test_rewards_above_the_lowest_one_are_not_a_problem_in_a_range() -> None:
    simulation = Simulation(rewards=(0.0, 5.0)).visit(1000, match_rate=0.2, mean=1.0)
    assert simulation.results()["reward_values"] is None
    assert "report 0 as well" in simulation.text("reward_values")


def test_calibration_needs_rewards_that_differ() -> None:
    assert Simulation().visit(500, mean=0.2, reported=(1.0,)).results()["calibration"] is None
    assert Simulation(**DEFAULT_ZERO).visit(600, reported=()).results()["calibration"] is None


def test_an_alarm_about_a_feature_ends_after_a_day() -> None:
    simulation = Simulation().visit(600).visit(200, size=1.0)
    assert simulation.wait(DAY).visit(1, size=1.0).results()["features"] is True


def test_late_rewards_have_not_stopped() -> None:
    """After a pause, decisions resume at once and their rewards only after their usual delay."""
    arrivals, time = Arrivals(), 0.0
    for _ in range(1000):
        time += 1
        arrivals.add_decision(time)
        arrivals.add_report(delay=100.0)
    for _ in range(90):
        time += 1
        arrivals.add_decision(time)
    assert not arrivals.have_stopped(time)
    for _ in range(500):
        time += 1
        arrivals.add_decision(time)
    assert arrivals.have_stopped(time)
    for _ in range(20):
        arrivals.add_report(delay=100.0)
    assert not arrivals.have_stopped(time)


def test_the_state_of_the_checks_is_bounded() -> None:
    features, clock, values = Features(), ClockVitals(), RewardValues()
    for step in range(2000):
        features.add({"x": 1, f"key {step}": 2}, step)
        features.add([1] * 1000, step)
        clock.add(step)
        values.add(step / 2000, True)
    assert len(features.series) <= 200
    assert sum(len(msgspec.msgpack.encode(part)) for part in (features, clock, values)) < 20_000


@pytest.mark.parametrize("pipeline", ["never", "clicks only"])
def test_a_broken_pipeline_fails_within_500_settled_decisions(pipeline: str) -> None:
    for seed in range(10_000, 10_003):
        assert health_benchmark.settled_until_alarm(pipeline, 0.05, seed) <= 500


@pytest.mark.parametrize("pipeline", ["default", "all reported"])
def test_a_healthy_pipeline_with_one_click_in_a_hundred_rarely_fails(pipeline: str) -> None:
    alarms = sum(
        health_benchmark.has_false_alarm(pipeline, 0.01, 1000, seed) for seed in range(10_000, 10_020)
    )
    assert alarms <= 3  # at a rate of 5 %, more have a probability of 2 %


@pytest.mark.parametrize("rewards", health_benchmark.REWARDS)
def test_predictions_that_are_off_by_a_factor_of_two_fail_and_those_that_are_right_do_not(
    rewards: str,
) -> None:
    for seed in range(10_000, 10_003):
        assert health_benchmark.decisions_until_biased(rewards, 1.0, 4000, seed) is None
        assert health_benchmark.decisions_until_biased(rewards, 2.0, 12_000, seed) is not None


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_calibration_is_relative_to_the_mean_and_does_not_depend_on_the_unit(scale: float) -> None:
    def are_calibrated(n: int, predicted: float) -> bool | None:
        block = TallyBlock(
            0.0, 0.0, n, predictions=n, predicted=n * predicted * scale, observed=n * 0.02 * scale
        )
        block.magnitude, block.changes, block.squared_errors = block.observed, n // 30, n * 0.02 * scale**2
        return health.are_calibrated(Tally(blocks=[block]))

    assert are_calibrated(500, 0.04) is None
    assert are_calibrated(5000, 0.04) is False
    assert are_calibrated(10_000_000, 0.0215) is True
    assert are_calibrated(10_000_000, 0.0225) is False


def uploaded(simulation: Simulation, bandit: Bandit) -> Simulation:
    content = b"".join(_model_file.chunks(bandit._snapshot()))
    simulation.experiment.apply("replace_model", content, simulation.time)
    return simulation


def test_after_an_upload_contexts_are_checked_over_the_whole_history_of_the_bandit() -> None:
    simulation = Simulation().visit(450, size=1.0).visit(30, size="large")
    assert simulation.results()["contexts"] is True
    for before in (0, 150):
        assert (
            uploaded(Simulation().visit(before), simulation.experiment.bandit).results()["contexts"] is True
        )


def test_after_an_upload_propensities_are_checked_from_the_start() -> None:
    simulation = uploaded(Simulation().visit(150), Bandit(["a", "b"], policy="linucb")).visit(5)
    assert simulation.results()["propensities"] is None


def test_predictions_are_reported_in_the_unit_of_the_rewards() -> None:
    texts = [
        next(check.text for check in health.checks(simulation.experiment) if check.check == "calibration")
        for simulation in (
            Simulation().visit(800, mean=0.5),
            Simulation(rewards=(0.0, 4.0)).visit(800, mean=0.5),
        )
    ]
    assert re.search(r"recent means: [\d.]+% predicted, [\d.]+% observed", texts[0])
    assert re.search(r"recent means: [\d.]+ predicted, [\d.]+ observed", texts[1])


def test_with_a_single_arm_there_is_nothing_to_explore() -> None:
    assert Simulation(arms=["only"]).visit(200).results()["exploration"] is None


def test_a_missing_holdout_and_missing_predictions_do_not_fail() -> None:
    results = Simulation(holdout=0.0, policy="uniform").visit(300).results()
    assert results["holdout"] is None
    assert results["calibration"] is None
    assert False not in results.values()


def test_recent_predictions_are_averaged_over_all_decisions() -> None:
    simulation = Simulation(arms=["a", "b"]).visit(500)
    answer = stats.stats(simulation.experiment, Activity())
    assert [arm.arm for arm in answer.arms] == ["a", "b"]
    for arm in answer.arms:
        assert arm.predicted == pytest.approx(0.3, abs=0.15)
    simulation.experiment.apply("add_arm", NewArm(name="c"), simulation.time)
    assert stats.stats(simulation.experiment, Activity()).arms[2].predicted is None
    simulation.visit(1)
    simulation.experiment.apply("remove_arm", NewArm(name="a"), simulation.time)
    simulation.visit(1)
    assert simulation.experiment.state.tally.forecasts.arms == ("b", "c")
    assert simulation.experiment.state.tally.forecasts.predicted()["b"] == pytest.approx(0.3, abs=0.15)


def test_blocks_count_every_decision_and_reward_once() -> None:
    simulation = Simulation().visit(5000, match_rate=0.5)
    answer = stats.stats(simulation.experiment, Activity())
    assert len(answer.blocks) <= 200
    assert sum(block.decisions for block in answer.blocks) == answer.counts.decisions == 5000
    assert sum(block.bandit_n for block in answer.blocks) == answer.lift.bandit.n
    assert sum(block.holdout_n for block in answer.blocks) == answer.lift.holdout.n
    assert all(sum(block.shares.values()) == pytest.approx(1) for block in answer.blocks)


def test_blocks_contain_the_shares_of_the_most_chosen_arms_only() -> None:
    simulation = Simulation(arms=[f"arm {number}" for number in range(40)], policy="ucb1").visit(400)
    results = {arm for block in stats.stats(simulation.experiment, Activity()).blocks for arm in block.shares}
    assert len(results) == 12


def test_removed_arms_leave_only_their_number_of_decisions() -> None:
    simulation = Simulation(arms=["a", "b", "c"], holdout=1.0).visit(300)
    tally = simulation.experiment.state.tally
    before = {arm.arm: arm for arm in stats.stats(simulation.experiment, Activity()).arms}
    size = len(msgspec.msgpack.encode(tally))
    for number in range(100):
        simulation.experiment.apply("add_arm", NewArm(name=f"arm {number}"), simulation.time)
        simulation.visit(5)
        simulation.experiment.apply("remove_arm", NewArm(name=f"arm {number}"), simulation.time)
    assert tally.whole.arms.keys() == {"a", "b", "c"}
    assert len(msgspec.msgpack.encode(tally)) < 3 * size
    simulation.experiment.apply("remove_arm", NewArm(name="c"), simulation.time)
    answer = stats.stats(simulation.experiment, Activity())
    assert all("c" not in block.shares for block in answer.blocks)
    for arm in answer.arms:
        assert arm.decisions > before[arm.arm].decisions
        assert arm.share == pytest.approx(arm.decisions / 800)
    simulation.experiment.apply("add_arm", NewArm(name="c"), simulation.time)
    assert stats.stats(simulation.experiment, Activity()).arms[-1].decisions == 0


def test_a_tally_survives_a_snapshot_bit_for_bit() -> None:
    tally = Simulation().visit(50).experiment.state.tally
    content = msgspec.msgpack.encode(tally)
    again = msgspec.msgpack.decode(content, type=Tally)
    assert msgspec.msgpack.encode(again) == content
    assert again.forecasts.predicted() == tally.forecasts.predicted()
    assert ArmForecasts().largest_deviation() is None


def test_the_info_of_an_experiment_contains_its_lift_and_health() -> None:
    simulation = Simulation().visit(200)
    summary = encode(responses.experiment_info(simulation.experiment))
    row = ExperimentRow(1, simulation.experiment.name, 200, 200, summary)
    info = stored_experiment_info(row)
    assert info is not None
    assert info.lift.bandit.n + info.lift.holdout.n == 200
    assert info.health[0].check == "rewards"
