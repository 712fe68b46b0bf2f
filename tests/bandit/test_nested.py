"""Nested contexts, and values that can be no feature."""

import datetime
import json
import uuid
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from glcb import Bandit, InvalidContext, InvalidInput
from glcb.bandit import recorded
from glcb.bandit.encoding.values import MAX_LEVELS
from glcb.evaluate import evaluate
from glcb.route import Router
from tests.support.bandits import FAST, full_state
from tests.support.encoders import encoded, opened


def nested(age: int) -> dict[str, Any]:
    country = "FR" if age % 2 else "DE"
    since = {"date": f"2026-11-{age % 28 + 1:02}"}
    return {"age": age, "user": {"country": country, "shop": {"since": since, "likes": ["noir"]}}}


def flat(age: int) -> dict[str, Any]:
    user = nested(age)["user"]
    names = {f"user.shop.{name}": value for name, value in user["shop"].items()}
    return {"age": age, "user.country": user["country"], **names}


def decided(context: Any, path: Path | None = None) -> Bandit:
    """Return a bandit that has used contexts in every way."""
    bandit = Bandit(["a", "b"], **FAST)
    bandit.log_to(path)
    for age in range(30):
        decision = bandit.decide(context(age))
        bandit.reward(decision.id, int((decision.arm == "a") == bool(age % 2)))
    for decision in bandit.decide_many([context(40), context(41)]):
        bandit.reward(decision.id, 1)
    bandit.log_to(None)
    return bandit


def test_a_nested_context_is_the_same_as_a_flat_one(tmp_path: Path) -> None:
    one, other = decided(nested, tmp_path / "nested.jsonl"), decided(flat, tmp_path / "flat.jsonl")
    assert full_state(one) == full_state(other)
    assert {"user.country", "user.shop.since.weekday"} <= set(one.schema.features)  # type: ignore[union-attr]
    assert one.explain(nested(3)).as_dict() == other.explain(flat(3)).as_dict()


def test_a_log_of_nested_contexts_restores_the_same_bandit(tmp_path: Path) -> None:
    bandit = decided(nested, tmp_path / "log.jsonl")
    again = Bandit(["a", "b"], **FAST)
    assert not again.learn_from(tmp_path / "log.jsonl").refused
    assert again.schema == bandit.schema


def test_the_features_of_arms_can_be_nested() -> None:
    def ranked(price: Any, context: Any) -> Bandit:
        bandit = Bandit({name: price(i) for i, name in enumerate("abc")}, **FAST)
        for age in range(10):
            ranking = bandit.rank(context(age), k=2)
            bandit.reward(ranking.id, 1, slot=0)
            bandit.decide(context(age), arms={"x": price(age), "y": price(3)})
        return bandit

    one = ranked(lambda number: {"item": {"price": number}}, nested)
    other = ranked(lambda number: {"item.price": number}, flat)
    assert full_state(one) == full_state(other)
    assert recorded.catalog(one) == {name: {"item.price": i} for i, name in enumerate("abc")}


@pytest.mark.parametrize("column", ["context", None])
def test_tables_can_have_nested_contexts(tmp_path: Path, column: str | None) -> None:
    def table(context: Any) -> Path:
        path = tmp_path / f"{context.__name__}.jsonl"
        features = [context(age) for age in range(200)]
        rows = [{column: own} if column else own for own in features]
        outcomes = [{"arm": "ab"[i % 2], "reward": i % 3 == 0, "propensity": 0.5} for i in range(200)]
        lines = (json.dumps({**row, **own}) for row, own in zip(rows, outcomes, strict=True))
        path.write_text("\n".join(lines))
        return path

    bandits = [Bandit(["a", "b"], **FAST) for _ in range(2)]
    for bandit, context in zip(bandits, (nested, flat), strict=True):
        assert bandit.learn_from(table(context)).learned == 200
    assert full_state(bandits[0]) == full_state(bandits[1])
    one, other = (evaluate(table(context), ["linucb"], estimators=["dr"]) for context in (nested, flat))
    assert one.to_dict() == other.to_dict()


def test_a_router_reads_nested_contexts() -> None:
    router = Router({"small": 0.1, "large": 2.0}, bandit_settings=FAST)
    router.route("Hello", context={"task": {"kind": "code", "tokens": 5}})
    assert {"task.kind", "task.tokens"} <= set(router.bandit.schema.features)  # type: ignore[union-attr]


def test_a_schema_declares_nested_features_by_their_path() -> None:
    schema = {"user.country": ["FR", "DE"], "user.since": "date", "user.likes": "tags"}
    user = {"country": "FR", "since": "2026-11-17", "likes": ["noir", 7]}
    encoder = opened({"user": user}, schema)
    assert encoded(encoder, {"user": {**user, "country": "DE"}}) != encoded(encoder, {"user": user})
    assert encoder.schema.problems["type_changed"] == encoder.schema.problems["missing"] == 0
    assert {"user.since.weekday", "user.likes=7"} <= set(encoder.schema.features)


def test_every_mapping_is_flattened_and_numbers_are_names() -> None:
    encoder = opened(MappingProxyType({"user": MappingProxyType({1: "FR", "empty": {}})}))
    assert list(encoder.schema.features) == ["user.1"]


