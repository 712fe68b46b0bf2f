"""From the install command to the first reward learnt: the five commands as they stand in the README."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.service.conftest import Serve

README = Path(__file__).parents[2] / "README.md"


def _commands() -> list[str]:
    blocks = re.findall(r"(?:^    .*\n)+", README.read_text(), flags=re.MULTILINE)
    block = next(block for block in blocks if "glcb serve" in block and "curl" in block)
    return [line.partition("  #")[0].strip() for line in block.splitlines()]


def test_the_readme_has_five_commands() -> None:
    install, serving, *asking = _commands()
    assert install == "pip install '.[service]'"
    assert serving == "glcb serve"
    assert len(asking) == 3
    assert all(command.startswith("curl --json ") for command in asking)


@pytest.mark.tools
def test_the_commands_lead_to_the_first_reward_learnt(serve: Serve, tmp_path: Path) -> None:
    server = serve(folder=tmp_path)
    *_, create, decide, reward = (
        command.replace("localhost:8000", server.url.removeprefix("http://")) for command in _commands()
    )
    assert json.loads(_shell(create))["state"] == "running"
    decision = json.loads(_shell(decide))
    assert decision["arm"] in ("sports", "news", "games")
    assert json.loads(_shell(reward.replace("/ID/", f"/{decision['id']}/")))["status"] == "taken"
    counts = server.client.get("/v1/experiments/homepage").data["counts"]
    assert counts == {"issued": 1, "rewarded": 1, "expired": 0, "waiting": 0}


def test_without_flags_the_data_lies_in_the_current_folder(serve: Serve, tmp_path: Path) -> None:
    server = serve(store=("--host", "127.0.0.1"), folder=tmp_path)
    server.stop()
    assert (tmp_path / "glcb.db").is_file()


def _shell(command: str) -> str:
    ran = subprocess.run(
        command + " --silent --show-error", shell=True, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran
    return ran.stdout
