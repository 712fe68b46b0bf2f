"""The checks of an experiment say what is wrong, and nothing when all is well."""

import random
import re
from typing import Any

import msgspec
import pytest

from glcb import _model_file
from glcb._api.requests import Creation, DecisionRequest, NewArm, RewardOf, Settings
from glcb.bandit import Bandit
from glcb.service import health, stats, views
from glcb.service.core.experiment import Experiment
from glcb.service.core.live import Activity
from glcb.service.core.outlook import Outlook
from glcb.service.core.tally import Tally


class World:
    """An experiment, and visitors one after the other."""

    def __init__(self, **settings: Any) -> None:
        given = {"arms": ["a", "b", "c"], "policy": "linucb", "holdout": 0.1, **settings}
        creation = Creation(name="world", salt="always the same", settings=Settings(**given))
        self.experiment, _ = Experiment.create(creation, 0.0)
        self.rng = random.Random(10_000)
        self.time = 0.0

    def visited(self, times: int, joined: float = 1.0, chance: float = 0.3, odd: bool = False) -> "World":
        for _ in range(times):
            self.time += 1
            context = {"x": None if odd else self.rng.random(), "y": self.rng.choice("pqr")}
            _, answer = self.experiment.apply("decide", DecisionRequest(context=context), self.time)
            assert isinstance(answer, bytes)
            found = msgspec.json.decode(answer)
            if self.rng.random() < joined:
                reward = RewardOf(id=found["id"], value=float(self.rng.random() < chance))
                self.experiment.apply("reward", reward, self.time)
        return self

    def told(self) -> dict[str, bool | None]:
        return {check.check: check.ok for check in health.checks(self.experiment)}


def test_a_fresh_experiment_is_too_young_to_be_judged() -> None:
    told = World().told()
    assert told.pop("holdout") is True
    assert set(told.values()) == {None}
    assert World().visited(5).told()["rewards"] is None


def test_a_healthy_one_passes_every_check() -> None:
    told = World().visited(600, joined=0.9).told()
    names = {"rewards", "calibration", "exploration", "propensities", "contexts", "holdout"}
    assert told == dict.fromkeys(names, True)


def test_rewards_that_do_not_come_are_noticed() -> None:
    assert World().visited(300, joined=0).told()["rewards"] is False
    assert World().visited(800).visited(400, joined=0.1).told()["rewards"] is False


def test_predictions_that_no_longer_come_true_are_noticed() -> None:
    world = World().visited(2000, chance=0.1)
    assert world.told()["calibration"] is True
    assert world.visited(600, chance=0.9).told()["calibration"] is False


def test_predictions_are_told_in_the_unit_of_the_rewards() -> None:
    texts = [
        next(check.text for check in health.checks(world.experiment) if check.check == "calibration")
        for world in (World().visited(200, chance=1.0), World(rewards=(0.0, 4.0)).visited(200, chance=1.0))
    ]
    assert re.search(r"[\d.]+% was predicted on average, and 100\.0% came", texts[0])
    assert re.search(r"of late [\d.]+ was predicted on average, and 1 came", texts[1])


def test_dead_exploration_is_noticed_though_the_holdout_still_draws() -> None:
    world = World(exploration=0.0, holdout=0.3).visited(400)
    assert world.told()["exploration"] is False
    assert World(arms=["only"]).visited(200).told()["exploration"] is None


def test_values_that_cannot_be_used_are_noticed() -> None:
    assert World().visited(300, odd=True).told()["contexts"] is False


def uploaded(world: World, bandit: Bandit) -> World:
    content = b"".join(_model_file.pieces(bandit.__getstate__()))
    world.experiment.apply("upload", content, world.time)
    return world


def test_after_an_upload_contexts_are_judged_by_all_that_the_bandit_has_seen() -> None:
    world = World().visited(450).visited(50, odd=True)
    assert world.told()["contexts"] is True
    for before in (0, 150):
        assert uploaded(World().visited(before), world.experiment.bandit).told()["contexts"] is True


def test_after_an_upload_propensities_are_judged_anew() -> None:
    world = uploaded(World().visited(150), Bandit(["a", "b"], policy="linucb")).visited(5)
    assert world.told()["propensities"] is None


