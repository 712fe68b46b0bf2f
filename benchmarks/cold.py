"""Seconds until the first decision and reward with an empty kernel cache: ``python -m benchmarks.cold``.

Every run is a new process with a new ``NUMBA_CACHE_DIR``. Wall times need an idle machine with more than one
core. CPU times include child processes, and are less affected by other programs.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.service.server import Server

_ROOT = Path(__file__).parent.parent

_FIRST_STEPS = """
import json, time
begun = time.perf_counter()
from glcb import Bandit
bandit = Bandit(["a", "b", "c"])
decision = bandit.decide({"age": 31, "country": "FR", "is_new": True})
decided = time.perf_counter()
bandit.reward(decision.id, 1)
print(json.dumps({"first decision": decided - begun, "and reward": time.perf_counter() - begun}))
"""


def first_steps(environment: dict[str, str]) -> dict[str, float]:
    """Return the seconds from ``import glcb`` to the first decision and reward of a ``Bandit``."""
    ran = subprocess.run(
        [sys.executable, "-c", _FIRST_STEPS],
        env=environment,
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    seconds: dict[str, float] = json.loads(ran.stdout)
    return seconds


def service_start(environment: dict[str, str]) -> dict[str, float]:
    """Return the seconds from the start of ``glcb serve`` until it answers requests."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server(["--data", f"{folder}/glcb.db"], environment=environment)
        begun = time.perf_counter()
        try:
            server.start()
            ready = time.perf_counter() - begun
            server.stop()
        finally:
            server.close()
        return {"service ready": ready}


def measure(run: Callable[[dict[str, str]], dict[str, float]]) -> dict[str, float]:
    """Return wall times with an empty cache, and the CPU time of all processes."""
    with tempfile.TemporaryDirectory() as folder:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = run({**os.environ, "NUMBA_CACHE_DIR": folder})
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return {**seconds, "CPU": used}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    for _ in range(rounds):
        for name, run in {"library": first_steps, "service": service_start}.items():
            load = os.getloadavg()[0]
            times = ", ".join(f"{what} {seconds:.1f} s" for what, seconds in measure(run).items())
            print(f"{name}: {times} (load average {load:.1f})", flush=True)


if __name__ == "__main__":
    main()
