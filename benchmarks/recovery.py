"""Write databases on several processors and versions, and recover each of them on all: part of ``make soak``.

A machine is a processor that Numba compiles for, a NumPy with or without its vector instructions, and the
versions of both. Every machine writes a database with every kind of event and is killed. Every machine then
recovers all databases. Nothing may be broken, and everything exact must be the same bit for bit: decisions,
ids, arms, propensities, groups, pending decisions, counts, statistics, settings and schema. Learned values
may differ by rounding: after 10,000 events, the values of 99.9 % of 1,000 contexts must differ by at most
0.001 of the reward range.
"""

import argparse
import asyncio
import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import msgspec
import numpy as np

from benchmarks.same_bits import NUMPY_WITHOUT_VECTORS
from benchmarks.service.everything import MIN_ROUNDS, SteppedClock, exercise
from glcb._api.requests import DecisionRequest, ExperimentSettings, RewardItem
from glcb.bandit.offline import OfflineBandit
from glcb.service.config import ServiceSettings
from glcb.service.core.experiment import Experiment
from glcb.service.engine.audit import audit_database
from glcb.service.engine.engine import Engine
from glcb.service.engine.snapshots import Replay, restore
from glcb.service.storage.connection import sqlite_url
from glcb.service.storage.database import Database

VALUES = "values"
"""The experiment whose values are compared."""
PAIRS = 5000
CONTEXTS = 1000
TOLERANCE, SHARE = 1e-3, 0.999
"""The share of values that may differ, and by how much."""
_DATABASE = "glcb.db"
_ROOT = Path(__file__).parents[1]


