"""Contexts as JSON."""

import math
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pytest

from glcb import InvalidContext, InvalidInput
from glcb.client._contexts import arms_to_json, context_to_json, iterate_contexts


class Visitor(NamedTuple):
    age: int
    country: str


@pytest.mark.parametrize(
    "context",
    [
        {"age": 31, "country": "FR"},
        Visitor(31, "FR"),
        {"age": np.int64(31), "country": np.str_("FR")},
        {"age": Decimal(31), "country": "FR"},
    ],
    ids=lambda context: type(context).__name__,
)
def test_every_context_that_a_bandit_accepts_can_be_sent(context: Any) -> None:
    assert context_to_json(context) == {"age": 31, "country": "FR"}


def test_a_row_of_a_frame_can_be_sent(frames: Any) -> None:
    assert context_to_json(frames.DataFrame({"age": [31], "country": ["FR"]})) == {"age": 31, "country": "FR"}


def test_values_of_pandas_can_be_sent() -> None:
    pd = pytest.importorskip("pandas")
    assert context_to_json(pd.Series({"age": 31, "country": "FR"})) == {"age": 31, "country": "FR"}
    context = {"na": pd.NA, "nat": pd.NaT, "day": pd.Timestamp(0)}
    assert context_to_json(context) == {"na": None, "nat": None, "day": {"date": "1970-01-01T00:00:00"}}


def test_values_that_json_cannot_represent_become_null() -> None:
    odd = {"nan": math.nan, "inf": -math.inf, "huge": 10**400, 7: "x"}
    assert context_to_json(odd) == {"nan": None, "inf": None, "huge": None, "7": "x"}
    assert context_to_json(np.array([0.5, np.nan])) == [0.5, None]
    assert context_to_json((1, "x")) == [1, "x"]
    assert context_to_json({"big": 2**60}) == {"big": float(2**60)}


def test_vectors_tags_and_dates_are_sent() -> None:
    context = {"topic": np.array([0.5, np.nan]), "tags": {"b", "a"}, "day": datetime(1970, 1, 1)}  # noqa: DTZ001
    expected = {"topic": [0.5, None], "tags": ["a", "b"], "day": {"date": "1970-01-01T00:00:00"}}
    assert context_to_json(context) == expected
    assert arms_to_json({"m17": context, "m4": None}) == {"m17": expected, "m4": None}
    listed = [{"arm": "m17", "features": expected}, {"arm": "m4", "features": None}]
    assert arms_to_json([("m17", context), {"arm": "m4"}]) == listed


def test_nested_dicts_are_sent_flat_and_mixed_lists_as_they_are() -> None:
    context = {"user": {"country": "FR", "tags": [7, "sale"], "age": np.longdouble(31)}}
    expected = {"user.country": "FR", "user.tags": [7, "sale"], "user.age": 31}
    assert context_to_json(context) == expected
    assert arms_to_json({"m17": context}) == {"m17": expected}


@pytest.mark.parametrize(
    "value", [object(), b"x", [{"sku": 3}], {1, 2}], ids=lambda value: type(value).__name__
)
def test_values_of_unsupported_types_are_refused_before_they_are_sent(value: Any) -> None:
    with pytest.raises(InvalidContext, match=r"feature 'user\.id' must be a number"):
        context_to_json({"user": {"id": value}})
    with pytest.raises(InvalidContext, match=r"feature '0' must be a number|flat list"):
        context_to_json((value, 1))


@pytest.mark.parametrize("arms", ["m17", 3, ["m17"], {7: {}}, {"m17": 3.0}, [("m17", [1])]], ids=repr)
def test_invalid_candidates_are_refused_before_they_are_sent(arms: Any) -> None:
    with pytest.raises(InvalidInput):
        arms_to_json(arms)


@pytest.mark.parametrize(
    "contexts",
    [
        [{"age": 31, "country": "FR"}, {"age": 40, "country": "DE"}],
        (context for context in ({"age": 31, "country": "FR"}, {"age": 40, "country": "DE"})),
    ],
    ids=["list", "generator"],
)
def test_many_contexts_come_from_iterables(contexts: Any) -> None:
    rows = [context_to_json(context) for context in iterate_contexts(contexts)]
    assert rows == [{"age": 31, "country": "FR"}, {"age": 40, "country": "DE"}]


def test_many_contexts_come_from_data_frames(frames: Any) -> None:
    test_many_contexts_come_from_iterables(frames.DataFrame({"age": [31, 40], "country": ["FR", "DE"]}))


def test_rows_of_an_array_are_contexts() -> None:
    assert list(map(context_to_json, iterate_contexts(np.array([[0.5, 1], [2, 3]])))) == [[0.5, 1], [2, 3]]


@pytest.mark.parametrize("contexts", [{"age": 31}, "FR", 7, None])
def test_a_single_context_is_not_a_batch(contexts: Any) -> None:
    with pytest.raises(InvalidContext, match="use decide"):
        list(iterate_contexts(contexts))
