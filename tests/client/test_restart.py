"""The service is killed and restarted while a program uses it; import and installation of the client."""

import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from benchmarks.service.server import Server
from glcb.client import Client

STEPS = 120


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.live
def test_a_killed_service_loses_and_duplicates_nothing(tmp_path: Path) -> None:
    server = Server(("--data", str(tmp_path / "glcb.db")), "--port", str(free_port()))
    made: list[tuple[str, bool]] = []
    begun = threading.Event()

    def use() -> None:
        with Client(server.url, retry_for=120) as client:
            experiment = client.experiment("e")
            for step in range(STEPS):
                decision = experiment.decide({"x": step})
                made.append((decision.id, experiment.reward(decision.id, step % 2)))
                if step == 10:
                    begun.set()

    try:
        with Client(server.start().url) as client:
            client.create("e", ["a", "b"], policy="linucb")
        program = threading.Thread(target=use)
        program.start()
        assert begun.wait(60)
        server.kill()
        assert len(made) < STEPS
        server.start()
        program.join(120)
        assert not program.is_alive()
        assert [accepted for _, accepted in made] == [True] * STEPS
        events = server.client.events("e")
        assert [event["id"] for event in events if event["event"] == "decision"] == [
            decision_id for decision_id, _ in made
        ]
        assert [event["id"] for event in events if event["event"] == "reward"] == [
            decision_id for decision_id, _ in made
        ]
    finally:
        server.close()


def test_the_client_loads_neither_numpy_nor_numba() -> None:
    program = "import glcb.client, sys; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    loaded = {name.split(".")[0] for name in ran.stdout.split()}
    assert "httpx" in loaded
    assert not loaded & {"numpy", "numba", "typer", "uvicorn", "starlette", "sqlalchemy"}


def test_a_missing_httpx_is_reported_with_the_command_that_installs_it() -> None:
    program = "import sys; sys.modules['httpx'] = None\nimport glcb.client"
    ran = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert "MissingExtra: the client needs httpx: pip install '.[client]'" in ran.stderr
