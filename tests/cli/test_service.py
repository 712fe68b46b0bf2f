"""``glcb serve``, ``glcb keys`` and ``glcb audit``, without a running server."""

import builtins
import re
import socket
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from glcb._errors import InvalidSettings, MissingExtra, StorageError
from glcb.cli import app
from glcb.service.config import ServiceSettings, settings_table
from glcb.service.events import Event
from glcb.service.storage.database import open_database


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, arguments)


def test_a_flag_of_serve_has_the_meaning_and_default_of_its_setting() -> None:
    options = {option.name: option for option in typer.main.get_command(app).commands["serve"].params}  # type: ignore[attr-defined]
    flags = [row for row in settings_table() if row.name in options]
    names = ["host", "port", "data", "database", "workers", "executor", "address"]
    assert [row.name for row in flags] == names
    for row in flags:
        assert options[row.name].help == row.meaning
        assert (options[row.name].show_default or "") == row.default


def test_api_keys_are_created_listed_and_removed(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "glcb.db"))
    created = run("keys", "add", "shop", "--role", "decide", "--experiments", "home,start", *data)
    assert re.fullmatch(r"glcb_\S{43}\n", created.stdout)
    assert created.stderr == f"created for the new database {tmp_path / 'glcb.db'}\n"
    assert run("keys", "add", "team", "--role", "read", *data).stderr.startswith("created for the database ")
    assert run("keys", "remove", "team", *data).exit_code == 0
    listed = run("keys", "list", *data).output
    assert "shop  decide" in listed
    assert "home, start" in listed
    assert created.stdout.strip() not in listed
    assert run("keys", "remove", "shop", *data).exit_code == 0
    assert run("keys", "list", *data).output == ""
    assert isinstance(run("keys", "remove", "shop", *data).exception, InvalidSettings)


def test_audit_reports_differences_by_its_exit_status(tmp_path: Path) -> None:
    path = str(tmp_path / "glcb.db")
    storage = open_database(ServiceSettings(data=path))
    empty = run("audit", "--data", path)
    assert empty.stdout == "there are no experiments\n"
    assert "without a high-water mark" in empty.stderr
    storage.create("home", Event(1, 0.0, "decide", b"{}", b"{}"))
    result = run("audit", "--data", path)
    assert result.exit_code == 1
    assert "home: DAMAGED" in result.output


@pytest.mark.parametrize("command", [("keys", "list"), ("keys", "remove", "shop"), ("audit",)])
@pytest.mark.parametrize("flag", ["--data", "--database"])
def test_no_database_is_created_by_commands_that_read(
    tmp_path: Path, command: tuple[str, ...], flag: str
) -> None:
    path = tmp_path / "glcb.db"
    result = run(*command, flag, str(path) if flag == "--data" else f"sqlite:///{path}")
    assert isinstance(result.exception, InvalidSettings)
    assert str(path) in str(result.exception)
    assert "--data" in str(result.exception)
    assert list(tmp_path.iterdir()) == []


def test_an_invalid_role_creates_no_database(tmp_path: Path) -> None:
    result = run("keys", "add", "shop", "--role", "owner", "--data", str(tmp_path / "glcb.db"))
    assert "decide, read, edit or admin" in str(result.exception)
    assert list(tmp_path.iterdir()) == []


def test_a_port_in_use_is_reported_and_nothing_is_left_behind(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = run("serve", "--port", port, "--data", str(tmp_path / "glcb.db"))
    assert isinstance(result.exception, InvalidSettings)
    assert f"port {port}: Address already in use: choose another with --port" in str(result.exception)
    assert list(tmp_path.iterdir()) == []


def test_a_public_address_without_api_keys_is_refused(tmp_path: Path) -> None:
    result = run("serve", "--host", "0.0.0.0", "--port", "0", "--data", str(tmp_path / "glcb.db"))
    assert isinstance(result.exception, InvalidSettings)
    assert "glcb keys add" in str(result.exception)


def test_invalid_settings_are_reported(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing" / "glcb.db")
    for flags in (("--data", missing), ("--set", f"data={missing}")):
        assert f"folder {tmp_path}" in str(run("serve", *flags).exception)
    for flags in (("--data", ":memory:"), ("--database", "sqlite://"), ("--database", "sqlite:///:memory:")):
        assert "must be a file" in str(run("serve", "--port", "0", *flags).exception)
    unreachable = run("serve", "--database", "postgresql://nobody@localhost:1/none")
    assert isinstance(unreachable.exception, StorageError)
    unknown = run("serve", "--set", "max_arm=3", "--data", str(tmp_path / "glcb.db"))
    assert "no setting max_arm" in str(unknown.exception)


@pytest.mark.parametrize("command", [("serve",), ("audit",), ("keys", "list")])
def test_a_missing_extra_is_reported_with_the_install_command(
    monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name.startswith("glcb.service"):
            raise ModuleNotFoundError("No module named 'msgspec'", name="msgspec")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    result = run(*command)
    assert isinstance(result.exception, MissingExtra)
    assert "'.[service]'" in str(result.exception)
