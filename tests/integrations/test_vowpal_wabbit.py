"""The command lines on the page about Vowpal Wabbit run, and agree on the log."""

import random
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from glcb import Bandit
from glcb.cli import app

PAGE = Path(__file__).parents[2] / "docs" / "migrate" / "vowpal-wabbit.md"


def commands() -> list[list[str]]:
    section = PAGE.read_text(encoding="utf-8").split("## The command line")[1].split("\n## ")[0]
    return [shlex.split(line) for line in re.findall(r"^    ((?:vw|glcb) .*)$", section, re.MULTILINE)]


def write_log(path: Path) -> None:
    rng = random.Random(10_000)
    with path.open("w") as file:
        for _ in range(400):
            age, country = rng.randint(18, 79), rng.choice(["FR", "DE", "IT"])
            best = 1 if age < 35 else 2 if country == "DE" else 3
            arm = best if rng.random() < 0.3 else rng.randint(1, 3)
            probability = 0.3 * (arm == best) + 0.7 / 3
            cost = -int(rng.random() < (0.6 if arm == best else 0.2))
            file.write(f"{arm}:{cost}:{probability:.4f} | age:{age} country={country}\n")


@pytest.mark.rivals
def test_the_commands_on_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vowpalwabbit import Workspace

    monkeypatch.chdir(tmp_path)
    write_log(tmp_path / "visits.vw")
    for program, *arguments in commands():
        if program == "vw":
            Workspace(arg_list=[*arguments, "--quiet"]).finish()
        else:
            ran = CliRunner().invoke(app, arguments)
            assert ran.exit_code == 0, f"{arguments}\n{ran.output}"
    assert "-0.0" not in Path("visits.jsonl").read_text()
    assert (tmp_path / "visits-2.model").exists()
    assert Bandit.load("visits-2.glcb").counts["rewarded"] == 800
    assert len(Path("probabilities.txt").read_text().split()) == 400
    first, again = (Path(name).read_text().split()[0].split(":") for name in ("visits.vw", "again.vw"))
    assert [float(part) for part in again] == [float(part) for part in first]
