"""The file that finished runs are appended to, one line of JSON each.

A line is written at once and synced before the next run is reported, so a crash loses at most what was not
finished. If it tears the last line, the next one to open the file for writing cuts that line off. Only one
process writes to a folder at a time.

Long texts that many records share (what they ran on) are written once, in a line of their own, and referred
to by a number.
"""

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from glcb._errors import ResultsError
from glcb._files import hold
from glcb.bench.run import Failure, Record

FILE = "runs.jsonl"
FAILURES = "failures.jsonl"


class Results:
    """All records in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.records: list[Record] = []
        self._environments: list[str] = []
        self._whole = 0
        """How many bytes of the file are whole lines."""
        self._load()

    def keys(self) -> set[str]:
        """Return the keys of all finished runs."""
        return {record.key for record in self.records}

    def repair(self) -> None:
        """Cut off a line that was torn when its writer died."""
        path = self.folder / FILE
        if path.exists():
            os.truncate(path, self._whole)

    def append(self, outcome: Record | Failure) -> None:
        """Add one outcome, durably."""
        if isinstance(outcome, Failure):
            _append(self.folder / FAILURES, asdict(outcome))
            return
        if outcome.environment not in self._environments:
            self._environments.append(outcome.environment)
            _append(self.folder / FILE, {"environment": outcome.environment})
        number = self._environments.index(outcome.environment)
        _append(self.folder / FILE, asdict(outcome) | {"environment": number})
        self.records.append(outcome)

    def _load(self) -> None:
        path = self.folder / FILE
        if not path.exists():
            return
        for number, line in enumerate(path.read_bytes().splitlines(keepends=True), start=1):
            if not line.endswith(b"\n"):
                return  # the torn end of a write that was interrupted
            try:
                self._take(json.loads(line))
            except (ValueError, TypeError, KeyError, IndexError) as error:
                raise ResultsError(
                    f"line {number} of {path} is damaged ({error}): remove that line"
                ) from error
            self._whole += len(line)

    def _take(self, line: dict[str, Any]) -> None:
        if set(line) == {"environment"}:
            self._environments.append(line["environment"])
            return
        known = {name: line[name] for name in (field.name for field in fields(Record))}
        self.records.append(Record(**known | {"environment": self._environments[line["environment"]]}))


@contextmanager
def writing(folder: Path) -> Iterator[Results]:
    """Hold ``folder`` for writing; a second writer gets an error."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        opened = (folder / ".lock").open("w")
    except OSError as error:
        raise ResultsError(f"cannot write to the folder {folder}: {error.strerror}") from error
    with opened as lock:
        try:
            hold(lock.fileno())
        except OSError:
            raise ResultsError(
                f"another process is writing to {folder}: wait for it, or choose another folder"
            ) from None
        results = Results(folder)
        results.repair()
        yield results


def _append(path: Path, content: dict[str, Any]) -> None:
    """Add one line, all of it or nothing."""
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
