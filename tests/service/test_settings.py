"""Settings: a flag counts more than the environment, and that more than the file."""

from pathlib import Path

import pytest

from glcb._errors import InvalidSettings
from glcb.service.config import ServiceSettings, load, named


def test_who_counts_more(tmp_path: Path) -> None:
    file = tmp_path / "serve.toml"
    file.write_text('port = 1\nhost = "127.0.0.9"\nmax_arms = 7\nrequest_seconds = 0.5\n')
    environment = {"GLCB_SERVE_PORT": "2", "GLCB_SERVE_MAX_ARMS": "8", "GLCB_OTHER": "x"}
    settings = load({"port": 3, "host": None}, file, environment)
    assert (settings.port, settings.max_arms, settings.host) == (3, 8, "127.0.0.9")
    assert settings.request_seconds == 0.5
    assert load({}, None, {}) == ServiceSettings()


@pytest.mark.parametrize("name", ["host", "data", "database"])
def test_what_has_a_flag_of_its_own_can_be_set_too(name: str) -> None:
    assert getattr(load({name: None}, None, {}, [f"{name}=x"]), name) == "x"
    assert getattr(load({name: "y"}, None, {}, [f"{name}=x"]), name) == "y"


def test_what_the_environment_cannot_set_is_told() -> None:
    with pytest.raises(InvalidSettings, match="no setting GLCB_SERVE_MAX_ARM;"):
        load({}, None, {"GLCB_SERVE_MAX_ARM": "8"})


@pytest.mark.parametrize(
    ("flags", "text", "said"),
    [
        ({"max_arm": "1"}, "", "max_arms"),
        ({"max_arms": "many"}, "", "max_arms"),
        ({"max_arms": "0"}, "", "max_arms"),
        ({"port": 70_000}, "", "port"),
        ({}, "nothing = 1", "nothing"),
        ({}, "this is no TOML", "TOML"),
        ({"log_format": "xml"}, "", "json or text"),
        ({"log_level": "loud"}, "", "warning"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, flags: dict[str, object], text: str, said: str) -> None:
    file = tmp_path / "serve.toml"
    file.write_text(text)
    with pytest.raises(InvalidSettings, match=said):
        load(flags, file, {})


def test_a_file_that_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="cannot read"):
        load({}, tmp_path / "none.toml", {})
    with pytest.raises(InvalidSettings, match="name and a value"):
        named(["max_arms"])
