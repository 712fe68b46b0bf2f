"""Batch work on Ray: CPU time of scoring, evaluating and learning, with and without Ray.

    python -m benchmarks.batch score --rows 100000
    python -m benchmarks.batch evaluate --rows 40000
    python -m benchmarks.batch learn --rows 40000

Rows have ten numbers, an integer and a category, and there are three arms. All work takes place on this
machine. The CPU time of Ray includes all its processes.
"""

import argparse
import json
import os
import pickle
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np

from glcb import Bandit
from glcb._ray import connected
from glcb.bandit.logs import LogColumns
from glcb.bandit.logs.reader import read_records
from glcb.evaluate import evaluate

ARMS = ("a", "b", "c")
COUNTRIES = ("FR", "DE", "US", "GB", "IT")
FILES = 8
SHARES = (0.02, 0.05, 0.1, 0.2)


def contexts(rows: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield random contexts."""
    rng = np.random.default_rng(seed)
    numbers, ages = rng.random((rows, 10)).round(4), rng.integers(18, 80, rows)
    for row, age in enumerate(ages.tolist()):
        yield {
            **{f"x{column}": value for column, value in enumerate(numbers[row].tolist())},
            "age": age,
            "country": COUNTRIES[row % len(COUNTRIES)],
        }


def write_log(folder: Path, rows: int) -> list[Path]:
    """Write a uniformly random log in several files."""
    rng = np.random.default_rng(0)
    paths = [folder / f"{number}.jsonl" for number in range(FILES)]
    for number, path in enumerate(paths):
        with path.open("w") as file:
            for context in contexts(rows // FILES, number):
                arm = int(rng.integers(len(ARMS)))
                reward = float(rng.random() < 0.2 + 0.6 * context[f"x{arm}"])
                line = {"context": context, "arm": ARMS[arm], "reward": reward, "propensity": 1 / 3}
                file.write(json.dumps(line) + "\n")
    return paths


class Clock:
    """CPU time of this process and its descendants, including those that end; read once a second."""

    def __init__(self) -> None:
        self._seconds: dict[int, float] = {}
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        self._read()
        self._before = sum(self._seconds.values())
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()
        self._read()
        self.seconds = sum(self._seconds.values()) - self._before

    def _watch(self) -> None:
        while not self._ended.wait(1.0):
            self._read()

    def _read(self) -> None:
        parents = {os.getpid()}
        for folder in sorted(Path("/proc").glob("[0-9]*"), key=lambda folder: int(folder.name)):
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(folder.name) in parents or int(fields[1]) in parents:
                parents.add(int(folder.name))
                ticks = int(fields[11]) + int(fields[12])
                self._seconds[int(folder.name)] = ticks / os.sysconf("SC_CLK_TCK")


@contextmanager
def measured(name: str, rows: int) -> Iterator[None]:
    """Print the duration of a block."""
    load, start = os.getloadavg()[0], time.perf_counter()
    with Clock() as clock:
        yield
    seconds, used = time.perf_counter() - start, clock.seconds
    print(
        f"{name}: {seconds:.1f} s, {rows / seconds:,.0f} rows/s, {used:.1f} s of CPU, "
        f"{used / rows * 1e6:.1f} s of CPU per million rows, load {load:.0f}",
        flush=True,
    )


def trained(folder: Path) -> Bandit:
    """Return a bandit that has learned from 5,000 rows."""
    bandit = Bandit(ARMS)
    bandit.learn_from(write_log(folder, 5000 * FILES)[0])
    return bandit


def score(rows: int, folder: Path) -> None:
    """Score rows with ``decide_many``, with the scorer in one process, and with Ray on 1 and 2 workers."""
    import pyarrow
    import ray

    from glcb.integrations.ray import _Scorer
    from glcb.integrations.ray import score as run

    bandit = trained(folder)
    table = pyarrow.Table.from_pylist(list(contexts(rows, 1)))
    with measured("decide_many, one process", rows):
        Bandit._from_snapshot(bandit._snapshot()).decide_many(table.to_pylist())
    scorer = _Scorer(bandit, None, 0, None, ())
    with measured("scorer, one process", rows):
        expected = [scorer.add_columns(batch) for batch in _batches(table)]
    arms = [arm for batch in expected for arm in batch["arm"].to_pylist()]
    with connected("local", cores=2):
        ray.data.DataContext.get_current().execution_options.preserve_order = True
        dataset = ray.data.from_arrow(list(_batches(table, 10_000))).materialize()
        for workers in (1, 2):  # including their start
            with measured(f"Ray, {workers} workers", rows):
                scored = run(dataset, bandit, workers=workers).materialize()
            assert [row["arm"] for row in scored.select_columns(["arm"]).iter_rows()] == arms


def _batches(table: Any, size: int = 1024) -> Iterator[Any]:
    return (table.slice(start, size) for start in range(0, len(table), size))


def compare(rows: int, folder: Path) -> None:
    """Evaluate four policies that learn, in one process and on Ray with two cores."""
    files = write_log(folder, rows)
    policies = {f"exploration {share}": Bandit(ARMS, exploration=share) for share in SHARES}
    with measured("local", rows):
        expected = evaluate(files, policies).to_dict()
    with connected("local", cores=2):
        for _ in range(2):  # processes start and load the kernels in the first round
            with measured("Ray, 2 cores", rows):
                assert evaluate(files, policies, executor="ray").to_dict() == expected


def learn(rows: int, folder: Path) -> None:
    """Measure the parts of learning from a log, and the training of four bandits."""
    from glcb.integrations.ray import learn_many

    files = write_log(folder, rows)
    records = [record for path in files for record in read_records(path, None, LogColumns())]
    sent = [pickle.dumps(records[start : start + 1000]) for start in range(0, len(records), 1000)]
    for _ in range(3):
        with measured("read and parse", rows):
            for path in files:
                for _record in read_records(path, None, LogColumns()):
                    pass
        with measured("receive parsed rows from another process", rows):
            for part in sent:
                pickle.loads(part)
    for policy in ("linucb", "glcb"):
        bandits = {str(share): Bandit(ARMS, policy=policy, exploration=share) for share in SHARES}
        with measured(f"{policy}, four bandits, one process", rows):
            for bandit in bandits.values():
                own = Bandit._from_snapshot(bandit._snapshot())
                for path in files:
                    own.learn_from(path)
        with connected("local", cores=2):
            for _ in range(2):
                with measured(f"{policy}, four bandits, Ray with 2 cores", rows):
                    learn_many(bandits, files)


def main() -> None:
    """Run the named parts."""
    parts: dict[str, Callable[[int, Path], None]] = {"score": score, "evaluate": compare, "learn": learn}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=parts)
    parser.add_argument("--rows", type=int, default=100_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        parts[arguments.part](arguments.rows, Path(folder))


if __name__ == "__main__":
    main()
