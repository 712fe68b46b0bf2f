"""An experiment: the same events lead to the same state, and what is refused changes nothing."""

import random
from typing import Any

import msgspec
import pytest

from glcb._api.requests import Changes, NewArm, Settings
from glcb._errors import GlcbError
from glcb.bandit import Bandit
from glcb.service.core import models
from glcb.service.core.experiment import Damaged, Experiment
from glcb.service.core.idempotency import Answered, Keys, Marks, Recall, digest
from glcb.service.core.restore import begun
from glcb.service.errors import Problem, as_problem
from tests.service.made import Played

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


def a_life(played: Played, steps: int = 120) -> None:
    """Let everything happen that can."""
    rng, waiting = random.Random(7), []
    for step in range(steps):
        context = {
            "age": rng.randint(18, 80),
            "country": rng.choice("ABCDE"),
            "odd": rng.choice([None, 1, "x", []]),
        }
        waiting.append(played.decide(context, idempotency_key=f"key {step}" if step % 3 == 0 else None).id)
        if rng.random() < 0.7:
            decision = waiting.pop(rng.randrange(len(waiting)))
            for key in (None, "again", "again"):
                try:
                    played.reward(decision, rng.randint(0, 1), idempotency_key=key)
                except GlcbError:
                    continue
        if step == 40:
            played.happen("add_arm", NewArm(name="d", like="a"))
        if step == 60:
            played.happen("change", Changes(exploration=0.2, holdout=0.3))
        if step == 80:
            played.happen("remove_arm", NewArm(name="b"))
        if step == 90:
            played.now += 100
            played.happen("settle", b"")


def replayed(played: Played) -> Experiment:
    experiment = begun(played.events[0])
    for event in played.events[1:]:
        experiment.replay(event)
    return experiment


@pytest.mark.parametrize("changes", COMBINATIONS, ids=lambda changes: "-".join(map(str, changes)))
def test_a_replay_is_the_same_bit_by_bit(changes: dict[str, Any]) -> None:
    played = Played(**changes)
    a_life(played)
    again = replayed(played)
    assert models.digest(again.freeze()) == models.digest(played.experiment.freeze())
    assert [event.sequence for event in played.events] == list(range(1, len(played.events) + 1))


@pytest.mark.parametrize("changes", COMBINATIONS, ids=lambda changes: "-".join(map(str, changes)))
def test_a_snapshot_goes_on_like_the_original(changes: dict[str, Any]) -> None:
    played = Played(**changes)
    a_life(played, 100)
    frozen = played.experiment.freeze()
    thawed = Experiment.thaw(models.unpacked(models.packed(frozen), models.digest(frozen)))
    assert models.digest(thawed.freeze()) == models.digest(played.experiment.freeze())
    before = len(played.events)
    for step in range(30):
        decision = played.decide({"age": step, "country": "A"})
        played.reward(decision.id, step % 2)
    for event in played.events[before:]:
        thawed.replay(event)
    assert models.digest(thawed.freeze()) == models.digest(played.experiment.freeze())


def test_a_log_that_was_altered_is_noticed() -> None:
    played = Played()
    a_life(played, 20)
    place = next(n for n, event in enumerate(played.events) if event.kind == "reward")
    altered = played.events[place]
    played.events[place] = altered._replace(request=altered.request.replace(b'"value":1', b'"value":0'))
    played.events[place + 1 :] = [
        event._replace(outcome=event.outcome.replace(b'"propensity":0.', b'"propensity":1.'))
        for event in played.events[place + 1 :]
    ]
    with pytest.raises(Damaged, match="comes out in another way"):
        replayed(played)


REFUSED: list[tuple[str, str, dict[str, Any]]] = [
    ("invalid_context", "decide", {"context": [1, 2]}),
    ("unknown_arm", "decide", {"context": {"age": 1}, "eligible": ["nobody"]}),
    ("idempotency_key_reused", "decide", {"context": {"age": 2}, "idempotency_key": "used"}),
    ("unknown_decision", "reward", {"decision": "99-00000000", "value": 1}),
    ("invalid_reward", "reward", {"decision": "waiting", "value": 0.5}),
    ("duplicate_reward", "reward", {"decision": "rewarded", "value": 1}),
]


@pytest.mark.parametrize(("code", "kind", "request_"), REFUSED, ids=[code for code, *_ in REFUSED])
def test_what_is_refused_changes_nothing(code: str, kind: str, request_: dict[str, Any]) -> None:
    played = Played()
    ids = {
        "waiting": played.decide({"age": 1}, idempotency_key="used").id,
        "rewarded": played.decide({"age": 3}).id,
    }
    played.reward(ids["rewarded"], 1)
    before, events = models.digest(played.experiment.freeze()), len(played.events)
    if "decision" in request_:
        request_ = request_ | {"decision": ids.get(request_["decision"], request_["decision"])}
    with pytest.raises(GlcbError) as caught:
        getattr(played, kind)(**request_)
    assert as_problem(caught.value).code == code
    assert models.digest(played.experiment.freeze()) == before
    assert len(played.events) == events


def test_the_same_key_gets_the_same_answer_and_writes_no_event() -> None:
    played = Played()
    first = played.decide({"age": 1}, idempotency_key="k")
    events = len(played.events)
    assert played.decide({"age": 1}, idempotency_key="k") == first
    assert len(played.events) == events
    played.reward(first.id, 1, idempotency_key="r")
    assert b"repeated" in played.reward(first.id, 1, idempotency_key="r")
    assert played.experiment.bandit.counts["rewarded"] == 1


