"""Stored results of studies that do not consist of benchmark runs."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from glcb._formats import LOG
from glcb.policies import registry

T = TypeVar("T")


class StoredResults:
    """Results by key in a file, one line each, so that an interrupted study can resume.

    An incomplete last line, left by a study that was killed, is removed.

    Parameters
    ----------
    folder : Path
        The folder of the study.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / "results.jsonl"
        self._results: dict[str, Any] = {}
        if self._path.exists():
            content = self._path.read_bytes()
            complete = content.rfind(b"\n") + 1
            if complete < len(content):
                os.truncate(self._path, complete)
            for line in content[:complete].splitlines():
                stored = json.loads(line)
                self._results[stored["key"]] = stored["result"]

    def get(self, policy: str, key: str, measure: Callable[[], T]) -> T:
        """Return a stored result of this version of a policy and of the bandit, or measure and store it."""
        key = f"{policy} version {registry.get(policy).version}, log version {LOG.number}, {key}"
        if key not in self._results:
            self._results[key] = measure()
            with self._path.open("a") as file:
                file.write(json.dumps({"key": key, "result": self._results[key]}) + "\n")
        result: T = self._results[key]
        return result
