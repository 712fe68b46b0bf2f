"""Deferred decisions, and slots with names."""

import json
from typing import Any

import msgspec
import numpy as np
import pytest

from glcb._api.requests import Activation, NewArm, RankingRequest
from glcb._errors import ClosedDecision, GlcbError, InvalidInput, UnknownDecision
from glcb.policies.glcb import kernels
from glcb.service.core.experiment import Experiment
from tests.support.builders import RecordedExperiment

CONTEXT = {"age": 31}
CATALOG = {name: {"price": float(number)} for number, name in enumerate("abc")}


def replayed(recorded: RecordedExperiment, snapshot_after: int | None = None) -> Experiment:
    """Return the experiment that results from the events, with a restart in between."""
    creation = recorded.experiment.state.creation
    experiment, _ = Experiment.create(creation, recorded.events[0].at)
    for number, event in enumerate(recorded.events[1:], 1):
        experiment.recover(event)
        if number == snapshot_after:
            experiment = Experiment.from_snapshot(experiment.snapshot())
    return experiment


def activate(recorded: RecordedExperiment, decision: str) -> bytes:
    return recorded.apply("activate", Activation(id=decision))


@pytest.mark.parametrize("arms", [list("abc"), CATALOG], ids=["names", "features"])
@pytest.mark.parametrize("default", [None, 0.0], ids=["no default", "default"])
def test_an_activated_decision_learns_as_if_it_had_never_been_deferred(arms: Any, default: Any) -> None:
    rules: dict[str, Any] = {"arms": arms, "reward_timeout": 60, "default_reward": default}
    deferring, plain = RecordedExperiment(**rules), RecordedExperiment(**rules)
    for number in range(20):
        for recorded in (deferring, plain):
            context = {"age": number}
            recorded.decide(context, id=f"e{number}", deferred=recorded is deferring)
            activate(recorded, f"e{number}")
            recorded.reward(f"e{number}", number % 2)
    assert deferring.experiment.bandit.counts == plain.experiment.bandit.counts
    predicted = [one.experiment.bandit.explain(CONTEXT).values.tolist() for one in (deferring, plain)]
    assert predicted[0] == predicted[1]


def test_without_activation_nothing_is_learned_and_no_default_reward_is_assigned() -> None:
    recorded = RecordedExperiment(reward_timeout=60, default_reward=0)
    recorded.decide(CONTEXT, id="shown")
    recorded.decide(CONTEXT, id="hidden", deferred=True)
    with pytest.raises(ClosedDecision, match="activate it before its reward"):
        recorded.reward("hidden", 1)
    recorded.now += 100
    recorded.apply("settle", b"")
    counts = recorded.experiment.bandit.counts
    assert (counts["timed_out"], counts["removed"], counts["pending"]) == (1, 1, 0)
    assert sum(recorded.experiment.bandit.reward_counts.values()) == 1  # the default reward of the other
    with pytest.raises(ClosedDecision, match="was not activated within its timeout of 60 seconds"):
        activate(recorded, "hidden")


def test_the_reward_of_an_activated_decision_compiles_no_further_kernel() -> None:
    recorded = RecordedExperiment(policy="glcb")
    recorded.reward(recorded.decide(CONTEXT).id, 1)
    recorded.decide(CONTEXT, id="later", deferred=True)
    activate(recorded, "later")
    recorded.reward("later", 1)
    load: Any = kernels.load_context
    assert len(load.signatures) == 1


def test_the_timeout_begins_at_the_activation() -> None:
    recorded = RecordedExperiment(reward_timeout=60, default_reward=0)
    recorded.decide(CONTEXT, id="late", deferred=True)
    recorded.now += 50
    activate(recorded, "late")
    recorded.now += 50
    recorded.reward("late", 1)
    assert recorded.experiment.bandit.counts["rewarded"] == 1


def test_only_known_decisions_can_be_activated_and_only_the_first_time_counts() -> None:
    recorded = RecordedExperiment()
    recorded.decide(CONTEXT, id="plain")
    recorded.decide(CONTEXT, id="deferred", deferred=True)
    with pytest.raises(UnknownDecision, match="'other' is unknown"):
        activate(recorded, "other")
    before = len(recorded.events)
    activate(recorded, "plain")
    assert len(recorded.events) == before
    activate(recorded, "deferred")
    activate(recorded, "deferred")
    assert len(recorded.events) == before + 1
    assert recorded.experiment.bandit.counts["pending"] == 2


def test_a_decision_whose_arm_was_removed_is_not_activated() -> None:
    recorded = RecordedExperiment()
    arm = recorded.decide(CONTEXT, id="gone", deferred=True).arm
    recorded.apply("remove_arm", NewArm(name=arm))
    with pytest.raises(ClosedDecision, match="its arm was removed"):
        activate(recorded, "gone")


