"""Convert a results folder from format 1 (glcb 0.1) to the current format.

Usage: ``python -m glcb.bench.migrate FOLDER``. Every record is kept, and finished runs are still recognized
as finished.
"""

import json
import sys
from pathlib import Path
from typing import Any

from glcb._errors import ResultsError
from glcb._files import atomic_write
from glcb.bench.results import FILE, FORMAT, Results

_FIELDS = {"played": "steps_run", "best": "best_rewards"}
_SETTINGS = {
    "step": "optimizer",
    "start": "initialization",
    "weight_box": "weight_bound",
    "memory": "half_life",
}
_OPTIMIZERS = {"plain": "gradient"}


def migrate(folder: Path) -> int:
    """Convert ``folder`` in place and return the number of its records.

    Parameters
    ----------
    folder : Path
        A results folder of format 1. An incomplete last line is dropped.

    Returns
    -------
    int
        Number of records.

    Raises
    ------
    ResultsError
        If the folder has no records, has another format, or is damaged.
    """
    path = folder / FILE
    if not path.is_file():
        raise ResultsError(f"there is no {path}")
    lines = [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    try:
        contents = [json.loads(line) for line in lines]
    except ValueError as error:
        raise ResultsError(f"{path} is damaged: {error}") from error
    if contents and "format" in contents[0]:
        raise ResultsError(f"{path} has format {contents[0]['format']}; only format 1 can be converted")
    converted = [{"format": FORMAT}, *map(_convert, contents)]
    with atomic_write(path) as file:
        for content in converted:
            file.write((json.dumps(content, separators=(",", ":")) + "\n").encode())
    return len(Results(folder).records)


def _convert(line: dict[str, Any]) -> dict[str, Any]:
    if "settings" not in line:
        return line
    renamed = {_FIELDS.get(name, name): value for name, value in line.items()}
    settings = {_SETTINGS.get(name, name): value for name, value in line["settings"].items()}
    if "optimizer" in settings:
        settings["optimizer"] = _OPTIMIZERS.get(settings["optimizer"], settings["optimizer"])
    return renamed | {"settings": settings}


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m glcb.bench.migrate FOLDER")
    try:
        sys.stdout.write(f"{migrate(Path(sys.argv[1])):,} records in format {FORMAT}\n")
    except ResultsError as failure:
        sys.exit(str(failure))
