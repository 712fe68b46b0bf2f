"""Experiments: the same events lead to the same state, and a rejected request changes nothing."""

import random
from typing import Any

import msgspec
import pytest

from glcb._api.guardrails import STEERING
from glcb._api.requests import ExperimentChanges, ExperimentSettings, NewArm
from glcb._errors import GlcbError, InvalidSettings
from glcb.bandit import Bandit
from glcb.service.core import models
from glcb.service.core.experiment import CorruptLog, Experiment
from glcb.service.core.idempotency import IdempotencyKeys, RepeatedAnswer, StoredAnswer, digest
from glcb.service.core.models import ExperimentSnapshot
from glcb.service.engine.engine import Engine
from glcb.service.engine.snapshots import from_first_event
from glcb.service.errors import as_api_error
from tests.support.builders import RecordedExperiment, rejected, replay, settings

COMBINATIONS: list[dict[str, Any]] = [
    {"policy": "glcb"},
    {"policy": "lints"},
    {
        "policy": "glcb",
        "rewards": (0.0, 5.0),
        "reward_timeout": 20.0,
        "default_reward": 0.0,
        "reward_aggregation": "sum",
    },
    {"policy": "linucb", "max_pending": 5, "holdout": 0.5},
]


def run_through_all_events(recorded: RecordedExperiment, steps: int = 120) -> None:
    """Apply every kind of event."""
    rng, pending = random.Random(7), []
    for step in range(steps):
        context = {
            "age": rng.randint(18, 80),
            "country": rng.choice("ABCDE"),
            "odd": rng.choice([None, 1, "x", []]),
        }
        pending.append(recorded.decide(context, idempotency_key=f"key {step}" if step % 3 == 0 else None).id)
        if rng.random() < 0.7:
            decision = pending.pop(rng.randrange(len(pending)))
            for key in (None, "again", "again"):
                try:
                    recorded.reward(decision, rng.randint(0, 1), idempotency_key=key)
                except GlcbError:
                    continue
        if step == 40:
            recorded.apply("add_arm", NewArm(name="d", like="a"))
        if step == 60:
            recorded.apply("change", ExperimentChanges(exploration=0.2, holdout=0.3))
        if step == 70:
            schema = {"age": {"kind": "number", "range": [0, 100]}, "country": ["A", "B"], "odd": "category"}
            recorded.apply("change", ExperimentChanges(schema=schema))
        if step == 80:
            recorded.apply("remove_arm", NewArm(name="b"))
        if step == 90:
            recorded.now += 100
            recorded.apply("settle", b"")


@pytest.mark.parametrize("changes", COMBINATIONS, ids=lambda changes: "-".join(map(str, changes)))
def test_a_replay_restores_the_same_state_bit_for_bit(changes: dict[str, Any]) -> None:
    recorded = RecordedExperiment(**changes)
    run_through_all_events(recorded)
    again = replay(recorded.events)
    assert again.snapshot().digest() == recorded.experiment.snapshot().digest()
    assert [event.sequence for event in recorded.events] == list(range(1, len(recorded.events) + 1))


@pytest.mark.parametrize("changes", COMBINATIONS, ids=lambda changes: "-".join(map(str, changes)))
def test_a_restored_snapshot_continues_like_the_original(changes: dict[str, Any]) -> None:
    recorded = RecordedExperiment(**changes)
    run_through_all_events(recorded, 100)
    snapshot = recorded.experiment.snapshot()
    restored = Experiment.from_snapshot(ExperimentSnapshot.unpack(snapshot.pack(), snapshot.digest()))
    assert restored.snapshot().digest() == recorded.experiment.snapshot().digest()
    before = len(recorded.events)
    for step in range(30):
        decision = recorded.decide({"age": step, "country": "A"})
        recorded.reward(decision.id, step % 2)
    for event in recorded.events[before:]:
        restored.recover(event)
    assert restored.snapshot().digest() == recorded.experiment.snapshot().digest()


