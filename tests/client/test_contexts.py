"""Contexts as JSON."""

import math
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pytest

from glcb import InvalidContext
from glcb.client._contexts import context_to_json, iterate_contexts


class Visitor(NamedTuple):
    age: int
    country: str


@pytest.mark.parametrize(
    "context",
    [
        {"age": 31, "country": "FR"},
        Visitor(31, "FR"),
        pd.Series({"age": 31, "country": "FR"}),
        pd.DataFrame({"age": [31], "country": ["FR"]}),
        pl.DataFrame({"age": [31], "country": ["FR"]}),
        {"age": np.int64(31), "country": np.str_("FR")},
        {"age": Decimal(31), "country": "FR"},
    ],
    ids=lambda context: type(context).__name__,
)
def test_every_context_that_a_bandit_accepts_can_be_sent(context: Any) -> None:
    assert context_to_json(context) == {"age": 31, "country": "FR"}


def test_values_that_json_cannot_represent_become_null() -> None:
    odd = {"nan": math.nan, "inf": -math.inf, "huge": 10**400, "na": pd.NA, "day": pd.Timestamp(0), 7: "x"}
    assert context_to_json(odd) == {"nan": None, "inf": None, "huge": None, "na": None, "day": None, "7": "x"}
    assert context_to_json(np.array([0.5, np.nan])) == [0.5, None]
    assert context_to_json((1, "x")) == [1, "x"]
    assert context_to_json({"big": 2**60}) == {"big": float(2**60)}


@pytest.mark.parametrize(
    "contexts",
    [
        [{"age": 31, "country": "FR"}, {"age": 40, "country": "DE"}],
        (context for context in ({"age": 31, "country": "FR"}, {"age": 40, "country": "DE"})),
        pd.DataFrame({"age": [31, 40], "country": ["FR", "DE"]}),
        pl.DataFrame({"age": [31, 40], "country": ["FR", "DE"]}),
    ],
    ids=["list", "generator", "pandas", "polars"],
)
def test_many_contexts_come_from_lists_and_data_frames(contexts: Any) -> None:
    rows = [context_to_json(context) for context in iterate_contexts(contexts)]
    assert rows == [{"age": 31, "country": "FR"}, {"age": 40, "country": "DE"}]


def test_rows_of_an_array_are_contexts() -> None:
    assert list(map(context_to_json, iterate_contexts(np.array([[0.5, 1], [2, 3]])))) == [[0.5, 1], [2, 3]]


@pytest.mark.parametrize("contexts", [{"age": 31}, "FR", 7, None])
def test_a_single_context_is_not_a_batch(contexts: Any) -> None:
    with pytest.raises(InvalidContext, match="use decide"):
        list(iterate_contexts(contexts))
