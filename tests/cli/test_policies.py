"""``glcb policies``."""

from typer.testing import CliRunner

from glcb.cli import app
from glcb.policies import registry


def test_lists_every_policy_and_where_it_comes_from() -> None:
    result = CliRunner().invoke(app, ["policies"], env={"COLUMNS": "300"})
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    for name in registry.names():
        entry = registry.get(name)
        (line,) = (line for line in lines if line.split()[0] == name)
        assert entry.line in line
        assert entry.source in line
    (reconstructed,) = (line for line in lines if line.startswith("constsgd"))
    assert "reconstruction" in reconstructed