def test_nested_contexts_are_counted_by_the_path_of_their_features() -> None:
    nested, flat = RecordedExperiment(), RecordedExperiment()
    for step in range(200):
        country = "AB"[step % 2]
        for recorded, context in (
            (nested, {"user": {"country": country}}),
            (flat, {"user.country": country}),
        ):
            decision = recorded.decide(context)
            recorded.reward(decision.id, step % 2)
    states = [recorded.experiment.state for recorded in (nested, flat)]
    assert states[0].tally == states[1].tally
    assert list(states[0].tally.segments.features) == ["user.country"]
    assert nested.experiment.bandit.schema == flat.experiment.bandit.schema
    assert replay(nested.events).snapshot().digest() == nested.experiment.snapshot().digest()


REJECTED: list[tuple[str, str, dict[str, Any]]] = [
    ("invalid_context", "decide", {"context": [1, 2]}),
    ("unknown_arm", "decide", {"context": {"age": 1}, "eligible": ["unknown"]}),
    ("idempotency_key_reused", "decide", {"context": {"age": 2}, "idempotency_key": "used"}),
    ("unknown_decision", "reward", {"decision": "99-00000000", "value": 1}),
    ("invalid_reward", "reward", {"decision": "pending", "value": 0.5}),
    ("duplicate_reward", "reward", {"decision": "rewarded", "value": 1}),
]


@pytest.mark.parametrize(("code", "kind", "request_"), REJECTED, ids=[code for code, *_ in REJECTED])
def test_a_rejected_request_changes_nothing(code: str, kind: str, request_: dict[str, Any]) -> None:
    recorded = RecordedExperiment()
    ids = {
        "pending": recorded.decide({"age": 1}, idempotency_key="used").id,
        "rewarded": recorded.decide({"age": 3}).id,
    }
    recorded.reward(ids["rewarded"], 1)
    before, events = recorded.experiment.snapshot().digest(), len(recorded.events)
    if "decision" in request_:
        request_ = request_ | {"decision": ids.get(request_["decision"], request_["decision"])}
    with pytest.raises(GlcbError) as caught:
        getattr(recorded, kind)(**request_)
    assert as_api_error(caught.value).code == code
    assert recorded.experiment.snapshot().digest() == before
    assert len(recorded.events) == events


def test_a_repeated_idempotency_key_gets_the_same_answer_and_writes_no_event() -> None:
    recorded = RecordedExperiment()
    first = recorded.decide({"age": 1}, idempotency_key="k")
    events = len(recorded.events)
    assert recorded.decide({"age": 1}, idempotency_key="k") == first
    assert len(recorded.events) == events
    recorded.reward(first.id, 1, idempotency_key="r")
    assert b"duplicate" in recorded.reward(first.id, 1, idempotency_key="r")
    assert recorded.experiment.bandit.counts["rewarded"] == 1


def test_the_last_ten_thousand_keys_and_those_of_pending_decisions_are_kept() -> None:
    stored_keys = IdempotencyKeys()
    for number in range(50_000):
        answer = StoredAnswer(digest(b"request"), str(number), number)
        stored_keys.add(f"k{number}", answer, is_pending=lambda decision: decision == "7")
        assert len(stored_keys.answers) <= 20_002
    assert stored_keys.find("k7", digest(b"request")) == RepeatedAnswer(7)
    assert stored_keys.find("k6", digest(b"request")) is None
    assert {f"k{number}" for number in range(40_000, 50_000)} <= stored_keys.answers.keys()


def open_decisions(recorded: RecordedExperiment) -> int:
    state = msgspec.msgpack.decode(recorded.experiment.snapshot().state)
    return len(state["open_decisions"])


def test_only_pending_decisions_are_kept_for_the_statistics() -> None:
    recorded = RecordedExperiment(max_pending=20)
    for step in range(100):
        decision = recorded.decide({"age": step})
        if step % 3 == 0:
            recorded.reward(decision.id, 1)
    assert open_decisions(recorded) == recorded.experiment.bandit.counts["pending"] == 19


