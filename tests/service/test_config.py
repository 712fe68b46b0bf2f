"""Settings: flags override the environment, which overrides the file."""

from pathlib import Path

import pytest

from glcb._errors import InvalidSettings
from glcb.service.config import Limits, ServiceSettings, load, parse_pairs, settings_table


def test_flags_override_the_environment_and_the_environment_overrides_the_file(tmp_path: Path) -> None:
    file = tmp_path / "serve.toml"
    file.write_text('port = 1\nhost = "127.0.0.9"\nmax_arms = 7\nrequest_seconds = 0.5\n')
    environment = {"GLCB_SERVE_PORT": "2", "GLCB_SERVE_MAX_ARMS": "8", "GLCB_OTHER": "x"}
    settings = load({"port": 3, "host": None}, file, environment)
    assert (settings.port, settings.max_arms, settings.host) == (3, 8, "127.0.0.9")
    assert settings.request_seconds == 0.5
    assert load({}, None, {}) == ServiceSettings()


@pytest.mark.parametrize("name", ["host", "data", "database"])
def test_a_setting_with_its_own_flag_can_also_be_passed_to_set(name: str) -> None:
    assert getattr(load({name: None}, None, {}, [f"{name}=x"]), name) == "x"
    assert getattr(load({name: "y"}, None, {}, [f"{name}=x"]), name) == "y"


def test_a_limit_is_no_setting() -> None:
    assert ServiceSettings(max_batch=5).max_batch == 5
    with pytest.raises(InvalidSettings, match="no setting max_batch;"):
        load({}, None, {}, ["max_batch=5"])


def test_an_unknown_environment_variable_is_reported() -> None:
    with pytest.raises(InvalidSettings, match="no setting GLCB_SERVE_MAX_ARM;"):
        load({}, None, {"GLCB_SERVE_MAX_ARM": "8"})


@pytest.mark.parametrize(
    ("flags", "text", "message"),
    [
        ({"max_arm": "1"}, "", "max_arms"),
        ({"max_arms": "many"}, "", "max_arms"),
        ({"max_arms": "0"}, "", "max_arms"),
        ({"port": 70_000}, "", "port"),
        ({}, "nothing = 1", "nothing"),
        ({}, "this is not TOML", "TOML"),
        ({"log_format": "xml"}, "", "json or text"),
        ({"log_level": "loud"}, "", "warning"),
    ],
)
def test_an_invalid_setting_is_rejected(
    tmp_path: Path, flags: dict[str, object], text: str, message: str
) -> None:
    file = tmp_path / "serve.toml"
    file.write_text(text)
    with pytest.raises(InvalidSettings, match=message):
        load(flags, file, {})


def test_a_missing_file_and_an_incomplete_pair_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="cannot read"):
        load({}, tmp_path / "none.toml", {})
    with pytest.raises(InvalidSettings, match="NAME=VALUE"):
        parse_pairs(["max_arms"])


def test_every_setting_is_documented_with_its_default() -> None:
    rows = settings_table()
    assert {row.name for row in rows} == {*ServiceSettings.__struct_fields__} - {*Limits.__struct_fields__}
    assert len(rows) <= 35
    defaults = ServiceSettings()
    for row in rows:
        default = getattr(defaults, row.name)
        written = str(default).lower() if isinstance(default, bool) else str(default)
        written = ", ".join(default) if isinstance(default, tuple) else written
        assert row.default == ("" if default in (None, ()) else written)
        assert row.type
        assert row.meaning.endswith(".")
        assert row.when_to_change.endswith(".")


def test_an_error_names_the_setting_its_type_and_the_value() -> None:
    with pytest.raises(InvalidSettings, match="max_arms must be integer, at least 1, got '0'"):
        load({}, None, {"GLCB_SERVE_MAX_ARMS": "0"})
