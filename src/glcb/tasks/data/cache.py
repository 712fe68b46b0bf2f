"""Parsed data is kept on disk and memory-mapped, so that its second use takes milliseconds.

An entry is a folder of arrays with a small description, named after its source's path, size and time of
change: a source that changed has another name, and its old entry is removed. An entry is written under a
temporary name and renamed, so it is either whole or not there, and whoever comes second finds it there.
"""

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from platformdirs import user_cache_path

VERSION = 1
"""Of the parsers: raise it whenever one of them would give something else for the same file."""

_DESCRIPTION = "description.json"


@dataclass(frozen=True, eq=False)
class Stored:
    """What is kept: arrays, and anything that JSON can hold."""

    arrays: dict[str, np.ndarray]
    about: dict[str, Any]


def cache_directory() -> Path:
    """Return ``GLCB_CACHE_DIR``, or the user's cache folder if that is not set."""
    named = os.environ.get("GLCB_CACHE_DIR")
    return Path(named) if named else user_cache_path("glcb", appauthor=False)


def load(name: str, source: Path, build: Callable[[Path], Stored]) -> Stored:
    """Return ``build(source)``, from the cache if it is there; without a writable cache it is built anew."""
    entry = _entry(name, source)
    stored = _read(entry)
    if stored is None:
        stored = build(source)
        with contextlib.suppress(OSError):
            _write(entry, stored)
            stored = _read(entry) or stored
    return stored


def _entry(name: str, source: Path) -> Path:
    status = source.stat()
    place = _digest(str(source.resolve()))
    state = _digest(f"{VERSION} {status.st_size} {status.st_mtime_ns}")
    return cache_directory() / f"{name}-{place}-{state}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _read(entry: Path) -> Stored | None:
    """Return what is in ``entry``, or None if there is nothing, or nothing whole."""
    try:
        description = json.loads((entry / _DESCRIPTION).read_text())
        arrays = {key: np.load(entry / f"{key}.npy", mmap_mode="r") for key in description["arrays"]}
        shapes = {key: [array.dtype.str, list(array.shape)] for key, array in arrays.items()}
        return Stored(arrays, description["about"]) if shapes == description["arrays"] else None
    except (OSError, ValueError, KeyError, TypeError, EOFError):
        return None


def _write(entry: Path, stored: Stored) -> None:
    entry.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{entry.name}-", dir=entry.parent) as room:
        fresh = Path(room) / "entry"
        fresh.mkdir()
        for key, array in stored.arrays.items():
            np.save(fresh / f"{key}.npy", array)
        shapes = {key: [array.dtype.str, list(array.shape)] for key, array in stored.arrays.items()}
        (fresh / _DESCRIPTION).write_text(json.dumps({"arrays": shapes, "about": stored.about}))
        _remove_older(entry)
        # If another process was faster, the folder is not empty and its entry stays: it holds the same.
        with contextlib.suppress(OSError):
            fresh.rename(entry)


def _remove_older(entry: Path) -> None:
    """Remove what was made from earlier states of the same source, and a damaged entry."""
    prefix = entry.name.rpartition("-")[0]
    for other in entry.parent.glob(f"{prefix}-*"):
        if other != entry or _read(other) is None:
            shutil.rmtree(other, ignore_errors=True)