def test_rewards_can_name_their_slot() -> None:
    recorded = RecordedExperiment()
    request = RankingRequest(context=CONTEXT, k=2, id="page", slot_names=["hero", "side"], deferred=True)
    ranking = json.loads(recorded.apply("rank", request))
    activate(recorded, "page")
    recorded.reward("page", 1, slot="side")
    assert recorded.experiment.bandit.reward_counts[ranking["arms"][1]] == 1
    with pytest.raises(InvalidInput, match="no slot 'top' in ranking 'page'; its slots are 'hero', 'side'"):
        recorded.reward("page", 1, slot="top")
    recorded.decide(CONTEXT, id="single")
    with pytest.raises(InvalidInput, match="its slots have no names"):
        recorded.reward("single", 1, slot="top")


@pytest.mark.parametrize("names", [["a"], ["a", "a"], ["a", "b", "c"]])
def test_slot_names_must_be_one_per_slot_and_differ(names: list[str]) -> None:
    recorded = RecordedExperiment()
    with pytest.raises(InvalidInput, match="slot_names"):
        recorded.apply("rank", RankingRequest(context=CONTEXT, k=2, slot_names=names))
    assert len(recorded.events) == 1


@pytest.mark.parametrize("default", [None, 0.0], ids=["no default", "default"])
def test_a_replay_and_a_restart_give_the_same_state(default: float | None) -> None:
    recorded = RecordedExperiment(reward_timeout=20, default_reward=default, max_pending=8)
    for number in range(40):
        recorded.decide({"age": number}, id=f"e{number}", deferred=number % 3 == 0)
        if number % 6 == 0 and number:
            activate(recorded, f"e{number - 3}")
        try:
            recorded.reward(f"e{number - number % 4}", number % 2)
        except GlcbError:
            continue
    expected = recorded.experiment.snapshot()
    assert replayed(recorded).snapshot().digest() == expected.digest()
    for restart_after in (10, 25, 40):
        found = replayed(recorded, restart_after).snapshot()
        assert msgspec.msgpack.decode(found.state) == msgspec.msgpack.decode(expected.state)
        for name, array in expected.bandit.arrays.items():
            assert np.array_equal(found.bandit.arrays[name], array), name


def test_a_deferred_ranking_with_more_slots_than_can_be_pending_is_refused_and_changes_nothing() -> None:
    recorded = RecordedExperiment(max_pending=2)
    before = recorded.experiment.snapshot().digest()
    request = RankingRequest(context=CONTEXT, k=3, deferred=True)
    with pytest.raises(InvalidInput, match="at most max_pending=2 slots, got 3"):
        recorded.apply("rank", request)
    assert recorded.experiment.snapshot().digest() == before


def test_an_id_that_is_used_again_is_not_confused_with_the_slots_of_an_earlier_ranking() -> None:
    recorded = RecordedExperiment(max_pending=3)
    recorded.apply("rank", RankingRequest(context=CONTEXT, k=3, id="e1"))
    for slot in range(3):
        recorded.reward("e1", 1, slot=slot)
    recorded.reward(recorded.decide(CONTEXT, id="other").id, 1)  # the first slot of e1 is forgotten
    recorded.decide(CONTEXT, id="e1", deferred=True)
    activate(recorded, "e1")
    assert recorded.experiment.bandit.counts["pending"] == 1
    assert replayed(recorded).snapshot().digest() == recorded.experiment.snapshot().digest()


def test_an_id_that_is_used_again_is_not_that_of_the_earlier_deferred_ranking() -> None:
    recorded = RecordedExperiment(max_pending=2)
    names = ["hero", "side"]
    recorded.apply("rank", RankingRequest(context=CONTEXT, k=2, id="e1", slot_names=names, deferred=True))
    for name in ("x", "y"):  # the bandit forgets e1
        recorded.reward(recorded.decide(CONTEXT, id=name).id, 1)
    recorded.decide(CONTEXT, id="e1")
    assert activate(recorded, "e1") == b"{}"  # it is not deferred
    assert recorded.experiment.bandit.counts["pending"] == 1
    with pytest.raises(InvalidInput, match="its slots have no names"):
        recorded.reward("e1", 1, slot="hero")
    recorded.reward("e1", 1)
    assert replayed(recorded).snapshot().digest() == recorded.experiment.snapshot().digest()


def test_a_ranking_with_more_slots_than_can_be_pending_is_restored_exactly() -> None:
    recorded = RecordedExperiment(max_pending=1, reward_timeout=60.0, default_reward=0.0, arms=CATALOG)
    recorded.apply("rank", RankingRequest(context=CONTEXT, k=2))
    recorded.now += 100
    recorded.apply("settle", b"")
    restarted = replayed(recorded, snapshot_after=1)
    assert restarted.snapshot().digest() == recorded.experiment.snapshot().digest()