def test_the_open_decisions_of_a_removed_arm_are_dropped() -> None:
    recorded = RecordedExperiment(policy="uniform", reward_timeout=1000.0, default_reward=0.0)
    for step in range(90):
        recorded.decide({"age": step})
    for arm in ("b", "c"):
        recorded.apply("remove_arm", NewArm(name=arm))
        assert open_decisions(recorded) == recorded.experiment.bandit.counts["pending"]
    assert 0 < open_decisions(recorded) < 90


def test_with_a_timeout_rewards_are_counted_in_the_order_of_their_decisions() -> None:
    recorded = RecordedExperiment(holdout=0.0, reward_timeout=1000.0, default_reward=0.0)
    tally = recorded.experiment.state.tally
    decisions = [recorded.decide({"age": step}) for step in range(20)]
    for decision in decisions[10:]:
        recorded.reward(decision.id, 1)  # clicks; without the order, the mean reward would be 1
    assert recorded.experiment.bandit.counts["rewarded"] == 10
    assert tally.whole.bandit.n == 0
    recorded.now += 1000
    recorded.apply("settle", b"")
    assert (tally.whole.bandit.n, tally.whole.bandit.mean, tally.whole.lift.n) == (20, 0.5, 20)
    assert (tally.vitals.values.n, tally.vitals.values.reported, tally.vitals.arrivals.reported) == (
        20,
        10,
        10,
    )
    assert replay(recorded.events).snapshot().digest() == recorded.experiment.snapshot().digest()


def test_a_decision_with_several_rewards_has_one_report() -> None:
    recorded = RecordedExperiment(reward_timeout=1000.0, reward_aggregation="max", default_reward=0.0)
    first, second, _ = (recorded.decide({"age": step}) for step in range(3))
    for value in (0, 1, 0):
        recorded.reward(first.id, value)
    recorded.reward(second.id, 0)
    assert recorded.experiment.state.tally.vitals.arrivals.reported == 2
    recorded.now += 1000
    recorded.apply("settle", b"")
    values = recorded.experiment.state.tally.vitals.values
    assert (values.n, values.reported, values.reported_low, values.at_high) == (3, 2, 1, 1)


def test_a_paused_experiment_rejects_decisions_and_an_archived_one_rewards_too() -> None:
    recorded = RecordedExperiment()
    decision = recorded.decide({"age": 1})
    recorded.apply("change", ExperimentChanges(state="paused"))
    with rejected("experiment_paused"):
        recorded.decide({"age": 1})
    recorded.reward(decision.id, 1)
    recorded.apply("change", ExperimentChanges(state="archived"))
    with rejected("experiment_archived"):
        recorded.reward(decision.id, 1)


def test_event_times_never_decrease() -> None:
    recorded = RecordedExperiment(reward_timeout=10.0)
    decision = recorded.decide({"age": 1})
    last = recorded.now
    recorded.now -= 5000
    recorded.decide({"age": 2})
    assert recorded.events[-1].at == last
    recorded.now = last + 9
    recorded.reward(decision.id, 1)


def test_the_holdout_is_uniform_and_counted_separately() -> None:
    recorded = RecordedExperiment(policy="ucb1", holdout=0.25, exploration=0.0)
    held_out = 0
    for step in range(2000):
        decision = recorded.decide({"age": step})
        held_out += decision.holdout
        if decision.holdout:
            assert set(decision.probabilities.values()) == {1 / 3}
        recorded.reward(decision.id, decision.arm == "a")
    tally = recorded.experiment.state.tally
    assert 430 < held_out < 570
    assert tally.whole.holdout.n == held_out
    assert tally.whole.bandit.n == 2000 - held_out
    assert tally.whole.bandit.total / tally.whole.bandit.n > 0.9
    assert 0.25 < tally.whole.holdout.total / tally.whole.holdout.n < 0.42


