"""Encoding of every kind of value, valid or not."""

import datetime
import math
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from glcb import InvalidSettings
from glcb.bandit.encoding.schema import parse_schema
from glcb.bandit.encoding.slots import SPARE_SLOTS, SPARE_SLOTS_PER_CATEGORY
from tests.support.encoders import FIRST, encoded, opened, problems, state

AGE, MEMBER, FRANCE = 0, 1, 2


def test_the_first_context_fixes_the_width() -> None:
    encoder = opened()
    assert encoder.width == 2 + SPARE_SLOTS + SPARE_SLOTS_PER_CATEGORY
    schema = encoder.schema
    assert {name: feature.kind for name, feature in schema.features.items()} == {
        "age": "number",
        "country": "category",
        "member": "boolean",
    }
    assert schema.free == encoder.width - 3
    for context in ({}, {"age": 1, "new": "thing"}, {f"key{i}": i for i in range(200)}):
        assert len(encoded(encoder, context)) == encoder.width


def test_numbers_categories_and_booleans() -> None:
    encoder = opened()
    x = encoded(encoder, {"age": 40, "country": "FR", "member": False})
    assert (x[AGE], x[FRANCE], x[MEMBER]) == (0.75, 1, 0)
    x = encoded(encoder, {"age": 20, "country": "DE", "member": True})
    assert (x[FRANCE], x[MEMBER]) == (0, 1)
    assert x[AGE] == pytest.approx(1 / 6)
    assert x[FRANCE + 1] == 1
    assert sum(x) == pytest.approx(2 + 1 / 6)


def test_a_number_is_scaled_by_earlier_numbers_only() -> None:
    encoder = opened()
    for number in range(31, 500):
        reading = encoder.encode({**FIRST, "age": number})
        assert reading.x[AGE] == encoder.encode({**FIRST, "age": number + 0.5}).x[AGE]
        encoder.commit(reading)


def test_encoding_changes_nothing_before_it_is_committed() -> None:
    encoder = opened()
    before = state(encoder)
    for context in ({"age": 1e9, "country": "XX", "new": 1}, {"age": None}, {"age": [1]}, {}):
        encoder.encode(context)
    assert before == state(encoder)


class Color(StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "same"),
    [
        (np.int64(30), 30),
        (np.float32(30), 30),
        (Decimal(30), 30),
        (Fraction(30), 30),
        (True, 1),
        (np.bool_(True), 1),
        (np.array(30), 30),
    ],
    ids=lambda value: f"{type(value).__name__} {value}",
)
def test_numbers_of_all_types_are_numbers(value: object, same: float) -> None:
    one, other = opened(), opened()
    assert encoded(one, {**FIRST, "age": value}) == encoded(other, {**FIRST, "age": same})
    assert problems(one, "age") == {}


def test_strings_of_all_types_are_categories_and_so_are_numbers_in_a_category() -> None:
    encoder = opened({"color": "red"})
    assert encoded(encoder, {"color": Color.RED}) == encoded(encoder, {"color": np.str_("red")})
    assert encoded(encoder, {"color": 3}) == encoded(encoder, {"color": 3.0})
    assert encoded(encoder, {"color": 3}) == encoded(encoder, {"color": "3"})
    assert encoded(encoder, {"color": True}) == encoded(encoder, {"color": "true"})
    assert encoder.schema.features["color"].values == ("red", "3", "true")


def test_a_boolean_accepts_zero_and_one() -> None:
    encoder = opened()
    assert encoded(encoder, {**FIRST, "member": 1})[MEMBER] == 1
    assert encoded(encoder, {**FIRST, "member": np.bool_(False)})[MEMBER] == 0
    assert problems(encoder, "member") == {}


BROKEN: dict[str, list[Any]] = {
    "missing": [None, math.nan, np.nan, np.datetime64("NaT")],
    "infinite": [math.inf, -math.inf, 10**400, 1e301, np.float64("inf"), Decimal("Infinity")],
    "unsupported": [[1], ["a"], (1, 2), {"a"}, datetime.date(2020, 1, 1), np.array([1, 2])],
    "type_changed": ["thirty", "3O", "1_000", "nan"],
}


