"""``glcb serve``, ``glcb keys`` and ``glcb verify`` at the shell, as far as they need no running server."""

import builtins
import re
import socket
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from glcb._errors import InvalidSettings, MissingExtra, StorageError
from glcb.cli import app
from glcb.service.config import ServiceSettings
from glcb.service.storage.opening import open_storage
from glcb.service.storage.storage import Event


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, arguments)


def test_keys_are_made_listed_and_removed(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "glcb.db"))
    made = run("keys", "add", "shop", "--role", "decide", "--experiment", "home", *data)
    assert re.fullmatch(r"glcb_\S{43}\n", made.stdout)
    assert made.stderr == f"for the new database {tmp_path / 'glcb.db'}\n"
    assert run("keys", "add", "team", "--role", "read", *data).stderr.startswith("for the database ")
    assert run("keys", "remove", "team", *data).exit_code == 0
    listed = run("keys", "list", *data).output
    assert "shop  decide" in listed
    assert "home" in listed
    assert made.stdout.strip() not in listed
    assert run("keys", "remove", "shop", *data).exit_code == 0
    assert run("keys", "list", *data).output == ""
    assert isinstance(run("keys", "remove", "shop", *data).exception, InvalidSettings)


def test_verify_tells_by_its_exit_code(tmp_path: Path) -> None:
    path = str(tmp_path / "glcb.db")
    storage = open_storage(ServiceSettings(data=path))
    assert run("verify", "--data", path).output == "there are no experiments\n"
    storage.create("home", Event(1, 0.0, "decide", b"{}", b"{}"))
    found = run("verify", "--data", path)
    assert found.exit_code == 1
    assert "home: DIFFERENT" in found.output


@pytest.mark.parametrize("command", [("keys", "list"), ("keys", "remove", "shop"), ("verify",)])
@pytest.mark.parametrize("flag", ["--data", "--database"])
def test_where_there_is_no_database_none_is_made(tmp_path: Path, command: tuple[str, ...], flag: str) -> None:
    path = tmp_path / "glcb.db"
    found = run(*command, flag, str(path) if flag == "--data" else f"sqlite:///{path}")
    assert isinstance(found.exception, InvalidSettings)
    assert str(path) in str(found.exception)
    assert "--data" in str(found.exception)
    assert list(tmp_path.iterdir()) == []


def test_a_key_that_cannot_be_makes_no_database(tmp_path: Path) -> None:
    found = run("keys", "add", "shop", "--role", "owner", "--data", str(tmp_path / "glcb.db"))
    assert "must be decide, read, admin" in str(found.exception)
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_is_taken_is_told_and_nothing_is_left_behind(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        found = run("serve", "--port", port, "--data", str(tmp_path / "glcb.db"))
    assert isinstance(found.exception, InvalidSettings)
    assert f"port {port}: Address already in use: choose another with --port" in str(found.exception)
    assert list(tmp_path.iterdir()) == []


def test_without_keys_others_are_not_served(tmp_path: Path) -> None:
    found = run("serve", "--host", "0.0.0.0", "--port", "0", "--data", str(tmp_path / "glcb.db"))
    assert isinstance(found.exception, InvalidSettings)
    assert "glcb keys add" in str(found.exception)


def test_what_cannot_be_served_is_told(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing" / "glcb.db")
    for flags in (("--data", missing), ("--set", f"data={missing}")):
        assert "no folder" in str(run("serve", *flags).exception)
    for flags in (("--data", ":memory:"), ("--database", "sqlite://"), ("--database", "sqlite:///:memory:")):
        assert "must be a file" in str(run("serve", "--port", "0", *flags).exception)
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