def test_keys_are_remembered_for_the_last_ten_thousand_and_as_long_as_a_decision_waits() -> None:
    keys = Keys()
    for number in range(50_000):
        keys.add(f"k{number}", Answered(digest(b"asked"), str(number), number), waits=lambda own: own == "7")
        assert len(keys.answers) <= 20_002
    assert keys.find("k7", b"asked") == Recall(7)
    assert keys.find("k6", b"asked") is None
    assert {f"k{number}" for number in range(40_000, 50_000)} <= keys.answers.keys()


def test_only_marks_of_decisions_that_wait_are_kept() -> None:
    marks = Marks()
    for number in range(50_000):
        marks.add(str(number), waits=lambda own: int(own) % 1000 == 7)
    assert len(marks.ids) <= 1000
    assert marks.take("7")
    assert not marks.take("7")


def test_states_refuse_what_they_should() -> None:
    played = Played()
    decision = played.decide({"age": 1})
    played.happen("change", Changes(state="paused"))
    with pytest.raises(Problem) as caught:
        played.decide({"age": 1})
    assert caught.value.code == "experiment_paused"
    played.reward(decision.id, 1)
    played.happen("change", Changes(state="archived"))
    with pytest.raises(Problem) as caught:
        played.reward(decision.id, 1)
    assert caught.value.code == "experiment_archived"


def test_time_never_goes_back() -> None:
    played = Played(reward_timeout=10.0)
    decision = played.decide({"age": 1})
    latest = played.now
    played.now -= 5000
    played.decide({"age": 2})
    assert played.events[-1].at == latest
    played.now = latest + 9
    played.reward(decision.id, 1)


def test_the_holdout_is_drawn_evenly_and_marked() -> None:
    played = Played(policy="ucb1", holdout=0.25, exploration=0.0)
    held_out = 0
    for step in range(2000):
        decision = played.decide({"age": step})
        held_out += decision.holdout
        if decision.holdout:
            assert set(decision.probabilities.values()) == {1 / 3}
        played.reward(decision.id, decision.arm == "a")
    tally = played.experiment.around.tally
    assert 430 < held_out < 570
    assert tally.holdout.n == held_out
    assert tally.bandit.n == 2000 - held_out
    assert tally.bandit.total / tally.bandit.n > 0.9
    assert 0.25 < tally.holdout.total / tally.holdout.n < 0.42


def test_a_model_takes_the_place_of_another(tmp_path: Any) -> None:
    other = Bandit(["x", "y"], policy="linucb", rewards=(0.0, 10.0), reward_timeout=60.0)
    waiting = other.decide({"size": 3})
    other.save(tmp_path / "model.glcb")
    played = Played()
    played.reward(played.decide({"age": 1}).id, 1)
    played.happen("upload", (tmp_path / "model.glcb").read_bytes())
    around = played.experiment.around
    assert around.settings.arms == ["x", "y"]
    assert around.settings.rewards == (0.0, 10.0)
    assert around.tally.bandit.n == 0
    played.now = 0.0  # whatever time it was when the other one decided
    played.experiment.around.latest = 0.0
    played.reward(waiting.id, 7.5)
    assert around.tally.bandit.n == 1
    assert models.digest(replayed_after_upload(played).freeze()) == models.digest(played.experiment.freeze())


def replayed_after_upload(played: Played) -> Experiment:
    experiment = begun(played.events[0])
    for event in played.events[1:]:
        if event.kind == "reward" and event is played.events[-1]:
            experiment.around.latest = 0.0
        experiment.replay(event)
    return experiment


def test_a_saved_experiment_survives_json_of_its_creation() -> None:
    played = Played(rewards=(0.0, 2.0), schema={"age": "number"})
    again = msgspec.json.decode(played.events[0].request, type=type(played.experiment.around.creation))
    assert again == played.experiment.around.creation


def test_every_setting_is_on_record_so_that_another_default_would_change_nothing() -> None:
    played = Played()
    names = set(Settings.__struct_fields__)
    stored = msgspec.json.decode(played.events[0].request)
    assert stored["settings"].keys() == names
    around = msgspec.msgpack.decode(played.experiment.freeze().around)
    assert around["settings"].keys() == around["creation"]["settings"].keys() == names


def test_a_record_without_what_equals_the_defaults_can_be_read() -> None:
    played = Played()
    stored = msgspec.json.decode(played.events[0].request)
    stored["settings"] = {"arms": ["a", "b", "c"], "policy": "linucb"}
    short = played.events[0]._replace(request=msgspec.json.encode(stored))
    assert begun(short).around == played.experiment.around


def test_an_archived_experiment_cannot_be_changed_but_for_its_state() -> None:
    played = Played()
    a_life(played, 5)
    model = models.as_file(played.experiment.bandit.__getstate__())
    played.happen("change", Changes(state="archived"))
    before = models.digest(played.experiment.freeze())
    for kind, request in (
        ("change", Changes(exploration=0.2)),
        ("change", Changes(holdout=0.5)),
        ("change", Changes(state="archived", exploration_mode="uniform")),
        ("add_arm", NewArm(name="d")),
        ("upload", model),
    ):
        with pytest.raises(Problem) as caught:
            played.happen(kind, request)
        assert caught.value.code == "experiment_archived"
    assert models.digest(played.experiment.freeze()) == before
    played.happen("change", Changes(state="running", exploration=0.2))
    assert played.experiment.around.settings.exploration == 0.2
    played.happen("upload", model)
