"""The packages of Azure Personalizer, unchanged, as clients of the service."""

import json
import math
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.service.server import Server
from glcb.client import Client, Experiment
from glcb.service.access import api_keys
from glcb.service.storage.connection import sqlite_url
from glcb.service.storage.database import Database

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # those of the packages themselves
    pytest.importorskip("azure.ai.personalizer")
    from azure.ai.personalizer import PersonalizerClient as MultiSlotClient
    from azure.cognitiveservices.personalizer import PersonalizerClient
    from azure.cognitiveservices.personalizer.models import (
        ErrorResponseException,
        RankableAction,
        RankRequest,
    )
    from azure.core.credentials import AzureKeyCredential
    from azure.core.exceptions import ClientAuthenticationError, HttpResponseError, ResourceNotFoundError
    from msrest.authentication import CognitiveServicesCredentials
    from msrest.exceptions import HttpOperationError

pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("ignore")]

CONTEXT = [{"user": {"age": 31, "country": "FR"}}, {"hour": 14}]
MENU = {"pasta": {"price": 3.0}, "salad": {"price": 2.0}, "soup": {"price": 1.0}}
ACTIONS = [RankableAction(id=name, features=[features]) for name, features in MENU.items()]
SLOTS = [{"id": "top", "baselineAction": "pasta"}, {"id": "side", "baselineAction": "salad"}]

Loop = Callable[[str], Experiment]


@pytest.fixture(scope="module")
def keys(server: Server) -> dict[str, str]:
    """API keys of a server with three experiments: one per experiment, and one for all of them."""
    common: dict[str, Any] = {"policy": "linucb", "rewards": (0, 1), "reward_timeout": 600}
    with Client(server.url) as admin:
        admin.create("menu", arms={}, default_reward=0, **common)
        admin.create("plain", arms=list(MENU), **common)
        admin.create("page", arms={}, slots=2, **common)
    database = Database(sqlite_url(server.store[1]))
    try:
        added = {
            "admin": api_keys.add_key(database, "admin", "admin"),
            **{
                name: api_keys.add_key(database, name, "decide", [name]) for name in ("menu", "plain", "page")
            },
            "two": api_keys.add_key(database, "two", "decide", ["menu", "plain"]),
            "reader": api_keys.add_key(database, "reader", "read", ["menu"]),
        }
    finally:
        database.close()
    deadline = time.monotonic() + 30
    while httpx.get(f"{server.url}/v1/experiments").status_code != 401:
        assert time.monotonic() < deadline, "the keys have no effect"
        time.sleep(0.05)
    return added


@pytest.fixture
def single(server: Server, keys: dict[str, str]) -> Iterator[Any]:
    """Return a function that returns a client with a key."""
    with ExitStack() as stack:

        def client(key: str = "menu") -> PersonalizerClient:
            credentials = CognitiveServicesCredentials(keys.get(key, key))
            return stack.enter_context(closing(PersonalizerClient(server.url, credentials)))

        yield client


@pytest.fixture
def multi(server: Server, keys: dict[str, str]) -> Iterator[MultiSlotClient]:
    with MultiSlotClient(server.url, AzureKeyCredential(keys["page"]), retry_total=0) as client:
        yield client


@pytest.fixture
def loop(server: Server, keys: dict[str, str]) -> Iterator[Loop]:
    """Return a function that returns an experiment for inspection."""
    with Client(server.url, api_key=keys["admin"]) as client:
        yield client.experiment


def menu_actions() -> list[dict[str, Any]]:
    return [{"id": name, "features": [features]} for name, features in MENU.items()]


def message_of(error: HttpOperationError) -> str:
    """Return the message of a failed reward or activation, which the package leaves in the response."""
    return str(error.response.json()["error"]["message"])


def test_rank_and_reward(single: Any, loop: Loop) -> None:
    answer = single().rank(
        RankRequest(actions=ACTIONS, context_features=CONTEXT, event_id="lunch-1", excluded_actions=["pasta"])
    )
    assert answer.event_id == "lunch-1"
    assert answer.reward_action_id in ("salad", "soup")
    assert [action.id for action in answer.ranking][:2] == ["pasta", answer.reward_action_id]
    assert math.isclose(sum(action.probability for action in answer.ranking), 1)
    assert answer.ranking[0].probability == 0
    before = loop("menu").info().counts.rewarded
    single().events.reward("lunch-1", 0.75)
    assert loop("menu").info().counts.rewarded == before + 1


