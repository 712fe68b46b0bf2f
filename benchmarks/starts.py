"""Start ``glcb serve`` repeatedly under load: ``python -m benchmarks.starts``; part of ``make soak``.

Clients send requests of all kinds from the first moment, while the service restores six experiments, so that
several threads do everything for the first time at once.
"""

import argparse
import contextlib
import http.client
import shutil
import socket
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.service.client import Client
from benchmarks.service.server import Server, serving

STARTS = 60
LOAD_SECONDS = 0.8
"""How long the load continues after the service is ready."""
DECISIONS = 60
SNAPSHOTS = ("--set", "snapshot_seconds=0.02")
_ITEMS = {f"i{number}": {"price": number} for number in range(6)}
EXPERIMENTS: dict[str, dict[str, Any]] = {
    "plain": {"arms": ["a", "b"]},
    "catalog": {"arms": _ITEMS, "slots": 3},
    "steered": {
        "arms": ["a", "b"],
        "control": "a",
        "traffic": 0.5,
        "metrics": {"revenue": {"range": [0, 10]}},
    },
    "timed": {"arms": ["a", "b"], "reward_timeout": 60, "default_reward": 0},
    "bounded": {"arms": ["a", "b"], "rewards": [0, 5]},
    "linear": {"arms": ["a", "b"], "policy": "linucb"},
}

Ask = Callable[[Client, str, int], object]
LOAD: tuple[Ask, ...] = (
    lambda client, name, number: client.get(f"/v1/experiments/{name}/export"),
    lambda client, name, number: client.get(f"/v1/experiments/{name}/stats"),
    lambda client, name, number: client.get(f"/v1/experiments/{name}/changes"),
    lambda client, name, number: client.post(f"/v1/experiments/{name}/decisions", _decision(number)),
    lambda client, name, number: client.post(
        f"/v1/experiments/{name}/decisions/batch", {"decisions": [_decision(one) for one in range(12)]}
    ),
    lambda client, name, number: client.post(
        "/v1/experiments/catalog/rankings",
        {**_decision(number), "k": 2, "arms": [{"arm": "z"}, {"arm": "y"}]},
    ),
)


def _decision(number: int) -> dict[str, Any]:
    return {"context": {"n": number}}


def prepare(folder: Path) -> None:
    """Make a database of experiments of all kinds, as left by a killed service."""
    with serving(["--data", str(folder / "glcb.db")], *SNAPSHOTS) as server:
        client = server.client
        for name, settings in EXPERIMENTS.items():
            assert client.put(f"/v1/experiments/{name}", settings).status == 201
            path = f"/v1/experiments/{name}/decisions"
            for number in range(DECISIONS):
                decision = client.post(path, _decision(number)).data["id"]
                client.post(f"{path}/{decision}/reward", {"value": 1})


def start_under_load(source: Path) -> tuple[int | None, str]:
    """Start a service on a copy of the database; return its exit code, None if it lives, and its output."""
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        with (
            contextlib.closing(sqlite3.connect(source / "glcb.db")) as original,
            contextlib.closing(sqlite3.connect(Path(folder) / "glcb.db")) as copy,
        ):
            original.backup(copy)
        shutil.copy(source / "glcb.db.mark", folder)
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        server = Server(["--data", f"{folder}/glcb.db"], *SNAPSHOTS, "--port", str(port))
        ended = threading.Event()
        client = Client(f"http://127.0.0.1:{port}", timeout=10)
        threads = [threading.Thread(target=_load, args=(client, ask, ended)) for ask in LOAD]
        for thread in threads:
            thread.start()
        try:
            server.start()
            time.sleep(LOAD_SECONDS)
            return server.exit_code(), server.output()
        except RuntimeError as error:  # it has ended
            return server.exit_code(), str(error)
        finally:
            ended.set()
            for thread in threads:
                thread.join()
            server.close()


def _load(client: Client, ask: Ask, ended: threading.Event) -> None:
    names, number = list(EXPERIMENTS), 0
    while not ended.is_set():
        number += 1
        try:
            ask(client, names[number % len(names)], number)
        except (OSError, http.client.HTTPException):  # not ready yet, or killed
            ended.wait(0.01)


def main() -> None:
    """Count the services that die."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=STARTS)
    count: int = parser.parse_args().starts
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        deaths = 0
        for number in range(1, count + 1):
            code, output = start_under_load(Path(folder))
            if code is not None:
                deaths += 1
                print(f"start {number} ended with {code}:\n{output[-2000:]}")
        print(f"{count} starts with {len(EXPERIMENTS)} experiments under load: {deaths} deaths")
    raise SystemExit(deaths > 0)


if __name__ == "__main__":
    main()