def test_arms_played_otherwise_than_logged_are_noticed() -> None:
    world = World().visited(300)
    assert world.told()["propensities"] is True
    sums = world.experiment.around.tally.outlook._rows()
    sums[2, 0] += 100  # as if the first arm had been played more often than its probabilities say
    assert world.told()["propensities"] is False


def test_without_a_holdout_or_predictions_nothing_is_blamed() -> None:
    told = World(holdout=0.0, policy="uniform").visited(300).told()
    assert told["holdout"] is None
    assert told["calibration"] is None
    assert False not in told.values()


def test_what_is_predicted_of_late_counts_wherever_a_decision_was_made() -> None:
    world = World(arms=["a", "b"]).visited(500)
    answer = stats.stats(world.experiment, Activity())
    assert [arm.arm for arm in answer.arms] == ["a", "b"]
    for arm in answer.arms:
        assert arm.predicted == pytest.approx(0.3, abs=0.15)
    world.experiment.apply("add_arm", NewArm(name="c"), world.time)
    assert stats.stats(world.experiment, Activity()).arms[2].predicted is None
    world.visited(1)
    world.experiment.apply("remove_arm", NewArm(name="a"), world.time)
    world.visited(1)
    assert world.experiment.around.tally.outlook.arms == ("b", "c")
    assert world.experiment.around.tally.outlook.predicted()["b"] == pytest.approx(0.3, abs=0.15)


def test_blocks_tell_everything_once() -> None:
    world = World().visited(5000, joined=0.5)
    answer = stats.stats(world.experiment, Activity())
    assert len(answer.blocks) <= 200
    assert sum(block.decisions for block in answer.blocks) == answer.counts.decisions == 5000
    assert sum(block.bandit_n for block in answer.blocks) == answer.lift.bandit.n
    assert sum(block.holdout_n for block in answer.blocks) == answer.lift.holdout.n
    assert all(sum(block.shares.values()) == pytest.approx(1) for block in answer.blocks)


def test_of_many_arms_only_the_most_played_have_shares() -> None:
    world = World(arms=[f"arm {number}" for number in range(40)], policy="ucb1").visited(400)
    told = {arm for block in stats.stats(world.experiment, Activity()).blocks for arm in block.shares}
    assert len(told) == 12


def test_arms_that_are_gone_leave_no_more_than_their_number_of_decisions() -> None:
    world = World(arms=["a", "b", "c"], holdout=1.0).visited(300)
    tally = world.experiment.around.tally
    before = {arm.arm: arm for arm in stats.stats(world.experiment, Activity()).arms}
    size = len(msgspec.msgpack.encode(tally))
    for number in range(100):
        world.experiment.apply("add_arm", NewArm(name=f"arm {number}"), world.time)
        world.visited(5)
        world.experiment.apply("remove_arm", NewArm(name=f"arm {number}"), world.time)
    assert tally.arms.keys() == {"a", "b", "c"}
    assert len(msgspec.msgpack.encode(tally)) < 3 * size
    world.experiment.apply("remove_arm", NewArm(name="c"), world.time)
    answer = stats.stats(world.experiment, Activity())
    assert all("c" not in block.shares for block in answer.blocks)
    for arm in answer.arms:
        assert arm.decisions > before[arm.arm].decisions
        assert arm.share == pytest.approx(arm.decisions / 800)
    world.experiment.apply("add_arm", NewArm(name="c"), world.time)
    assert stats.stats(world.experiment, Activity()).arms[-1].decisions == 0


def test_sums_survive_a_snapshot_bit_by_bit() -> None:
    tally = World().visited(50).experiment.around.tally
    content = msgspec.msgpack.encode(tally)
    again = msgspec.msgpack.decode(content, type=Tally)
    assert msgspec.msgpack.encode(again) == content
    assert again.outlook.predicted() == tally.outlook.predicted()
    assert Outlook().oddest() is None


def test_an_experiment_is_shown_with_its_lift_and_health() -> None:
    world = World().visited(200)
    view = views.parsed(views.encoded(views.experiment(world.experiment)))
    assert view is not None
    assert view.lift.bandit.n + view.lift.holdout.n == 200
    assert view.health[0].check == "rewards"