def test_an_event_is_a_decision_with_flat_features_in_the_export(
    single: Any, loop: Loop, tmp_path: Path
) -> None:
    answer = single().rank(RankRequest(actions=ACTIONS, context_features=CONTEXT))
    loop("menu").export(tmp_path / "menu.jsonl")
    lines = (tmp_path / "menu.jsonl").read_text(encoding="utf-8").splitlines()
    (event,) = [row for row in map(json.loads, lines) if row.get("id") == answer.event_id]
    assert event["context"] == {"user.age": 31, "user.country": "FR", "hour": 14}
    assert event["slots"][0]["arm"] == answer.reward_action_id
    assert [arm["arm"] for arm in event["arms"]] == list(MENU)  # the baseline is the first one
    assert event["arms"][0]["features"] == {"price": 3.0}


def test_a_repeated_request_gets_the_same_answer_and_a_second_reward_changes_nothing(
    single: Any, loop: Loop
) -> None:
    request = RankRequest(actions=ACTIONS, context_features=CONTEXT, event_id="retry me / 1")
    answers = [single().rank(request) for _ in range(3)]
    assert len({answer.reward_action_id for answer in answers}) == 1
    assert {answer.event_id for answer in answers} == {"retry me / 1"}
    single().events.reward("retry me / 1", 1)
    before = loop("menu").info().counts
    single().events.reward("retry me / 1", 0)
    assert loop("menu").info().counts == before


def test_a_deferred_event_learns_only_after_its_activation(single: Any, loop: Loop) -> None:
    request = RankRequest(actions=ACTIONS, context_features=CONTEXT, event_id="later", defer_activation=True)
    before = loop("menu").info().counts
    single().rank(request)
    after = loop("menu").info().counts
    assert (after.pending, after.removed) == (before.pending, before.removed + 1)
    with pytest.raises(HttpOperationError) as caught:
        single().events.reward("later", 1)
    assert "activate it before its reward" in message_of(caught.value)
    for _ in range(2):
        single().events.activate("later")
    assert loop("menu").info().counts.pending == before.pending + 1
    single().rank(request)  # a retry does not defer it again
    single().events.reward("later", 1)
    assert loop("menu").info().counts.rewarded == before.rewarded + 1


def test_actions_are_the_arms_of_an_experiment_without_features(single: Any, loop: Loop) -> None:
    answer = single("plain").rank(RankRequest(actions=ACTIONS[1:], context_features=CONTEXT))
    assert answer.reward_action_id in ("salad", "soup")
    single("plain").events.reward(answer.event_id, 1)
    assert loop("plain").info().counts.rewarded == 1
    unknown = RankableAction(id="pizza", features=[{}])
    with pytest.raises(ErrorResponseException, match="pizza") as caught:
        single("plain").rank(RankRequest(actions=[unknown], context_features=CONTEXT))
    assert caught.value.error.error.code == "BadRequest"


def test_several_slots(multi: MultiSlotClient, loop: Loop) -> None:
    request = {
        "actions": menu_actions(),
        "slots": SLOTS,
        "contextFeatures": CONTEXT,
        "eventId": "page-1",
        "deferActivation": True,
    }
    answer = multi.rank_multi_slot(request)
    assert [slot["id"] for slot in answer["slots"]] == ["top", "side"]
    assert len({slot["rewardActionId"] for slot in answer["slots"]}) == 2
    multi.activate_multi_slot("page-1")
    multi.reward_multi_slot("page-1", {"reward": [{"slotId": "side", "value": 0.5}]})
    assert loop("page").info().counts.rewarded == 1
    with pytest.raises(HttpResponseError, match="no slot 'bottom'"):
        multi.reward_multi_slot(
            "page-1", {"reward": [{"slotId": "top", "value": 1.0}, {"slotId": "bottom", "value": 1.0}]}
        )
    with pytest.raises(HttpResponseError, match="from 0 to 1"):
        multi.reward_multi_slot(
            "page-1", {"reward": [{"slotId": "top", "value": 1.0}, {"slotId": "side", "value": 7.0}]}
        )
    assert loop("page").info().counts.rewarded == 1
    multi.reward_multi_slot("page-1", {"reward": [{"slotId": "top", "value": 1.0}]})
    assert loop("page").info().counts.rewarded == 2


