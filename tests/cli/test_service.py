"""``glcb serve``, ``glcb keys`` and ``glcb verify`` at the shell, as far as they need no running server."""

import builtins
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from glcb._errors import InvalidSettings, MissingExtra, StorageError
from glcb.cli import app
from glcb.service.opening import open_storage
from glcb.service.settings import ServiceSettings
from glcb.service.storage import Event


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, arguments)


def test_keys_are_made_listed_and_removed(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "glcb.db"))
    made = run("keys", "add", "shop", "--role", "decide", "--experiment", "home", *data)
    assert re.fullmatch(r"glcb_\S{43}\n", made.output)
    listed = run("keys", "list", *data).output
    assert "shop  decide" in listed
    assert "home" in listed
    assert made.output.strip() not in listed
    assert run("keys", "remove", "shop", *data).exit_code == 0
    assert run("keys", "list", *data).output == ""
    assert isinstance(run("keys", "remove", "shop", *data).exception, InvalidSettings)


def test_verify_tells_by_its_exit_code(tmp_path: Path) -> None:
    path = str(tmp_path / "glcb.db")
    assert run("verify", "--data", path).output == "there are no experiments\n"
    open_storage(ServiceSettings(data=path)).create("home", Event(1, 0.0, "decide", b"{}", b"{}"))
    found = run("verify", "--data", path)
    assert found.exit_code == 1
    assert "home: DIFFERENT" in found.output


def test_without_keys_others_are_not_served(tmp_path: Path) -> None:
    found = run("serve", "--host", "0.0.0.0", "--port", "0", "--data", str(tmp_path / "glcb.db"))
    assert isinstance(found.exception, InvalidSettings)
    assert "glcb keys add" in str(found.exception)


def test_what_cannot_be_served_is_told(tmp_path: Path) -> None:
    nowhere = run("serve", "--data", str(tmp_path / "missing" / "glcb.db"))
    assert "no folder" in str(nowhere.exception)
    unreachable = run("serve", "--database", "postgresql://nobody@localhost:1/none")
    assert isinstance(unreachable.exception, StorageError)
    unknown = run("serve", "--set", "max_arm=3", "--data", str(tmp_path / "glcb.db"))
    assert "no setting max_arm" in str(unknown.exception)


@pytest.mark.parametrize("command", [("serve",), ("verify",), ("keys", "list")])
def test_without_the_extra_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name.startswith("glcb.service"):
            raise ModuleNotFoundError("No module named 'msgspec'", name="msgspec")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    found = run(*command)
    assert isinstance(found.exception, MissingExtra)
    assert "glcb[service]" in str(found.exception)
