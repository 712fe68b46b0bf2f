"""Stored results, and helpers shared by studies."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console

from glcb._formats import LOG
from glcb.bench.plan import tasks_without_data
from glcb.policies import registry

T = TypeVar("T")


class StoredResults:
    """Results by key in a file, one line each, so that an interrupted study can resume.

    An incomplete last line, left by a killed study, is removed.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / "results.jsonl"
        self._results: dict[str, Any] = {}
        if self._path.exists():
            content = self._path.read_bytes()
            complete = content.rfind(b"\n") + 1
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


def available_tasks(names: Sequence[str]) -> list[str]:
    """Return the tasks whose data exists, and print the missing ones."""
    missing = tasks_without_data(names)
    _print_skipped(missing, "their data is missing (`glcb data list`)")
    return [name for name in names if name not in missing]


def available_policies(names: Sequence[str]) -> list[str]:
    """Return the policies whose packages are installed, and print the missing ones."""
    missing = [name for name in names if registry.get(name).policy_class.missing_packages()]
    _print_skipped(missing, "their packages are not installed")
    return [name for name in names if name not in missing]


def _print_skipped(names: Sequence[str], reason: str) -> None:
    if names:
        Console(stderr=True).print(f"skipped because {reason}: {', '.join(names)}", highlight=False)
