"""The OpenFeature provider, called through the SDK."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from benchmarks.service.server import serving
from glcb import Bandit, InvalidSettings
from glcb.bandit import recorded
from glcb.client import Client
from tests.support.manual_clock import ManualClock

pytest.importorskip("openfeature")

from openfeature import api
from openfeature.client import OpenFeatureClient
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode
from openfeature.flag_evaluation import Reason
from openfeature.track import TrackingEventDetails

from glcb.integrations.openfeature import GlcbProvider

VISITOR = EvaluationContext("visitor-17", {"country": "FR", "cart": {"items": 3}})


def bandit(*arms: str | int, **settings: Any) -> Bandit:
    return Bandit(arms=list(arms), policy="linucb", **settings)


@pytest.fixture
def flags() -> Iterator[Callable[..., OpenFeatureClient]]:
    def with_provider(experiments: Any, **settings: Any) -> OpenFeatureClient:
        api.set_provider(GlcbProvider(experiments, **settings))
        return api.get_client()

    yield with_provider
    api.clear_providers()


def test_a_flag_is_a_decision_and_a_tracked_event_its_reward(
    flags: Callable[..., OpenFeatureClient],
) -> None:
    color = bandit("red", "blue")
    client = flags({"color": color})
    details = client.get_string_details("color", "none", VISITOR)
    assert details.value == details.variant
    assert details.value in color.arms
    assert details.reason == Reason.SPLIT
    assert recorded.is_pending(color, str(details.flag_metadata["decision_id"]))
    assert 0 < float(details.flag_metadata["propensity"]) <= 1
    assert color.schema is not None
    assert set(color.schema.features) == {"country", "cart.items"}
    client.track("color", VISITOR, TrackingEventDetails(0.0))
    client.track("color", VISITOR)  # a second reward of the same decision is ignored
    assert color.counts["rewarded"] == 1


def test_a_unit_keeps_its_variant_until_it_expires(flags: Callable[..., OpenFeatureClient]) -> None:
    clock = ManualClock()
    color = bandit("red", "blue", exploration=0.5)
    client = flags({"color": color}, sticky_for=60, clock=clock)
    first = client.get_string_details("color", "none", VISITOR)
    again = [
        client.get_string_details("color", "none", EvaluationContext("visitor-17", {"country": land}))
        for land in ("DE", "FR", "IT")
    ]
    assert {(each.variant, each.flag_metadata["decision_id"]) for each in again} == {
        (first.variant, first.flag_metadata["decision_id"])
    }
    assert {each.reason for each in again} == {Reason.CACHED}
    assert color.counts["decisions"] == 1
    client.get_string_value("color", "none", EvaluationContext("visitor-18"))
    assert color.counts["decisions"] == 2
    clock.now += 60
    later = client.get_string_details("color", "none", VISITOR)
    assert later.flag_metadata["decision_id"] != first.flag_metadata["decision_id"]


def test_a_unit_whose_arm_was_removed_gets_another(flags: Callable[..., OpenFeatureClient]) -> None:
    color = bandit("red", "blue")
    client = flags({"color": color})
    first = client.get_string_value("color", "none", VISITOR)
    color.remove_arm(first)
    again = client.get_string_details("color", "none", VISITOR)
    assert (again.value, again.reason) == (color.arms[0], Reason.SPLIT)
    assert color.counts == {**color.counts, "removed": 1, "pending": 1}


def test_only_the_newest_units_are_kept(flags: Callable[..., OpenFeatureClient]) -> None:
    color = bandit("red", "blue")
    client = flags({"color": color}, max_units=2)
    for unit in ("a", "b", "c"):
        client.get_string_value("color", "none", EvaluationContext(unit))
    for unit in ("a", "b", "c"):
        client.track("color", EvaluationContext(unit))
    assert color.counts["rewarded"] == 2


@pytest.mark.parametrize(
    ("method", "arms", "values", "expected"),
    [
        ("get_boolean_value", ["on", "off"], None, {True, False}),
        ("get_boolean_value", ["a", "b"], {"a": True, "b": False}, {True, False}),
        ("get_integer_value", ["10", "20"], None, {10, 20}),
        ("get_integer_value", [10, 20], None, {10, 20}),
        ("get_float_value", ["0.5", "2"], None, {0.5, 2.0}),
        ("get_string_value", [1, 2], None, {"1", "2"}),
    ],
)
def test_the_arm_becomes_a_value_of_the_type_of_the_flag(
    flags: Callable[..., OpenFeatureClient], method: str, arms: list[Any], values: Any, expected: set[Any]
) -> None:
    client = flags(
        {"flag": bandit(*arms, exploration=0.5)}, values=None if values is None else {"flag": values}
    )
    default: Any = {"get_boolean_value": False, "get_string_value": ""}.get(method, 0)
    seen = {getattr(client, method)("flag", default, EvaluationContext(f"unit-{n}")) for n in range(40)}
    assert seen == expected
    assert {type(value) for value in seen} == {type(value) for value in expected}


def test_an_object_flag_has_an_object_for_each_arm(flags: Callable[..., OpenFeatureClient]) -> None:
    layouts = {"wide": {"columns": 3}, "list": {"columns": 1}}
    client = flags({"layout": bandit("wide", "list")}, values={"layout": layouts})
    details = client.get_object_details("layout", {}, VISITOR)
    assert details.value == layouts[str(details.variant)]


@pytest.mark.parametrize(
    ("flag", "context", "code", "message"),
    [
        ("colour", VISITOR, ErrorCode.FLAG_NOT_FOUND, "there are 'color'"),
        ("color", EvaluationContext(None, {"age": 3}), ErrorCode.TARGETING_KEY_MISSING, "targeting key"),
    ],
)
def test_an_error_gives_the_default_and_a_code(
    flags: Callable[..., OpenFeatureClient], flag: str, context: EvaluationContext, code: str, message: str
) -> None:
    color = bandit("red", "blue")
    details = flags({"color": color}).get_string_details(flag, "green", context)
    assert (details.value, details.reason, details.error_code) == ("green", Reason.ERROR, code)
    assert message in str(details.error_message)
    assert color.counts["decisions"] == 0


def test_a_key_that_cannot_name_an_experiment_is_a_flag_that_is_not_found(
    flags: Callable[..., OpenFeatureClient],
) -> None:
    details = flags(Client("http://127.0.0.1:9")).get_string_details("New.Checkout", "steps", VISITOR)
    assert (details.value, details.error_code) == ("steps", ErrorCode.FLAG_NOT_FOUND)
    assert "got 'New.Checkout'" in str(details.error_message)


@pytest.mark.parametrize(
    ("method", "arms", "values"),
    [
        ("get_boolean_details", ["red", "blue"], None),
        ("get_integer_details", ["0.5", "1"], None),
        ("get_float_details", ["low", "high"], None),
        ("get_object_details", ["low", "high"], None),
        ("get_string_details", ["low", "high"], {"low": "", "high": {}}),
        ("get_string_details", ["low", "high"], {"low": ""}),
    ],
)
def test_a_type_that_some_arm_lacks_is_refused_before_the_decision(
    flags: Callable[..., OpenFeatureClient], method: str, arms: list[Any], values: Any
) -> None:
    experiment = bandit(*arms)
    client = flags({"flag": experiment}, values=None if values is None else {"flag": values})
    default: Any = {"get_boolean_details": True, "get_object_details": {}, "get_string_details": ""}
    details = getattr(client, method)("flag", default.get(method, 7), VISITOR)
    assert details.error_code == ErrorCode.TYPE_MISMATCH
    assert experiment.counts["decisions"] == 0


def test_an_event_rewards_the_flags_that_are_listed_for_it(
    flags: Callable[..., OpenFeatureClient],
) -> None:
    experiments = {"color": bandit("red", "blue"), "size": bandit("s", "m"), "text": bandit("a", "b")}
    client = flags(experiments, events={"purchase": ["color", "size"], "read": "text"})
    for flag in experiments:
        client.get_string_value(flag, "", VISITOR)
    client.track("purchase", VISITOR)
    client.track("unrelated", VISITOR)
    client.track("purchase", EvaluationContext("somebody else"))
    client.track("purchase")
    assert [experiment.counts["rewarded"] for experiment in experiments.values()] == [1, 1, 0]


def test_a_reward_that_is_refused_is_logged_and_not_raised(
    flags: Callable[..., OpenFeatureClient], caplog: pytest.LogCaptureFixture
) -> None:
    color = bandit("red", "blue")
    client = flags({"color": color})
    client.get_string_value("color", "", VISITOR)
    with caplog.at_level(logging.WARNING):
        client.track("color", VISITOR, TrackingEventDetails(19.9))
    assert "the reward of flag 'color' was rejected" in caplog.text
    assert color.counts["rewarded"] == 0


@pytest.mark.parametrize("settings", [{"sticky_for": 0}, {"max_units": 0}])
def test_invalid_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidSettings, match=next(iter(settings))):
        GlcbProvider({}, **settings)


@pytest.mark.live
def test_the_experiments_of_a_service_are_flags(
    flags: Callable[..., OpenFeatureClient], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("openfeature")
    with serving(["--data", str(folder / "glcb.db")]) as server, Client(server.url, retry_for=0) as service:
        color = service.create("color", ["red", "blue"], policy="linucb")
        client = flags(service)
        first, again = (client.get_string_details("color", "none", VISITOR) for _ in range(2))
        assert first.value in ("red", "blue")
        assert (again.value, again.reason) == (first.value, Reason.CACHED)
        client.track("color", VISITOR)
        assert color.info().counts.rewarded == 1
        missing = client.get_string_details("missing", "none", VISITOR)
        assert (missing.value, missing.error_code) == ("none", ErrorCode.FLAG_NOT_FOUND)
        color.pause()
        paused = client.get_string_details("color", "none", EvaluationContext("visitor-18"))
        assert (paused.value, paused.reason, paused.error_code) == ("none", Reason.DISABLED, None)
    unreachable = client.get_string_details("color", "none", EvaluationContext("visitor-19"))
    assert (unreachable.value, unreachable.error_code) == ("none", ErrorCode.GENERAL)
