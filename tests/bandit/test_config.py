"""Every argument of Bandit is declared once, in BanditConfig; everything else derives from it."""

import dataclasses
import inspect
import re
import subprocess
import sys
import typing
from typing import Any

import pytest

from glcb import Bandit, InvalidSettings
from glcb.bandit import BanditConfig
from glcb.bandit.config import MUTABLE, default_text, parameters_table, type_name

FIELDS = dataclasses.fields(BanditConfig)
HINTS = typing.get_type_hints(BanditConfig)


def docstring_entries() -> dict[str, tuple[str, str]]:
    """Return the head and the text of each entry of the Parameters section of Bandit."""
    section = inspect.getdoc(Bandit).split("Parameters\n----------\n")[1].split("\n\nRaises")[0]  # type: ignore[union-attr]
    entries = re.split(r"\n(?=\w)", section)
    return {
        entry.split(" : ")[0]: (entry.splitlines()[0], " ".join(entry.split("\n", 1)[1].split()))
        for entry in entries
    }


def test_the_signature_has_the_names_defaults_and_types_of_the_config() -> None:
    parameters = list(inspect.signature(Bandit).parameters.values())
    assert [parameter.name for parameter in parameters] == [field.name for field in FIELDS]
    hints = typing.get_type_hints(Bandit.__init__)
    for parameter, field in zip(parameters, FIELDS, strict=True):
        expected = inspect.Parameter.empty if field.default is dataclasses.MISSING else field.default
        assert parameter.default is expected, field.name
        assert hints[field.name] == HINTS[field.name], field.name


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
def test_the_docstring_has_the_default_and_the_text_of_the_config(field: Any) -> None:
    head, text = docstring_entries()[field.name]
    assert text == field.metadata["doc"]
    if field.default is dataclasses.MISSING:
        assert "default" not in head
    else:
        assert head.endswith(f"default {default_text(field).strip('`')}")


def test_the_docstring_has_no_other_parameters() -> None:
    assert list(docstring_entries()) == [field.name for field in FIELDS]


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.name)
def test_every_field_is_documented(field: Any) -> None:
    metadata = field.metadata
    assert set(metadata) == {"doc", "when", "choices", "minimum", "maximum", "mutable", "json"}
    for text in (metadata["doc"], metadata["when"]):
        assert text[0].isupper()
        assert text.endswith((".", "…"))
    assert (metadata["minimum"] is None) == (metadata["maximum"] is None)


@pytest.mark.parametrize(
    "field",
    [field for field in FIELDS if field.metadata["minimum"] is not None],
    ids=lambda field: field.name,
)
def test_bounds_are_enforced(field: Any) -> None:
    low, high = field.metadata["minimum"], field.metadata["maximum"]
    arguments: dict[str, Any] = {"arms": 2, "policy": "linucb"}
    for value in (low, high):
        BanditConfig(**{**arguments, field.name: value})
    for value in (low - 1, high * 2, "text"):
        with pytest.raises(InvalidSettings, match=field.name):
            BanditConfig(**{**arguments, field.name: value})


@pytest.mark.parametrize(
    "field", [field for field in FIELDS if field.metadata["choices"]], ids=lambda field: field.name
)
def test_choices_are_enforced(field: Any) -> None:
    for value in field.metadata["choices"]:
        arguments: dict[str, Any] = {field.name: value}
        config = BanditConfig(arms=2, reward_timeout=5, **arguments)
        assert getattr(config, field.name) == value
    other: dict[str, Any] = {field.name: "other"}
    with pytest.raises(InvalidSettings, match=f'{field.name} must be one of "'):
        BanditConfig(arms=2, **other)


def test_parameters_are_those_of_the_config() -> None:
    assert list(Bandit(2).get_params()) == [field.name for field in FIELDS]
    rules = {"reward_timeout", "default_reward", "reward_aggregation"}
    assert (
        set(MUTABLE) == {"exploration", "exploration_mode", "schema", "clock", "half_life", "shares"} | rules
    )
    bandit = Bandit(2, policy="linucb")
    bandit.decide([1.0])
    for name in set(bandit.get_params()) - set(MUTABLE):
        with pytest.raises(InvalidSettings, match=f"{name} cannot change after the first decision"):
            bandit.set_params(**{name: None})


def test_the_json_form_makes_an_equal_config() -> None:
    config = BanditConfig(
        arms=("a", 7),
        rewards=(0, 9),
        schema={"age": (0, 99)},
        policy_settings={"alpha": 0.5},
        policy="linucb",
        shares={"a": (0.1, 0.5)},
    )
    values = config.as_json()
    assert set(values) == {field.name for field in FIELDS} - {"clock"}
    assert values["arms"] == ["a", 7]
    assert values["schema"] == {"age": {"kind": "number", "range": [0.0, 99.0]}}
    assert BanditConfig(**values) == config


def test_the_table_has_a_row_for_every_parameter() -> None:
    rows = parameters_table().splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == [field.name for field in FIELDS]
    assert "| `exploration` | float | `0.05` | Probability of" in rows[4]
    assert '| `rewards` | "binary" or (float, float) | `"binary"` |' in rows[3]
    assert "| `clock` | function | `time.time` |" in rows[14]
    assert type_name(HINTS["arms"]) == "int or list of str or int or dict"
    assert type_name(HINTS["schema"]) == "dict or None"


def test_the_config_is_imported_without_numba_and_msgspec() -> None:
    program = """
import sys, typing
from glcb.bandit.config import BanditConfig, parameters_table
typing.get_type_hints(BanditConfig), parameters_table()
assert not {"numba", "msgspec"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True)