def test_an_uploaded_model_replaces_the_bandit(tmp_path: Any) -> None:
    other = Bandit(["x", "y"], policy="linucb", rewards=(0.0, 10.0), reward_timeout=60.0)
    pending = other.decide({"size": 3})
    other.save(tmp_path / "model.glcb")
    recorded = RecordedExperiment()
    recorded.reward(recorded.decide({"age": 1}).id, 1)
    recorded.apply("replace_model", (tmp_path / "model.glcb").read_bytes())
    state = recorded.experiment.state
    assert state.settings.arms == ["x", "y"]
    assert state.settings.rewards == (0.0, 10.0)
    assert state.tally.whole.bandit.n == 0
    recorded.now = 0.0  # before the decision of the uploaded model
    recorded.experiment.state.last_event_at = 0.0
    recorded.reward(pending.id, 7.5)
    assert recorded.experiment.bandit.counts["rewarded"] == 1
    assert state.tally.whole.bandit.n == 0  # the statistics begin with the upload
    assert replay_after_upload(recorded).snapshot().digest() == recorded.experiment.snapshot().digest()


def replay_after_upload(recorded: RecordedExperiment) -> Experiment:
    experiment = from_first_event(recorded.events[0])
    for event in recorded.events[1:]:
        if event.kind == "reward" and event is recorded.events[-1]:
            experiment.state.last_event_at = 0.0
        experiment.recover(event)
    return experiment


def test_a_creation_survives_json() -> None:
    recorded = RecordedExperiment(rewards=(0.0, 2.0), schema={"age": "number"})
    again = msgspec.json.decode(recorded.events[0].request, type=type(recorded.experiment.state.creation))
    assert again == recorded.experiment.state.creation


def test_every_setting_is_stored_so_that_new_defaults_change_nothing() -> None:
    recorded = RecordedExperiment()
    names = set(ExperimentSettings.__struct_fields__) - {*STEERING, "paused_arms"}  # those have no defaults
    stored = msgspec.json.decode(recorded.events[0].request)
    assert stored["settings"].keys() == names
    state = msgspec.msgpack.decode(recorded.experiment.snapshot().state)
    assert state["settings"].keys() == state["creation"]["settings"].keys() == names


def test_a_stored_creation_without_default_values_can_be_read() -> None:
    recorded = RecordedExperiment()
    stored = msgspec.json.decode(recorded.events[0].request)
    stored["settings"] = {"arms": ["a", "b", "c"], "policy": "linucb"}
    short = recorded.events[0]._replace(request=msgspec.json.encode(stored))
    assert from_first_event(short).state == recorded.experiment.state


def test_only_the_state_of_an_archived_experiment_can_change() -> None:
    recorded = RecordedExperiment()
    run_through_all_events(recorded, 5)
    model = models.model_file(recorded.experiment.bandit._snapshot())
    recorded.apply("change", ExperimentChanges(state="archived"))
    before = recorded.experiment.snapshot().digest()
    for kind, request in (
        ("change", ExperimentChanges(exploration=0.2)),
        ("change", ExperimentChanges(holdout=0.5)),
        ("change", ExperimentChanges(state="archived", exploration_mode="uniform")),
        ("add_arm", NewArm(name="d")),
        ("replace_model", model),
    ):
        with rejected("experiment_archived"):
            recorded.apply(kind, request)
    assert recorded.experiment.snapshot().digest() == before
    recorded.apply("change", ExperimentChanges(state="running", exploration=0.2))
    assert recorded.experiment.state.settings.exploration == 0.2
    recorded.apply("replace_model", model)


@pytest.mark.parametrize(
    "changes",
    [
        {"schema": {"age": [0, 10**25]}},
        {"schema": {"age": {"kind": "number", "range": [0, 10**25]}}},
        {"policy_settings": {"alpha": 10**25}},
    ],
    ids=str,
)
async def test_integers_that_no_snapshot_can_hold_are_refused(
    engine: Engine, changes: dict[str, Any]
) -> None:
    with pytest.raises(InvalidSettings, match="integers must have at most 64 bits, got 1"):
        await engine.create("home", settings(**changes))
    assert await engine.list_experiments(lambda name: True) == []


def test_missing_events_are_named() -> None:
    recorded = RecordedExperiment()
    run_through_all_events(recorded, 5)
    experiment = from_first_event(recorded.events[0])
    with pytest.raises(CorruptLog, match=r"events 2 to 3 of 'home' are missing"):
        experiment.recover(recorded.events[3])
