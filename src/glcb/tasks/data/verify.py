"""Telling a genuine data file from a wrong one."""

import hashlib
from dataclasses import replace
from pathlib import Path

from glcb._errors import DataError
from glcb.tasks.data.directory import DataFile, opened
from glcb.tasks.file_task import FileTask


def verify(task: FileTask, file: DataFile, path: Path) -> str:
    """Check that ``path`` holds ``file``; return what was compared, or raise DataError.

    The hash decides where that of the original is known. The other files are about as copies that differ
    in layout or order but not in what they say, so what they say is counted.
    """
    if file.sha256 is not None:
        if _digest(path) != file.sha256:
            raise DataError(f"{path} is not the original {file.name}: its SHA-256 differs")
        return "SHA-256"
    found, expected = task.facts(task.read(path)), file.facts
    if found != (expected if expected.counts else replace(expected, counts=found.counts)):
        raise DataError(f"{path} is not a genuine {file.name}: expected {expected}, found {found}")
    return "rows, columns, classes" if expected.counts else "rows, columns"


def _digest(path: Path) -> str:
    """Return the hash of a text, whatever its lines end with."""
    digest = hashlib.sha256()
    with opened(path) as content:
        for line in content:
            digest.update(line.rstrip(b"\r\n") + b"\n")
    return digest.hexdigest()
