"""Requests and responses of Azure Personalizer as those of the service."""

import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from glcb import Bandit, InvalidInput
from glcb._api.personalizer import (
    PersonalizerMultiSlotRankRequest,
    PersonalizerMultiSlotRewardRequest,
    PersonalizerRankRequest,
)
from glcb._api.requests import Candidate
from glcb._api.responses import Decision
from glcb.evaluate import convert
from glcb.evaluate.formats.dsjson import flatten
from glcb.integrations.personalizer import (
    canonical_path,
    decision_id,
    decision_request,
    error_response,
    rank_response,
    ranking_request,
    slot_rewards,
)

ACTIONS: list[dict[str, Any]] = [
    {"id": "pasta", "features": [{"taste": {"salty": True}}, {"price": 3}]},
    {"id": "salad", "features": [{"price": 2}]},
    {"id": "soup", "features": []},
]
SLOTS: list[dict[str, Any]] = [
    {"id": "top", "baselineAction": "soup", "features": [{"size": "large"}]},
    {"id": "side", "baselineAction": "pasta"},
]


def single(**changes: Any) -> PersonalizerRankRequest:
    return msgspec.convert({"actions": ACTIONS, **changes}, PersonalizerRankRequest)


def multi(**changes: Any) -> PersonalizerMultiSlotRankRequest:
    return msgspec.convert({"actions": ACTIONS, "slots": SLOTS, **changes}, PersonalizerMultiSlotRankRequest)


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        (None, {"constant": 1.0}),
        ([], {"constant": 1.0}),
        ([{"a": 1}, {"b": None}], {"a": 1, "b": None}),
        ([{"a": {"b": {"c": "x"}}}], {"a.b.c": "x"}),
        ([{"tags": ["x", "y"], "v": [1, 2.5]}], {"tags.x": True, "tags.y": True, "v.0": 1, "v.1": 2.5}),
        ([{"a": [{"b": 1}, {"c": [2]}]}], {"a.b": 1, "a.c.0": 2}),
        ([{"a": 1}, {"a": 2}], {"a": 2}),
    ],
)
def test_features_are_flattened(features: Any, expected: dict[str, Any]) -> None:
    request = decision_request(single(contextFeatures=features), "e1", has_catalog=False)
    assert request.context == expected
    assert Bandit(arms=["x", "y"]).decide(request.context).arm in ("x", "y")


def test_a_context_has_the_same_features_as_in_a_log_of_personalizer(tmp_path: Path) -> None:
    context = [{"timeofday": "Afternoon", "user": {"likes": ["noir"]}}]
    line = {
        "_label_cost": -0.5,
        "_label_probability": 0.8,
        "_label_Action": 2,
        "_labelIndex": 1,
        "EventId": "e1",
        "a": [2, 1],
        "p": [0.8, 0.2],
        "c": {
            "FromUrl": context,
            "_multi": [
                {"_tag": "pasta", "i": {"constant": 1, "id": "pasta"}, "j": ACTIONS[0]["features"]},
                {"_tag": "salad", "i": {"constant": 1, "id": "salad"}, "j": ACTIONS[1]["features"]},
            ],
        },
    }
    log, converted = tmp_path / "log.dsjson", tmp_path / "log.jsonl"
    log.write_text(json.dumps(line) + "\n")
    assert convert(log, converted).rows == 1
    row = json.loads(converted.read_text())
    request = decision_request(single(contextFeatures=context), "e1", has_catalog=True)
    assert isinstance(request.arms, list)
    assert row["context"] == request.context
    assert (row["arm"], row["reward"], row["propensity"]) == ("salad", 0.5, 0.8)
    assert row["arm_features"] == request.arms[1].features == {"price": 2}
    for bandit in (Bandit(arms={}, rewards=(0, 1)), Bandit(arms=["pasta", "salad"], rewards=(0, 1))):
        assert bandit.learn_from(converted).learned == 1


def test_the_candidates_have_the_baseline_first_and_no_excluded_action() -> None:
    request = single(excludedActions=["pasta"], eventId="e1", deferActivation=True)
    among = decision_request(request, "e1", has_catalog=True)
    assert among.arms == [Candidate(arm="salad", features={"price": 2}), Candidate(arm="soup", features={})]
    assert among.eligible is None
    assert (among.id, among.idempotency_key, among.deferred) == ("e1", "e1", True)
    plain = decision_request(request, "e1", has_catalog=False)
    assert (plain.arms, plain.eligible) == (None, ["salad", "soup"])


def test_the_baselines_of_slots_come_first_in_their_order() -> None:
    request = ranking_request(multi(contextFeatures=[{"hour": 9}]), "e1", has_catalog=True)
    assert isinstance(request.arms, list)
    assert [candidate.arm for candidate in request.arms] == ["soup", "pasta", "salad"]
    assert (request.k, request.slot_names) == (2, ["top", "side"])
    assert request.context == {"hour": 9, "slot.top.size": "large"}


