"""Write a small file of every kind with the current format: ``python -m benchmarks.fixtures FOLDER``.

A later version of glcb either reads these files or explains why it does not.
"""

import argparse
import asyncio
import json
import platform
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from benchmarks.service.everything import MIN_ROUNDS, SteppedClock, exercise
from glcb import Bandit, __version__
from glcb._formats import DATABASE, FORMATS, LOG, MODEL, RESULTS, Format
from glcb.bench.results import writing
from glcb.bench.run import Run, RunRecord, execute
from glcb.policies import LinUCB
from glcb.service.config import ServiceSettings
from glcb.service.engine.engine import Engine
from glcb.service.storage.connection import sqlite_url
from glcb.service.storage.database import Database

MANIFEST = "manifest.json"


def write_bandit(path: Path) -> None:
    """Write the model of a bandit with pending decisions."""
    clock = SteppedClock()
    bandit = Bandit(
        ["a", "b", "c"],
        policy="linucb",
        seed=0,
        clock=clock,
        reward_timeout=60.0,
        default_reward=0.0,
        schema={"age": (0, 120)},
    )
    random = Random(0)
    for number in range(40):
        clock.now += 5
        decision = bandit.decide(_context(random))
        if number % 3 == 0:
            bandit.reward(decision.id, number % 2)
    bandit.save(path)


def write_policy(path: Path) -> None:
    """Write the model of a policy without a bandit."""
    policy = LinUCB(3, 5, seed=0)
    random = Random(0)
    for _ in range(40):
        x = np.array([random.random() for _ in range(5)], np.float32)
        policy.learn(x, policy.decide(x).arm, float(random.random() < 0.5))
    policy.save(path)


def write_log(path: Path) -> None:
    """Write the log of bandits with every kind of line."""
    clock, random = SteppedClock(), Random(0)
    timeouts: dict[str, Any] = {"reward_timeout": 60.0, "default_reward": 0.0}
    plain = Bandit(["a", "b"], policy="linucb", seed=0, clock=clock, **timeouts)
    plain.log_to(path)
    for number in range(30):
        clock.now += 7
        decision = plain.decide(_context(random))
        if number % 3 == 0:
            plain.reward(decision.id, 1, idempotency_key=f"order {number}")
    plain.log_to(None)
    arms = {"m1": {"price": 1.5}, "m2": {"price": 2.5}}
    catalog = Bandit(arms, policy="linucb", seed=0, clock=clock, slots=2)
    catalog.log_to(path)
    for number in range(6):
        ranking = catalog.rank(_context(random), k=2)
        catalog.reward(ranking.id, 1, slot=0, examined=1)
        catalog.add_arm(f"m{number + 3}", features={"price": 0.5 * number})
    catalog.log_to(None)


def write_results(path: Path) -> None:
    """Write the results of a benchmark with one run."""
    record = execute(Run("wheel", "uniform", 0, 40))
    assert isinstance(record, RunRecord)  # the run has not failed
    with writing(path) as results:
        results.append(record)


def write_database(path: Path, rounds: int = MIN_ROUNDS) -> None:
    """Write a database of the service with every kind of event."""

    async def run() -> None:
        clock, database = SteppedClock(), Database(sqlite_url(path))
        engine = Engine(database, ServiceSettings(), clock)
        await engine.start()
        await exercise(engine, clock, rounds)
        await engine.stop()
        database.close()

    asyncio.run(run())


WRITERS: dict[str, tuple[Format, Callable[[Path], None]]] = {
    f"model-{MODEL.number}.bandit": (MODEL, write_bandit),
    f"model-{MODEL.number}.policy": (MODEL, write_policy),
    f"log-{LOG.number}.jsonl": (LOG, write_log),
    f"results-{RESULTS.number}": (RESULTS, write_results),
    f"database-{DATABASE.number}.sqlite": (DATABASE, write_database),
}
"""The format and the writer of each fixture, by name."""


def write_all(folder: Path) -> None:
    """Write all fixtures and the manifest to a new or empty folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (_, write) in WRITERS.items():
        write(folder / name)
    manifest: dict[str, Any] = {
        "formats": {one.kind: one.number for one in FORMATS},
        "files": {name: one.kind for name, (one, _) in WRITERS.items()},
        "versions": {
            "glcb": __version__,
            "python": platform.python_version(),
            **{package: version(package) for package in ("numpy", "numba", "sqlalchemy")},
        },
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")


def _context(random: Random) -> dict[str, Any]:
    return {
        "age": random.randrange(18, 90),
        "country": random.choice(("FR", "DE", "IT")),
        "member": random.random() < 0.5,
        "embedding": [random.random() for _ in range(130)],
    }


def main() -> None:
    """Write the fixtures to the folder named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    write_all(folder)
    for path in sorted(folder.iterdir()):
        print(path.name)


if __name__ == "__main__":
    main()
