"""The generated reference of the command line."""

import re
import subprocess
import sys

import pytest
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from glcb import InvalidSettings
from glcb.cli import app
from glcb.cli.reference import markdown


def sections() -> dict[str, str]:
    title, *rest = re.split(r"^## (.*)$", markdown(), flags=re.MULTILINE)
    assert title == ""
    return dict(zip(rest[::2], rest[1::2], strict=True))


def test_every_command_has_a_section() -> None:
    command = get_command(app)
    assert isinstance(command, TyperGroup)
    expected = ["glcb"]
    for name, child in command.commands.items():
        expected.append(f"glcb {name}")
        expected += [
            f"glcb {name} {each}" for each in (child.commands if isinstance(child, TyperGroup) else ())
        ]
    assert list(sections()) == expected


def test_every_command_argument_and_option_has_a_description() -> None:
    for title, text in sections().items():
        assert re.search(r"^[A-Z].*\.$", text, re.MULTILINE), title
        for row in re.findall(r"^\| `(.*)` \| (.*) \| .* \|$", text, re.MULTILINE):
            assert row[1].endswith((".", "…")), (title, row)


def test_defaults_and_required_parameters_are_shown() -> None:
    learn = sections()["glcb learn"]
    assert "    glcb learn LOG [OPTIONS]\n" in learn
    assert re.search(r"`--out FILE` \| .* \| required \|", learn)
    assert re.search(r"`--arm-column COLUMN` \| .* \| `arm` \|", learn)
    assert re.search(r"`--policy NAME` \| .* \| glcb \|", learn)


def test_flags_are_spelled_alike_in_all_commands() -> None:
    """A list is a plural flag with names separated by commas; columns end in -column."""
    flags = set(re.findall(r"`(--[a-z-]+)", markdown()))
    assert {
        "--tasks",
        "--policies",
        "--experiments",
        "--arms",
        "--ignore-columns",
        "--json",
        "--out",
    } <= flags
    assert not {"--task", "--experiment", "--ignore", "--output", "--arm", "--reward"} & flags


def test_an_unknown_executor_is_refused() -> None:
    result = CliRunner().invoke(app, ["bench", "--executor", "cloud"])
    assert isinstance(result.exception, InvalidSettings)
    assert "there is no executor 'cloud'; the executors are local, ray" in str(result.exception)


@pytest.mark.parametrize("arguments", [("bench", "--preset", "nothing"), ("tasks", "show", "nothing")])
def test_an_error_is_one_line_without_a_traceback(arguments: tuple[str, ...]) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "glcb", *arguments], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 2
    assert ran.stderr.startswith("error: ")
    assert "Traceback" not in ran.stderr