def test_excluded_actions_keep_their_position_and_the_others_are_sorted_by_probability() -> None:
    request = single(excludedActions=["pasta"])
    decision = Decision(
        id="e1",
        arm="salad",
        propensity=0.2,
        probabilities={"pasta": 0.0, "salad": 0.2, "soup": 0.8},
        holdout=False,
    )
    answer = rank_response(request, "e1", decision)
    assert [(one.id, one.probability) for one in answer.ranking] == [
        ("pasta", 0.0),
        ("salad", 0.2),
        ("soup", 0.8),
    ]
    assert answer.reward_action_id == "salad"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"actions": []}, "at least one action"),
        ({"actions": [*ACTIONS, ACTIONS[0]]}, "must differ, got 'pasta' more than once"),
        ({"excludedActions": ["pizza"]}, "got 'pizza'"),
        ({"excludedActions": ["pasta", "salad", "soup"]}, "leave at least one"),
    ],
)
def test_unusable_actions_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        decision_request(single(**changes), "e1", has_catalog=True)


def test_features_cannot_need_much_more_memory_than_their_request() -> None:
    long, names = "x" * 1_000, {f"{number}": 1 for number in range(101)}
    with pytest.raises(InvalidInput, match="at most 100,000 characters together"):
        decision_request(single(contextFeatures=[{long: names}]), "e1", False, 100_000)
    nested: dict[str, Any] = {"x": 1}
    for _ in range(90):
        nested = {long: nested}
    with pytest.raises(InvalidInput, match="at most 50,000 characters together"):
        decision_request(single(actions=[{"id": "a", "features": [nested]}]), "e1", True, 50_000)
    for _ in range(1_000):
        nested = {"x": nested}
    with pytest.raises(InvalidInput, match="nested too deeply"):
        flatten([nested])


def test_many_actions_and_slots_take_linear_time() -> None:
    actions = [{"id": f"{number}"} for number in range(20_000)]
    slots = [{"id": f"{number}", "baselineAction": f"{number}"} for number in reversed(range(20_000))]
    began = time.process_time()
    with pytest.raises(InvalidInput, match="got '19999' more than once"):
        decision_request(single(actions=[*actions, actions[-1]]), "e1", has_catalog=True)
    assert ranking_request(multi(actions=actions, slots=slots), "e1", has_catalog=False).k == 20_000
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("slots", "message"),
    [
        ([], "at least one slot"),
        ([{**SLOTS[0], "excludedActions": ["salad"]}, SLOTS[1]], "same excludedActions"),
        ([{**SLOTS[0], "excludedActions": ["soup"]}], "not excluded, got 'soup'"),
        ([{**SLOTS[0], "baselineAction": "pizza"}], "got 'pizza'"),
        ([SLOTS[0], {**SLOTS[1], "baselineAction": "soup"}], "different baselineAction"),
    ],
)
def test_unusable_slots_are_refused(slots: list[Any], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        ranking_request(multi(slots=slots), "e1", has_catalog=True)


def test_a_slot_has_one_reward() -> None:
    rewards = [{"slotId": "top", "value": 1}, {"slotId": "top", "value": 0}]
    with pytest.raises(InvalidInput, match="every slot can have one reward"):
        slot_rewards(msgspec.convert({"reward": rewards}, PersonalizerMultiSlotRewardRequest), "e1")


@pytest.mark.parametrize(
    ("event", "same"),
    [("9d6e-1_A", True), ("x" * 100, True), ("x" * 101, False), ("user@shop:1", False), ("é", False)],
)
def test_every_event_id_gives_the_id_of_a_decision(event: str, same: bool) -> None:
    found = decision_id(event)
    assert (found == event) is same
    assert Bandit(arms=["a", "b"]).decide({"x": 1}, id=found).id == found


def test_other_paths_remain() -> None:
    assert canonical_path("/v1/experiments") == "/v1/experiments"
    assert canonical_path("/personalizer/v1.0/events/v2/rank/reward") == (
        "/personalizer/v1.0/events/v2/rank/reward"
    )


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (400, (400, "BadRequest")),
        (422, (400, "BadRequest")),
        (401, (401, "Unauthorized")),
        (404, (404, "ResourceNotFound")),
        (500, (500, "InternalServerError")),
        (503, (503, "ServiceUnavailable")),
    ],
)
def test_errors_have_the_codes_of_personalizer(status: int, expected: tuple[int, str]) -> None:
    found, body = error_response("any_code", "why", status)
    assert (found, body.error.code) == expected
    assert (body.error.message, body.error.inner_error.code) == ("why", "any_code")
