"""On-disk cache of parsed data files, memory-mapped so that a second use takes milliseconds.

An entry is a folder with arrays and a description. Its name contains a hash of the source's path and a hash
of the source's size and modification time: a changed source gets a new entry, and the old one is removed. An
entry is written under a temporary name and renamed, so it is either complete or absent, even when two
processes write it at the same time.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from platformdirs import user_cache_path

VERSION = 1
"""Version of the parsers. Increment it when a parser returns a different result for the same file."""

_DESCRIPTION = "description.json"


@dataclass(frozen=True, eq=False)
class ParsedData:
    """The contents of a data file: arrays, and anything else as JSON."""

    arrays: dict[str, np.ndarray]
    about: dict[str, Any]


def cache_directory() -> Path:
    """Return ``GLCB_CACHE_DIR``, or the user's cache folder if it is not set."""
    configured = os.environ.get("GLCB_CACHE_DIR")
    return Path(configured) if configured else user_cache_path("glcb", appauthor=False)


def load(name: str, source: Path, parse: Callable[[Path], ParsedData]) -> ParsedData:
    """Return ``parse(source)``, from the cache if possible; without a writable cache it is parsed again."""
    entry = _entry(name, source)
    parsed = _read(entry)
    if parsed is None:
        parsed = parse(source)
        with contextlib.suppress(OSError):
            _write(entry, parsed)
            parsed = _read(entry) or parsed
    return parsed


def _entry(name: str, source: Path) -> Path:
    status = source.stat()
    location = _digest(str(source.resolve()))
    version = _digest(f"{VERSION} {status.st_size} {status.st_mtime_ns}")
    safe = re.sub(r"[^\w.-]", "-", name)
    return cache_directory() / f"{safe}-{location}-{version}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _read(entry: Path) -> ParsedData | None:
    """Return the contents of ``entry``, or None if it is absent or damaged."""
    try:
        description = json.loads((entry / _DESCRIPTION).read_text())
        arrays = {key: np.load(entry / f"{key}.npy", mmap_mode="r") for key in description["arrays"]}
        shapes = {key: [array.dtype.str, list(array.shape)] for key, array in arrays.items()}
        return ParsedData(arrays, description["about"]) if shapes == description["arrays"] else None
    except (OSError, ValueError, KeyError, TypeError, EOFError):
        return None


def _write(entry: Path, parsed: ParsedData) -> None:
    entry.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{entry.name}-", dir=entry.parent) as temporary:
        fresh = Path(temporary) / "entry"
        fresh.mkdir()
        for key, array in parsed.arrays.items():
            np.save(fresh / f"{key}.npy", array)
        shapes = {key: [array.dtype.str, list(array.shape)] for key, array in parsed.arrays.items()}
        (fresh / _DESCRIPTION).write_text(json.dumps({"arrays": shapes, "about": parsed.about}))
        _remove_outdated(entry)
        # If another process was faster, its entry holds the same data and the rename fails.
        with contextlib.suppress(OSError):
            fresh.rename(entry)


def _remove_outdated(entry: Path) -> None:
    """Remove entries made from earlier versions of the same source, and a damaged entry."""
    prefix = entry.name.rpartition("-")[0]
    for other in entry.parent.glob(f"{prefix}-*"):
        if other != entry or _read(other) is None:
            shutil.rmtree(other, ignore_errors=True)
