"""Contexts on their way to the service."""

import math
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pytest

from glcb.client.contexts import sendable


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
def test_whatever_bandit_takes_can_be_sent(context: Any) -> None:
    assert sendable(context) == {"age": 31, "country": "FR"}


def test_what_json_cannot_hold_is_missing() -> None:
    odd = {"nan": math.nan, "inf": -math.inf, "huge": 10**400, "na": pd.NA, "day": pd.Timestamp(0), 7: "x"}
    assert sendable(odd) == {"nan": None, "inf": None, "huge": None, "na": None, "day": None, "7": "x"}
    assert sendable(np.array([0.5, np.nan])) == [0.5, None]
    assert sendable((1, "x")) == [1, "x"]
    assert sendable({"big": 2**60}) == {"big": float(2**60)}
