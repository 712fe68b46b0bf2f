"""Health checks and statistics of an experiment."""

import random
import re
from typing import Any

import msgspec
import pytest

from glcb import _model_file
from glcb._api.requests import Creation, DecisionRequest, ExperimentSettings, NewArm, RewardItem, encode
from glcb.bandit import Bandit
from glcb.service import health, responses, stats
from glcb.service.core.experiment import Experiment
from glcb.service.core.tally import ArmForecasts, Tally
from glcb.service.metrics import Activity


class Simulation:
    """An experiment with simulated visitors."""

    def __init__(self, **settings: Any) -> None:
        arguments = {"arms": ["a", "b", "c"], "policy": "linucb", "holdout": 0.1, **settings}
        creation = Creation(name="home", salt="always the same", settings=ExperimentSettings(**arguments))
        self.experiment, _ = Experiment.create(creation, 0.0)
        self.rng = random.Random(10_000)
        self.time = 0.0

    def visit(
        self, visitors: int, match_rate: float = 1.0, mean: float = 0.3, missing: bool = False
    ) -> "Simulation":
        for _ in range(visitors):
            self.time += 1
            context = {"x": None if missing else self.rng.random(), "y": self.rng.choice("pqr")}
            _, answer = self.experiment.apply("decide", DecisionRequest(context=context), self.time)
            assert isinstance(answer, bytes)
            decision = msgspec.json.decode(answer)
            if self.rng.random() < match_rate:
                reward = RewardItem(id=decision["id"], value=float(self.rng.random() < mean))
                self.experiment.apply("reward", reward, self.time)
        return self

    def results(self) -> dict[str, bool | None]:
        return {check.check: check.ok for check in health.checks(self.experiment)}


def test_a_fresh_experiment_has_no_results_yet() -> None:
    results = Simulation().results()
    assert results.pop("holdout") is True
    assert set(results.values()) == {None}
    assert Simulation().visit(5).results()["rewards"] is None


def test_a_healthy_experiment_passes_every_check() -> None:
    results = Simulation().visit(600, match_rate=0.9).results()
    names = {"rewards", "calibration", "exploration", "propensities", "contexts", "holdout"}
    assert results == dict.fromkeys(names, True)


def test_a_low_or_falling_match_rate_fails() -> None:
    assert Simulation().visit(300, match_rate=0).results()["rewards"] is False
    assert Simulation().visit(800).visit(400, match_rate=0.1).results()["rewards"] is False


def test_biased_predictions_fail() -> None:
    simulation = Simulation().visit(2000, mean=0.1)
    assert simulation.results()["calibration"] is True
    assert simulation.visit(600, mean=0.9).results()["calibration"] is False


def test_predictions_are_reported_in_the_unit_of_the_rewards() -> None:
    texts = [
        next(check.text for check in health.checks(simulation.experiment) if check.check == "calibration")
        for simulation in (
            Simulation().visit(200, mean=1.0),
            Simulation(rewards=(0.0, 4.0)).visit(200, mean=1.0),
        )
    ]
    assert re.search(r"recent means: [\d.]+% predicted, 100\.0% observed", texts[0])
    assert re.search(r"recent means: [\d.]+ predicted, 1 observed", texts[1])


def test_stopped_exploration_fails_even_with_a_random_holdout() -> None:
    simulation = Simulation(exploration=0.0, holdout=0.3).visit(400)
    assert simulation.results()["exploration"] is False
    assert Simulation(arms=["only"]).visit(200).results()["exploration"] is None


def test_unusable_values_fail() -> None:
    assert Simulation().visit(300, missing=True).results()["contexts"] is False


def uploaded(simulation: Simulation, bandit: Bandit) -> Simulation:
    content = b"".join(_model_file.chunks(bandit.snapshot()))
    simulation.experiment.apply("upload", content, simulation.time)
    return simulation


def test_after_an_upload_contexts_are_checked_over_the_whole_history_of_the_bandit() -> None:
    simulation = Simulation().visit(450).visit(50, missing=True)
    assert simulation.results()["contexts"] is True
    for before in (0, 150):
        assert (
            uploaded(Simulation().visit(before), simulation.experiment.bandit).results()["contexts"] is True
        )


def test_after_an_upload_propensities_are_checked_from_the_start() -> None:
    simulation = uploaded(Simulation().visit(150), Bandit(["a", "b"], policy="linucb")).visit(5)
    assert simulation.results()["propensities"] is None


def test_choices_that_contradict_the_logged_propensities_fail() -> None:
    simulation = Simulation().visit(300)
    assert simulation.results()["propensities"] is True
    sums = simulation.experiment.state.tally.forecasts._rows()
    sums[2, 0] += 100  # as if the first arm had been chosen more often than its propensities say
    assert simulation.results()["propensities"] is False


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
    assert tally.arms.keys() == {"a", "b", "c"}
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
    info = responses.parse_experiment_info(encode(responses.experiment_info(simulation.experiment)))
    assert info is not None
    assert info.lift.bandit.n + info.lift.holdout.n == 200
    assert info.health[0].check == "rewards"
