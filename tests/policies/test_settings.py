"""The settings of GLCB: defaults, bounds, and one place for every fact."""

import inspect
from dataclasses import FrozenInstanceError, fields, replace
from typing import get_type_hints

import pytest

from glcb import GLCB, InvalidSettings
from glcb.policies import settings_table
from glcb.policies.glcb.paper import GLCBPaper
from glcb.policies.glcb.settings import (
    DEFAULT_BINARY,
    DEFAULT_BOUNDED,
    PAPER_BINARY,
    PAPER_BOUNDED,
    SETTING_NAMES,
    Settings,
)


def test_the_defaults_depend_on_the_kind_of_reward() -> None:
    assert GLCB(3, 4).settings == DEFAULT_BINARY
    assert GLCB(3, 4, rewards=(0, 1)).settings == DEFAULT_BOUNDED
    assert GLCB(3, 4, hyperplanes=2, bias=1).settings == replace(DEFAULT_BINARY, hyperplanes=2, bias=1.0)
    assert GLCBPaper(3, 4).settings == PAPER_BINARY
    assert GLCBPaper(3, 4, rewards=(0, 1)).settings == PAPER_BOUNDED
    assert GLCBPaper(3, 4, bias=2).settings == replace(PAPER_BINARY, bias=2.0)


def test_settings_are_immutable() -> None:
    with pytest.raises(FrozenInstanceError):
        PAPER_BINARY.hyperplanes = 3  # type: ignore[misc]


@pytest.mark.parametrize("policy", [GLCB, GLCBPaper])
def test_every_setting_is_a_keyword_argument_with_the_same_type(policy: type[GLCB]) -> None:
    parameters = list(inspect.signature(policy).parameters.values())[4:]
    assert tuple(parameter.name for parameter in parameters) == SETTING_NAMES
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in parameters)
    assert all(parameter.default is None for parameter in parameters)  # the defaults are in Settings
    types = get_type_hints(Settings)
    for parameter in parameters:
        assert parameter.annotation == types[parameter.name] | None, parameter.name


def test_every_setting_is_documented() -> None:
    rows = settings_table()
    assert tuple(row.name for row in rows) == SETTING_NAMES
    for row in rows:
        assert row.type
        assert row.default
        assert row.meaning.endswith(".")
        assert row.when_to_change.endswith(".")


def test_the_table_shows_the_defaults_of_both_kinds_of_reward() -> None:
    defaults = {row.name: row.default for row in settings_table()}
    assert defaults["switching_rate"] == "10 (bounded rewards: 300)"
    assert defaults["hyperplanes"] == "2, 4, 6, 8"
    assert defaults["half_life"] == "None"


def test_every_default_is_within_its_bounds() -> None:
    for field in fields(Settings):
        check = field.metadata["bounds"].check
        assert check(field.name, field.default) == field.default


@pytest.mark.parametrize(
    "change",
    [
        {"layers": ()},
        {"layers": "100"},
        {"layers": (100, 0, 1)},
        {"layers": (10**9,)},
        {"hyperplanes": 0},
        {"hyperplanes": 17},
        {"hyperplanes": ()},
        {"hyperplanes": (2, 0)},
        {"hyperplanes": 2.5},
        {"optimizer": "fast"},
        {"rate_factors": 1.0},
        {"rate_factors": (1.0, -1.0)},
        {"ridges": (0.0,)},
        {"damping": -1},
        {"initialization": "end"},
        {"bonus_unit": "money"},
        {"leaf_values": "median"},
        {"learning_rate": -0.1},
        {"learning_rate": float("nan")},
        {"bonus_scale": float("inf")},
        {"switching_rate": "fast"},
        {"clip": 0.5},
        {"clip": 0.0},
        {"tree_depth": 11},
        {"output": "first"},
        {"weight_bound": 0},
    ],
    ids=str,
)
def test_an_invalid_setting_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(InvalidSettings, match=next(iter(change))):
        GLCB(2, 3, **change)  # type: ignore[arg-type]
