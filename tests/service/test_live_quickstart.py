"""The quickstart commands of the README work, from installation to the first reward."""

import json
import os
import re
import resource
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.live

README = Path(__file__).parents[2] / "README.md"


def _commands() -> list[str]:
    blocks = re.findall(r"(?:^    .*\n)+", README.read_text(), flags=re.MULTILINE)
    block = next(block for block in blocks if "glcb serve" in block and "curl" in block)
    return [line.partition("  #")[0].strip() for line in block.splitlines()]


def test_the_readme_has_five_commands() -> None:
    install, serve, *requests = _commands()
    assert install == "pip install '.[service]'"
    assert serve == "glcb serve"
    assert len(requests) == 3
    assert all(command.startswith("curl --json ") for command in requests)


@pytest.mark.tools
def test_the_commands_work_within_two_minutes_of_cpu_time(tmp_path: Path) -> None:
    """CPU time, because wall-clock time depends on the load of the machine and the network."""
    before = _cpu_seconds()
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    home = tmp_path / "home"
    home.mkdir()
    port = _free_port()
    environment = {
        **os.environ,
        "PATH": f"{tmp_path / 'venv' / 'bin'}:{os.environ['PATH']}",
        "HOME": str(home),
        "GLCB_SERVE_PORT": str(port),
    }
    install, serve, *requests = (command.replace(":8000", f":{port}") for command in _commands())
    _shell(f"{install} --quiet --disable-pip-version-check", environment, README.parent)
    with subprocess.Popen(serve.split(), env=environment, cwd=home, stderr=subprocess.DEVNULL) as server:
        try:
            _wait_until_ready(f"localhost:{port}", server)
            create, decide, reward = (f"{command} --silent --show-error --fail" for command in requests)
            assert json.loads(_shell(create, environment, home))["state"] == "running"
            decision = json.loads(_shell(decide, environment, home))
            assert decision["arm"] in ("sports", "news", "games")
            response = _shell(reward.replace("/ID/", f"/{decision['id']}/"), environment, home)
            assert json.loads(response)["status"] == "accepted"
        finally:
            server.terminate()
    assert (home / "glcb.db").is_file()
    assert _cpu_seconds() - before < 120


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def _wait_until_ready(address: str, server: "subprocess.Popen[bytes]") -> None:
    while subprocess.run(["curl", "--silent", "--fail", f"{address}/readyz"], capture_output=True).returncode:
        assert server.poll() is None, "the server exited"
        time.sleep(0.2)


def _shell(command: str, environment: dict[str, str], folder: Path) -> str:
    ran = subprocess.run(
        command, shell=True, capture_output=True, text=True, check=False, env=environment, cwd=folder
    )
    assert ran.returncode == 0, ran
    return ran.stdout