@pytest.mark.parametrize(
    ("problem", "value"),
    [(problem, value) for problem, values in BROKEN.items() for value in values],
    ids=lambda value: value if isinstance(value, str) else f"{type(value).__name__}",
)
def test_an_unusable_number_is_imputed_flagged_and_counted(problem: str, value: object) -> None:
    encoder = opened()
    x = encoded(encoder, {**FIRST, "age": value})
    assert x[AGE] == 0.5
    flag = FRANCE + 1
    assert x[flag] == 1
    assert problems(encoder, "age") == {problem: 1}
    assert encoded(encoder, {**FIRST, "age": 31})[flag] == 0
    assert encoded(encoder, {**FIRST, "age": value})[flag] == 1
    assert problems(encoder, "age") == {problem: 2}


@pytest.mark.parametrize("name", ["NA", "NaT"])
def test_the_missing_values_of_pandas_are_missing(name: str) -> None:
    value = getattr(pytest.importorskip("pandas"), name)
    test_an_unusable_number_is_imputed_flagged_and_counted("missing", value)


@pytest.mark.parametrize("value", [None, math.nan, math.inf, [1], "maybe", 0.5])
def test_an_unusable_boolean_is_imputed_flagged_and_counted(value: object) -> None:
    encoder = opened()
    x = encoded(encoder, {**FIRST, "member": value})
    assert (x[MEMBER], x[FRANCE + 1]) == (0.5, 1)
    assert sum(problems(encoder, "member").values()) == 1


@pytest.mark.parametrize("value", [None, math.nan, math.inf, [1]])
def test_an_unusable_category_is_flagged_and_counted(value: object) -> None:
    encoder = opened()
    x = encoded(encoder, {**FIRST, "country": value})
    assert (x[FRANCE], x[FRANCE + 1]) == (0, 1)
    assert sum(problems(encoder, "country").values()) == 1


def test_an_absent_feature_is_missing() -> None:
    present, absent = opened(), opened()
    assert encoded(present, {**FIRST, "age": None}) == encoded(absent, {"country": "FR", "member": True})
    assert problems(absent, "age") == {"missing": 1}
    # A new feature without a value must not hide that another one is missing.
    assert encoded(opened(), {"country": "FR", "member": True, "new": None})[AGE] == 0.5


def test_an_outlier_is_counted_and_does_not_distort_the_scale() -> None:
    encoder, clean = opened({"age": 30}), opened({"age": 30})
    for age in range(20, 80):
        assert encoded(encoder, {"age": age}) == encoded(clean, {"age": age})
    assert encoded(encoder, {"age": 1e12})[0] > 0.98
    assert problems(encoder, "age") == {"out_of_range": 1}
    for age in range(20, 80):
        assert encoded(encoder, {"age": age})[0] == pytest.approx(encoded(clean, {"age": age})[0], abs=0.02)


def test_new_categories_take_spare_slots_and_then_share_those_of_their_feature() -> None:
    encoder = opened({"country": "c0", "city": "x"}, spare_slots=40)
    places = [encoded(encoder, {"country": f"c{i}", "city": "x"}) for i in range(60)]
    lit = [tuple(slot for slot, value in enumerate(x) if value) for x in places]
    assert len(set(lit[:20])) == 20  # half of the spare slots
    assert set(lit[20:]) <= set(lit[:20])
    assert problems(encoder, "country") == {"hashed": 40}
    assert problems(encoder, "city") == {}
    again = encoded(encoder, {"country": "c55", "city": "x"})
    assert again == places[55]


