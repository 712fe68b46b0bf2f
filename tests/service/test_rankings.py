"""Statistics of rankings: every slot counts as a decision."""

import itertools
import json
from typing import Any

import pytest

from glcb._api.requests import RankingRequest, RewardItem
from glcb.service.core.steering import Assignment, steered_slots
from glcb.service.process.metrics import Activity
from glcb.service.views import health, stats
from tests.support.builders import RecordedExperiment

CATALOG = {f"m{number}": {"price": float(number)} for number in range(6)}


class Rankings(RecordedExperiment):
    """An experiment that makes rankings."""

    def rank(self, k: int, **more: Any) -> dict[str, Any]:
        request = RankingRequest(context={"age": len(self.events) % 7}, k=k, **more)
        ranking: dict[str, Any] = json.loads(self.apply("rank", request))
        return ranking

    def check(self, name: str) -> bool | None:
        (found,) = [one for one in health.checks(self.experiment) if one.check == name]
        return found.ok


@pytest.mark.parametrize(
    ("arms", "slots"),
    [(list("abcdef"), 1), (list("abcdef"), 3), (CATALOG, 1)],
    ids=["names", "positions", "features"],
)
def test_every_slot_counts_as_a_decision(arms: Any, slots: int) -> None:
    recorded = Rankings(arms=arms, slots=slots, holdout=0.3)
    shown, favorite = 0, next(iter(arms))
    for _ in range(60):
        ranking = recorded.rank(3)
        clicked = ranking["arms"].index(favorite) if favorite in ranking["arms"] else 2
        shown += favorite in ranking["arms"]
        recorded.reward(ranking["id"], 1, slot=clicked, examined=3)
    found = stats.stats(recorded.experiment, Activity())
    assert (found.counts.decisions, found.counts.rewarded) == (180, 180)
    by_arm = {arm.arm: arm for arm in found.arms}
    assert by_arm[favorite].decisions == shown
    assert by_arm[favorite].share == shown / 180
    assert by_arm[favorite].reward_mean == 1.0
    assert by_arm[favorite].rewards == shown
    assert sum(arm.decisions for arm in found.arms) == 180
    assert found.lift.n == found.lift.bandit.n + found.lift.holdout.n == 180
    assert found.lift.holdout.n % 3 == 0
    assert found.lift.difference is not None
    assert found.lift.difference > 0
    assert sum(sum(block.shares.values()) * block.decisions for block in found.blocks) == pytest.approx(180)
    assert recorded.check("propensities") is True
    arrivals = recorded.experiment.state.tally.vitals.arrivals
    assert (arrivals.decisions, arrivals.reported) == (180, 60)  # slots without a click are not reported


def test_the_lift_of_a_slot_compares_with_a_random_choice_among_the_arms_that_remain() -> None:
    recorded = Rankings(arms=["a", "b", "c"], holdout=0.0, exploration=0.3, exploration_mode="uniform")
    for _ in range(30):
        ranking = recorded.rank(1)
        recorded.reward(ranking["id"], float(ranking["arms"] == ["a"]))
    explored: list[list[float]] = []
    for held_out in (False, True):
        bandit = recorded.experiment.bandit
        drawn = bandit.rank({"age": 3}, k=2, eligible=["a", "c"], uniform=held_out)
        assignment = Assignment(held_out, ["c", "a"], (), (), held_out, False)
        records = recorded.experiment.steering.records(steered_slots(drawn), drawn.candidates, assignment)
        slots = [record for record, _ in records]
        assert [slot.arm for slot in slots] == list(drawn.arms)
        first, last = (slot.weights for slot in slots)
        assert first is not None
        assert last is not None
        assert first.lowest < 0 < first.highest
        assert (last.lift, last.random) == (0.0, 1.0)  # a single arm remains
        explored.append([slot.explored for slot in slots])
    assert explored == [[pytest.approx(0.3), 0]] * 2  # that of the bandit, even in the holdout


def test_a_ranking_in_the_holdout_is_uniform() -> None:
    recorded = Rankings(arms=CATALOG, holdout=1.0)
    ranking = recorded.rank(3)
    assert ranking["holdout"] is True
    assert ranking["propensities"] == pytest.approx([1 / 6, 1 / 5, 1 / 4])


def test_altered_propensities_of_a_catalog_are_noticed() -> None:
    recorded = Rankings(arms=CATALOG, holdout=0.0)
    for _ in range(70):
        recorded.rank(2)
    assert recorded.check("propensities") is True
    names = recorded.experiment.state.tally.catalog
    names.expected -= 100.0  # type: ignore[union-attr]
    assert recorded.check("propensities") is False


def test_rankings_and_decisions_share_their_idempotency_keys() -> None:
    recorded = Rankings(arms=["a", "b", "c"])
    first = recorded.apply("rank", RankingRequest(context={"age": 1}, k=2, idempotency_key="k"))
    events = len(recorded.events)
    assert recorded.apply("rank", RankingRequest(context={"age": 1}, k=2, idempotency_key="k")) == first
    assert len(recorded.events) == events
    for again in (
        lambda: recorded.apply("rank", RankingRequest(context={"age": 1}, k=3, idempotency_key="k")),
        lambda: recorded.decide({"age": 1}, idempotency_key="k"),
    ):
        with pytest.raises(Exception, match="different request"):
            again()


@pytest.mark.parametrize("aggregation", ["first", "sum"])
def test_reports_of_slots_are_counted_once(aggregation: str) -> None:
    recorded = Rankings(arms=CATALOG, reward_timeout=100.0, reward_aggregation=aggregation)
    ranking = recorded.rank(4)["id"]
    for key, slot in itertools.product("xxy", (0, 2)):
        if aggregation == "sum" or key == "x":
            recorded.reward(ranking, 1, slot=slot, idempotency_key=key)
    recorded.reward(ranking, 0)  # that of slots 1 and 3
    arrivals = recorded.experiment.state.tally.vitals.arrivals
    assert (arrivals.decisions, arrivals.reported) == (4, 4)
    repeated = recorded.apply("reward", RewardItem(id=ranking, value=1, slot=2, idempotency_key="x"))
    assert json.loads(repeated)["status"] == "duplicate"


def test_decisions_that_time_out_while_a_ranking_is_not_examined_are_counted() -> None:
    recorded = Rankings(reward_timeout=10.0, default_reward=0.0)
    for _ in range(40):
        recorded.rank(1)
        recorded.reward(recorded.rank(2)["id"], 0, examined=0)
    recorded.now += 100
    recorded.apply("settle", b"")
    found = stats.stats(recorded.experiment, Activity())
    assert found.counts.timed_out == found.lift.bandit.n + found.lift.holdout.n == 40
