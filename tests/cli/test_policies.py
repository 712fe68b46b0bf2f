"""``glcb policies``."""

import json

from typer.testing import CliRunner

from glcb.cli import app
from glcb.policies import registry


def test_every_policy_is_listed_with_its_source() -> None:
    result = CliRunner().invoke(app, ["policies"], env={"COLUMNS": "300"})
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    for name in registry.names():
        entry = registry.get(name)
        (line,) = (line for line in lines if line.split()[0] == name)
        assert entry.summary in line
        assert entry.source in line
    (reconstructed,) = (line for line in lines if line.startswith("constsgd"))
    assert "reconstruction" in reconstructed


def test_the_list_is_available_as_json() -> None:
    result = CliRunner().invoke(app, ["policies", "--json"])
    assert [row["name"] for row in json.loads(result.stdout)] == list(registry.names())