def test_new_features_take_spare_slots_and_then_share_them() -> None:
    encoder = opened({"age": 30}, spare_slots=3)
    assert encoded(encoder, {"age": 31, "hour": 5})[1] == 0.5
    assert encoded(encoder, {"age": 31, "hour": 6})[1] == 0.75
    assert encoded(encoder, {"age": 31, "vip": True})[2] == 1
    assert encoded(encoder, {"age": 31, "city": "Rome"})[3] == 1
    assert encoder.schema.free == 0
    # A feature that is not expected cannot be missing.
    assert encoded(encoder, {"age": 31})[1:] == [0, 0, 0]
    assert problems(encoder, "hour") == {}
    assert encoded(encoder, {"age": 31, "hour": "noon"})[1:] == [0, 0, 0]
    assert problems(encoder, "hour") == {"type_changed": 1}
    x = encoded(encoder, {"age": 31, "late": 17})
    assert sum(value == 1 for value in x[1:]) == 1
    assert "late" not in encoder.schema.features
    assert encoder.schema.unmapped == 1
    encoded(encoder, {"age": 31, "late": [1]})
    assert encoder.schema.unmapped == 2


def test_memory_is_bounded_whatever_the_contexts() -> None:
    encoder = opened()
    for i in range(3000):
        encoded(encoder, {f"key{i}": i, "country": f"c{i}", "age": f"text{i}", "x" * 500 + str(i): "y" * i})
    assert len(encoder.schema.features) <= encoder.width
    assert sum(len(feature.values) for feature in encoder.schema.features.values()) <= encoder.width
    assert len(repr(encoder.snapshot()[0])) < 20_000


def test_without_spare_slots_new_features_are_ignored() -> None:
    encoder = opened({"age": 1}, schema={"age": "number"}, spare_slots=0)
    assert encoder.width == 1
    assert encoded(encoder, {"age": None, "new": "x"}) == [0.5]
    assert encoder.schema.unmapped == 1


def test_a_feature_without_a_value_has_no_kind_yet() -> None:
    encoder = opened({"age": None, "name": math.nan, "list": None, "flag": None})
    assert {feature.kind for feature in encoder.schema.features.values()} == {None}
    row = {"age": 5, "name": "x", "list": 2.5, "flag": False}
    encoded(encoder, row)
    kinds = {name: feature.kind for name, feature in encoder.schema.features.items()}
    assert kinds == {"age": "number", "name": "category", "list": "number", "flag": "boolean"}
    assert encoded(encoder, {**row, "age": 6})[: encoder.width] != encoded(encoder, row)


def test_a_declared_schema() -> None:
    schema = {
        "age": "number",
        "hour": (0, 24),
        "country": ["FR", "DE"],
        "member": "boolean",
        "city": "category",
    }
    first = {"age": 30, "hour": 12, "country": "FR", "member": False, "city": "Rome"}
    encoder = opened(first, schema, spare_slots=4)
    assert encoder.width == 1 + 1 + 2 + 1 + 4
    x = encoded(encoder, {**first, "hour": 6, "country": "DE", "member": True})
    assert x == [0.5, 0.25, 0, 1, 1, 1, 0, 0, 0]
    assert encoded(encoder, {**first, "hour": 30})[1] == 1
    assert problems(encoder, "hour") == {"out_of_range": 1}
    # Declared features are expected, even if the first context lacks them.
    assert problems(opened({}, schema), "age") == {"missing": 1}


@pytest.mark.parametrize(
    "schema",
    [
        {"age": "integer"},
        {"age": (1, 1)},
        {"age": (2, 1)},
        {"age": (0, math.inf)},
        {"age": (0, 1, 2)},
        {"age": {"kind": "number", "range": "0-1"}},
        {"age": {"kind": "number", "color": 1}},
        {"age": {"kind": "category", "values": [None]}},
        {"age": {"kind": "category", "values": 5}},
        {"age": [[1]]},
        {"age": np.array(["FR", "DE"])},
        {"age": np.array("number")},
        {"age": (np.array([0, 1]), 2)},
        {"age": {"kind": np.array(["number", "category"])}},
        {"age": {"kind": "number", "range": np.array([0, 1])}},
        {"age": 5},
        {"age": None},
        {5: "number"},
        {"x" * 101: "number"},
        ["age"],
        "age",
    ],
    ids=str,
)
def test_an_invalid_schema_is_refused(schema: Any) -> None:
    with pytest.raises(InvalidSettings, match=r"schema|declared|range|values|name"):
        parse_schema(schema)