def test_a_plain_feature_that_becomes_a_dict_is_missing_and_its_parts_are_new() -> None:
    encoder = opened({"age": 30, "user": "FR"})
    encoded(encoder, {"age": 31, "user": {"country": "FR"}})
    assert encoder.schema.features["user"].problems["missing"] == 1
    assert encoder.schema.features["user.country"].values == ("FR",)


def at_level(levels: int) -> dict[str, Any]:
    context: Any = 1
    for _ in range(levels):
        context = {"x": context}
    return dict(context)


def test_five_levels_are_possible_and_more_are_an_error() -> None:
    encoder = opened(at_level(5))
    assert list(encoder.schema.features) == ["x.x.x.x.x"]
    with pytest.raises(InvalidContext, match=r"at most 5 levels, but 'x\.x\.x\.x\.x' has another one"):
        encoder.encode(at_level(6))
    with pytest.raises(InvalidContext, match="at most 5 levels"):
        opened(at_level(900))


@pytest.mark.parametrize(
    ("context", "name"),
    [
        ({"user.country": "FR", "user": {"country": "DE"}}, "user.country"),
        ({"user": {"country": "DE"}, "user.country": "FR"}, "user.country"),
        ({"user": {"a.b": 1, "a": {"b": 2}}}, "user.a.b"),
        ({"user": {1: "a", "1": "b"}}, "user.1"),
        ({"v": [0.5, 0.1], "v[0]": 3}, "v[0]"),
        ({"v[0]": 3, "v": [0.5] * 200}, "v[0]"),
        ({"v": [0.5] * 200, "v[0]": 3}, "v[0]"),
        ({"tags": ["new"], "tags=new": False}, "tags=new"),
        ({"t": {"since": {"date": "2026-11-17"}, "since.weekday": 3}}, "t.since.weekday"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_two_ways_to_the_same_name_are_an_error(context: dict[str, Any], name: str) -> None:
    first, later = Bandit(2, spare_slots=300, **FAST), Bandit(2, spare_slots=300, **FAST)
    later.decide({"age": 3})
    for bandit in (first, later):
        before = full_state(bandit)
        with pytest.raises(InvalidContext) as error:
            bandit.decide(context)
        assert f"two features named {name!r}" in str(error.value)
        assert full_state(bandit) == before


UNSUPPORTED = [
    object(),
    b"x",
    1j,
    np.clongdouble(1),
    {1, 2},
    [1, "a"],
    [{"sku": 3}],
    [[1, 2], [3, 4]],
    np.ones((2, 2)),
    datetime.timedelta(days=1),
    uuid.UUID(int=7),
]


@pytest.mark.parametrize("value", UNSUPPORTED, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("first", [True, False])
def test_a_value_of_an_unsupported_type_is_an_error_that_names_the_feature(value: Any, first: bool) -> None:
    bandit = Bandit(["a", "b"], **FAST)
    if not first:
        bandit.decide({"age": 3, "user": {"id": 3}})
    before = full_state(bandit)
    for call in (bandit.decide, bandit.explain):
        for context in ({"age": 3, "user": {"id": value}}, {"age": 3, "user.id": value}):
            with pytest.raises(InvalidContext, match=r"feature 'user\.id' must be a number, a text"):
                call(context)
    assert full_state(bandit) == before
    with pytest.raises(InvalidInput, match=r"row 1: feature 'id' must be"):
        bandit.decide_many([{"id": 3}, {"id": value}])
    arms = Bandit({"a": {"price": 3}}, **FAST)
    with pytest.raises(InvalidInput, match=r"arm 'b' are invalid: feature 'item\.price' must be"):
        arms.decide({"age": 3}, arms={"b": {"item": {"price": value}}})


@pytest.mark.parametrize(
    "number", [np.longdouble(3.5), np.array(3.5, np.longdouble)], ids=["scalar", "array"]
)
def test_a_long_double_is_a_number(number: Any, tmp_path: Path) -> None:
    one, other = Bandit(2, **FAST), Bandit(2, **FAST)
    one.log_to(tmp_path / "log.jsonl")
    for bandit, x in ((one, number), (other, 3.5)):
        bandit.decide({"x": x, "v": np.array([x, 1], np.longdouble), "w": [np.longdouble(2), 1]})
        bandit.decide({"x": x * 2, "v": [1, 2], "w": [1, 2]})
    one.log_to(None)
    assert full_state(one) == full_state(other)
    assert not Bandit(2, **FAST).learn_from(tmp_path / "log.jsonl").refused


def test_a_long_name_is_not_repeated_for_every_feature_inside() -> None:
    context = {"long" * 25_000: {str(number): number for number in range(100)}}
    encoder = opened(context)
    assert len(encoder.schema.features) == 100
    assert max(map(len, encoder.schema.features)) <= 100


def test_rows_that_no_bandit_could_use_are_refused(tmp_path: Path) -> None:
    contexts: list[Any] = [{"age": i} for i in range(200)]
    contexts += [at_level(MAX_LEVELS + 1), {"a": {"b": 1}, "a.b": 2}, {"cart": [{"sku": 3}]}]
    row = {"arm": "a", "reward": 1, "propensity": 1.0}
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(json.dumps({"context": context, **row}) for context in contexts))
    assert dict(evaluate(path, ["uniform", "linucb"]).refused) == {"invalid context": 3}
    assert dict(Bandit(["a"], **FAST).learn_from(path).refused) == {"invalid context": 3}