def test_the_newer_package_ranks_and_rewards_single_slots_as_well(multi: MultiSlotClient) -> None:
    answer = multi.rank({"actions": menu_actions(), "contextFeatures": CONTEXT, "deferActivation": True})
    multi.activate(answer["eventId"])
    multi.reward(answer["eventId"], {"value": 1.0})


@pytest.mark.parametrize(
    ("key", "status", "code", "message"),
    [
        ("wrong", 401, "Unauthorized", "unknown"),
        ("two", 403, "Forbidden", "limited to one experiment"),
        ("admin", 403, "Forbidden", "limited to one experiment"),
        ("reader", 403, "Forbidden", "role"),
    ],
)
def test_a_key_must_be_one_of_the_loop(
    single: Any, loop: Loop, key: str, status: int, code: str, message: str
) -> None:
    before = loop("menu").info().counts
    with pytest.raises(ErrorResponseException, match=message) as caught:
        single(key).rank(RankRequest(actions=ACTIONS, context_features=CONTEXT))
    assert (caught.value.response.status_code, caught.value.error.error.code) == (status, code)
    assert loop("menu").info().counts == before


@pytest.mark.parametrize(
    ("request_fields", "message"),
    [
        ({"actions": []}, "at least one action"),
        ({"actions": [ACTIONS[0], ACTIONS[0]]}, "must differ"),
        ({"context_features": [{"age": math.nan}]}, "NaN is not valid JSON"),
        ({"context_features": [3]}, "Expected `object`"),
        ({"excluded_actions": ["pizza"]}, "pizza"),
        ({"actions": [RankableAction(id="x" * 201, features=[{}])]}, "length <= 200"),
    ],
)
def test_the_sdk_reports_what_is_wrong_with_a_request(
    single: Any, loop: Loop, request_fields: dict[str, Any], message: str
) -> None:
    before = loop("menu").info().counts
    fields = {"actions": ACTIONS, "context_features": CONTEXT, **request_fields}
    with pytest.raises(ErrorResponseException, match=message) as caught:
        single().rank(RankRequest(**fields))
    error = caught.value.error.error
    assert error.code == "BadRequest"
    assert message in error.message
    assert caught.value.response.status_code == 400
    assert loop("menu").info().counts == before


def test_unknown_events_and_invalid_rewards_are_refused(
    single: Any, multi: MultiSlotClient, loop: Loop
) -> None:
    for operation, more in (("reward", [1]), ("activate", [])):
        with pytest.raises(HttpOperationError) as caught:
            getattr(single().events, operation)("nobody", *more)
        assert caught.value.response.status_code == 404
        assert "unknown" in message_of(caught.value)
        assert caught.value.response.json()["error"]["code"] == "ResourceNotFound"
    with pytest.raises(ResourceNotFoundError) as missing:
        multi.reward("nobody", {"value": 1.0})
    assert missing.value.error is not None
    assert missing.value.error.code == "ResourceNotFound"
    answer = single().rank(RankRequest(actions=ACTIONS, context_features=CONTEXT))
    before = loop("menu").info().counts
    for value, message in ((2.0, "from 0 to 1"), (math.nan, "NaN is not valid JSON")):
        with pytest.raises(HttpOperationError) as caught:
            single().events.reward(answer.event_id, value)
        assert message in message_of(caught.value)
    assert loop("menu").info().counts == before


def test_a_wrong_key_is_an_authentication_error(server: Server, keys: dict[str, str]) -> None:
    client = MultiSlotClient(server.url, AzureKeyCredential("wrong"), retry_total=0)
    with client, pytest.raises(ClientAuthenticationError, match="the API key is unknown"):
        client.rank_multi_slot({"actions": menu_actions(), "slots": SLOTS})
