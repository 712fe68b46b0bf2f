"""Results folders: one file of records, one line of JSON per finished run.

The first line names the format. A record is written and synced before the next run is reported, so a crash
loses only unfinished runs. If a crash leaves an incomplete last line, the next writer removes it. One process
at a time may write to a folder.

Long texts that many records share (the environment) are written once, in a separate line, and referred to by
number.
"""

import errno
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from glcb._errors import ResultsError
from glcb._files import lock_file
from glcb._formats import RESULTS
from glcb.bench.run import Failure, RunRecord
from glcb.bench.statistics import mean_and_error

FILE = "runs.jsonl"
FAILURES = "failures.jsonl"


class Results:
    """All records in a folder.

    Parameters
    ----------
    folder : Path
        The folder. It may be empty or absent.

    Raises
    ------
    ResultsError
        If the file is damaged or has another format.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records: list[RunRecord] = []
        self._environments: list[str] = []
        self._complete_bytes = 0  # length of the file without an incomplete last line
        self._load()

    def keys(self) -> set[str]:
        """Return the keys of all finished runs."""
        return {record.key for record in self.records}

    def repair(self) -> None:
        """Remove an incomplete last line, left by a killed writer."""
        path = self.folder / FILE
        if path.exists():
            os.truncate(path, self._complete_bytes)

    def append(self, outcome: RunRecord | Failure) -> None:
        """Write one outcome durably."""
        if isinstance(outcome, Failure):
            _append(self.folder / FAILURES, asdict(outcome))
            return
        path = self.folder / FILE
        if not path.exists() or not path.stat().st_size:
            _append(path, {"format": RESULTS.number})
        if outcome.environment not in self._environments:
            self._environments.append(outcome.environment)
            _append(path, {"environment": outcome.environment})
        number = self._environments.index(outcome.environment)
        _append(path, asdict(outcome) | {"environment": number})
        self.records.append(outcome)

    def _load(self) -> None:
        path = self.folder / FILE
        if not path.exists():
            return
        for number, line in enumerate(path.read_bytes().splitlines(keepends=True), start=1):
            if not line.endswith(b"\n"):
                return  # incomplete: its writer was killed
            try:
                content = json.loads(line)
                if number == 1:
                    if content.get("format") != RESULTS.number:
                        raise RESULTS.mismatch(path, content.get("format"))
                else:
                    self._add(content)
            except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
                raise ResultsError(
                    f"line {number} of {path} is damaged ({error}): remove that line"
                ) from error
            self._complete_bytes += len(line)

    def _add(self, line: dict[str, Any]) -> None:
        if set(line) == {"environment"}:
            self._environments.append(line["environment"])
            return
        values = {field.name: line[field.name] for field in fields(RunRecord) if field.name in line}
        self.records.append(RunRecord(**values | {"environment": self._environments[line["environment"]]}))


@contextmanager
def writing(folder: Path) -> Iterator[Results]:
    """Open ``folder`` for writing. Only one process at a time can do so.

    Raises
    ------
    ResultsError
        If another process is writing, or the folder is not writable.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        opened = (folder / ".lock").open("w")
    except OSError as error:
        raise ResultsError(f"cannot write to the folder {folder}: {error.strerror}") from error
    with opened as lock:
        try:
            lock_file(lock.fileno())
        except OSError:
            raise ResultsError(
                f"another process is writing to {folder}: wait until it ends, or use another folder"
            ) from None
        results = Results(folder)
        results.repair()
        yield results


def _append(path: Path, content: dict[str, Any]) -> None:
    """Append one line, completely or not at all."""
    line = (json.dumps(content, separators=(",", ":")) + "\n").encode()
    before = path.stat().st_size if path.exists() else 0
    try:
        with path.open("ab", buffering=0) as file:
            if file.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(file.fileno())
    except OSError as error:
        if path.exists():
            os.truncate(path, before)
        raise ResultsError(f"cannot write {path}: {error.strerror}") from error


@dataclass(frozen=True)
class SummaryRow:
    """Result of one policy on one task, over all seeds."""

    task: str
    policy: str
    seeds: int
    steps: int
    mean: float
    """Mean total reward."""
    sem: float | None
    """Standard error of the mean; None for a single seed."""
    optimum: float
    """Mean total reward of the best arms."""
    decide_us: float
    learn_us: float


def summarize(records: Iterable[RunRecord]) -> list[SummaryRow]:
    """Return one row per task and policy, in order of first appearance."""
    groups: dict[tuple[str, str], list[RunRecord]] = {}
    for record in records:
        groups.setdefault((record.task, record.policy), []).append(record)
    return [_summary_row(task, policy, group) for (task, policy), group in groups.items()]


def _summary_row(task: str, policy: str, records: list[RunRecord]) -> SummaryRow:
    mean, error = mean_and_error([record.total for record in records])
    return SummaryRow(
        task=task,
        policy=policy,
        seeds=len(records),
        steps=records[0].steps_run,
        mean=mean,
        sem=error,
        optimum=float(np.mean([record.optimum for record in records])),
        decide_us=float(np.median([record.decide_us for record in records])),
        learn_us=float(np.median([record.learn_us for record in records])),
    )