class Machine(NamedTuple):
    """A processor with an interpreter."""

    python: str
    processor: str
    """A name that LLVM knows; "host" for this one."""
    has_vectors: bool = True
    """Whether NumPy uses AVX2 and AVX-512."""
    versions: str = ""
    """The versions of the libraries; empty for the installed ones."""

    @property
    def name(self) -> str:
        """The name of the machine in the output."""
        parts = (self.versions, self.processor, "" if self.has_vectors else "without vectors")
        return " ".join(part for part in parts if part)

    def environment(self) -> dict[str, str]:
        """Return the changes to the environment."""
        chosen: dict[str, str] = {}
        if self.processor != "host":  # without features, Numba uses this processor's
            chosen |= {"NUMBA_CPU_NAME": self.processor, "NUMBA_CPU_FEATURES": ""}
        return chosen if self.has_vectors else chosen | dict(NUMPY_WITHOUT_VECTORS)

    def run(self, folder: Path, *arguments: str) -> Any:
        """Run this module in a process of the machine; return what it prints."""
        cache = folder / "kernels" / self.name.replace(" ", "-")
        own = {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": f"{_ROOT}{os.pathsep}{_ROOT / 'src'}"}
        command = [self.python, "-W", "ignore", "-m", "benchmarks.recovery", *arguments]
        answer = subprocess.run(
            command,
            cwd=_ROOT,
            env={**os.environ, **self.environment(), **own},
            capture_output=True,
            text=True,
            check=False,
        )
        if answer.returncode:
            raise RuntimeError(f"{self.name}: {answer.stderr[-2000:]}")
        return json.loads(answer.stdout)


class Outcome(NamedTuple):
    """The results of a comparison."""

    pairs: int
    """Number of recovered databases."""
    problems: list[str]
    largest: float
    """The largest difference of a value, as a share of the reward range."""
    share: float
    """The smallest share of contexts whose values agree."""
    rounded: int
    """Databases whose model is not bit-identical."""


# ---- in a process of one machine ----------------------------------------------------------------


def write(folder: Path, rounds: int, pairs: int) -> dict[str, Any]:
    """Write a database as a killed service leaves it; return what recovery must find."""

    async def run() -> dict[str, Any]:
        clock = SteppedClock()
        engine = Engine(database, ServiceSettings(snapshot_seconds=1e9), clock)
        await engine.start()
        await exercise(engine, clock, rounds)
        await _fill_values(engine, pairs)
        state = {name: found(loaded.experiment) for name, loaded in engine.loaded.items()}
        await engine.journal.stop()
        return state

    with closing(Database(sqlite_url(folder / _DATABASE))) as database:
        return asyncio.run(run())


async def _fill_values(engine: Engine, pairs: int) -> None:
    """Let an experiment with default settings learn."""
    random = Random(1)
    await engine.create(VALUES, ExperimentSettings(arms=["a", "b", "c"], seed=10_000))
    for _ in range(pairs):
        context = _context(random)
        answer = await engine.apply(VALUES, "decide", DecisionRequest(context=context))
        chosen = msgspec.json.decode(answer)
        likely = 0.2 + 0.6 * (context["age"] > 50) if chosen["arm"] == "a" else 0.1 + 0.5 * context["share"]
        reward = float(random.random() < likely)
        await engine.apply(VALUES, "reward", RewardItem(id=chosen["id"], value=reward))


def _context(random: Random) -> dict[str, Any]:
    return {"age": random.randrange(18, 90), "share": random.random(), "country": f"c{random.randrange(12)}"}


def read(folder: Path) -> dict[str, Any]:
    """Recover all experiments of a database, and audit it; return the findings."""
    with closing(Database(sqlite_url(folder / _DATABASE))) as database:
        states = {row.name: found(restore(database, row.id, Replay())[0]) for row in database.experiments()}
        audit = [(one.exit_code, one.line) for one in audit_database(database)]
    return {"states": states, "audit": audit}


def found(experiment: Experiment) -> dict[str, Any]:
    """Return the compared state of an experiment."""
    snapshot = experiment.snapshot()
    state = {"exact": snapshot.digest(learned=False), "all": snapshot.digest(), "values": []}
    if experiment.name == VALUES:
        bandit, random = OfflineBandit(experiment.bandit), Random(2)
        state["values"] = [bandit.preview(_context(random)).values.tolist() for _ in range(CONTEXTS)]
    return state


# ---- in the process that compares ---------------------------------------------------------------


def compare(machines: Sequence[Machine], folder: Path, rounds: int, pairs: int, workers: int) -> Outcome:
    """Let every machine write a database, and recover the databases of all machines."""
    folders = [folder / f"written-{number}" for number in range(len(machines))]
    for one in folders:
        one.mkdir()

    def written(number: int) -> Any:
        arguments = ("--rounds", str(rounds), "--pairs", str(pairs))
        return machines[number].run(folder, "--write", str(folders[number]), *arguments)

    def recovered(number: int) -> Any:
        return machines[number].run(folder, "--read", *map(str, folders))

    problems: list[str] = []
    largest, share, rounded = 0.0, 1.0, 0
    with ThreadPoolExecutor(workers) as pool:
        expected = list(_shown(machines, "wrote", pool.map(written, range(len(machines)))))
        for reader, results in enumerate(
            _shown(machines, "recovered all", pool.map(recovered, range(len(machines))))
        ):
            for writer, result in enumerate(results):
                pair = f"{machines[writer].name} → {machines[reader].name}"
                for name, before in expected[writer].items():
                    after = result["states"][name]
                    if after["exact"] != before["exact"]:
                        problems.append(f"{pair}: {name} is different")
                    same = after["all"] == before["all"]
                    rounded += not same
                    if writer == reader and not same:
                        problems.append(f"{pair}: the model of {name} is different")
                    if name == VALUES:
                        gaps = np.abs(np.array(after["values"]) - np.array(before["values"])).max(axis=1)
                        largest = max(largest, float(gaps.max()))
                        share = min(share, float((gaps <= TOLERANCE).mean()))
                problems += [f"{pair}: {line}" for code, line in result["audit"] if code]
    if share < SHARE:
        problems.append(f"the values of only {share:.2%} of the contexts agree")
    return Outcome(len(machines) ** 2, problems, largest, share, rounded)


def _shown(machines: Sequence[Machine], verb: str, results: Iterator[Any]) -> Iterator[Any]:
    for machine, result in zip(machines, results, strict=True):
        print(f"{machine.name}: {verb}", file=sys.stderr, flush=True)
        yield result


def _install(versions: str, folder: Path) -> str:
    """Make an environment with these versions of libraries; return its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    packages = [*versions.split(), "--editable", f"{_ROOT}[service]"]
    subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
    return python


def machines(pythons: Mapping[str, str], processors: Sequence[str]) -> list[Machine]:
    """Return all combinations of interpreters, processors, and NumPy with and without vectors."""
    combined = itertools.product(pythons.items(), processors, (True, False))
    return [Machine(python, processor, vectors, name) for (name, python), processor, vectors in combined]


def main() -> None:
    """Compare all machines named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = ["host", "generic"] + (["ivybridge", "skylake"] if platform.machine() == "x86_64" else [])
    parser.add_argument(
        "--processors", nargs="+", default=names, help="names of processors, as LLVM has them"
    )
    parser.add_argument(
        "--versions", nargs="*", default=[], metavar="PACKAGES", help='such as "numba==0.61.0 numpy==2.0.2"'
    )
    parser.add_argument("--rounds", type=int, default=MIN_ROUNDS)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--workers", type=int, default=2, help="processes at a time")
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--read", type=Path, nargs="+", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.write is not None:
        print(json.dumps(write(chosen.write, chosen.rounds, chosen.pairs)))
        return
    if chosen.read is not None:
        print(json.dumps([read(folder) for folder in chosen.read]))
        return
    with tempfile.TemporaryDirectory(prefix="glcb-recovery-") as name:
        folder = Path(name)
        pythons = {"": sys.executable} | {
            versions: _install(versions, folder / f"venv-{number}")
            for number, versions in enumerate(chosen.versions)
        }
        outcome = compare(
            machines(pythons, chosen.processors), folder, chosen.rounds, chosen.pairs, chosen.workers
        )
    for problem in outcome.problems:
        print(problem)
    print(
        f"{outcome.pairs} pairs of writer and reader: {len(outcome.problems)} problems; {outcome.rounded} "
        f"models differ by rounding. After {2 * chosen.pairs:,} events, the values of at least "
        f"{outcome.share:.2%} of {CONTEXTS:,} contexts differ by at most {TOLERANCE:g} of the range of "
        f"rewards; the largest difference is {outcome.largest:.2g}."
    )
    if outcome.problems:
        sys.exit(1)


if __name__ == "__main__":
    main()
