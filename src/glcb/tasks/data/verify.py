"""Verification of data files."""

import hashlib
from dataclasses import replace
from pathlib import Path

from glcb._errors import DataError
from glcb.tasks.data.directory import DataFile, open_binary
from glcb.tasks.file_task import FileTask


def verify(task: FileTask, file: DataFile, path: Path) -> str:
    """Check that ``path`` holds ``file`` and return what was compared.

    If the hash of the original is known, it is compared. Other files circulate as copies that differ in
    layout or order but not in content, so their rows, columns and classes are counted.

    Parameters
    ----------
    task : FileTask
        The task that reads the file.
    file : DataFile
        The expected file.
    path : Path
        The file to check.

    Returns
    -------
    str
        What was compared, for example ``"SHA-256"``.

    Raises
    ------
    DataError
        If the contents differ from what is expected.
    """
    if file.sha256 is not None:
        if _digest(path) != file.sha256:
            raise DataError(f"{path} is not the original {file.name}: its SHA-256 hash differs")
        return "SHA-256"
    actual, expected = task.facts(task.read(path)), file.facts
    if actual != (expected if expected.counts else replace(expected, counts=actual.counts)):
        raise DataError(f"{path} is not a valid {file.name}: expected {expected}, got {actual}")
    return "rows, columns, classes" if expected.counts else "rows, columns"


def _digest(path: Path) -> str:
    """Return the hash of a text file, independent of its line endings."""
    digest = hashlib.sha256()
    with open_binary(path) as content:
        for line in content:
            digest.update(line.rstrip(b"\r\n") + b"\n")
    return digest.hexdigest()
