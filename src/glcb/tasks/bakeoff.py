"""The bake-off: every data set in the folder ``bakeoff`` of the data directory is a task.

A data set is a text file with a header, separated by tabs (``.tsv``) or commas (``.csv``), plain or
compressed (``.xz``, ``.gz``). The column ``target`` holds the class. The spelling of its values determines
the type of a column:

- Integers that are all different identify the row, and are dropped.
- Integers with 3 to 12 distinct values are the codes of a category. ``ORDINAL`` lists the exceptions.
- Other numbers, also whole ones such as ``1.0``, are numbers.
- Text is a category.

Rows with a missing value are dropped.
"""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from glcb._errors import DataError, InvalidSettings
from glcb.tasks.classification import LabeledTask
from glcb.tasks.data import cache
from glcb.tasks.data.cache import ParsedData
from glcb.tasks.data.directory import EXTENSIONS, data_directory
from glcb.tasks.data.readers import ColumnOptions, count_integers, read_header, read_text_file
from glcb.tasks.data.table import LabeledTable
from glcb.tasks.registry import register_folder

FOLDER = "bakeoff"
LABEL = "target"
DELIMITERS = {".tsv": "\t", ".csv": ","}
"""The character that separates values, by the extension of the file."""
CODES = range(3, 13)
"""Integers with this many distinct values are the codes of a category."""
ORDINAL = frozenset({"coil2000"})
"""Data sets in which all integers are numbers: the codes of coil2000 are ordered."""


class BakeoffTask(LabeledTask):
    """A data set in the folder ``bakeoff``: the classes are the arms, and the correct one pays 1.

    The file is opened when its data is first used.

    Parameters
    ----------
    name : str
        Name of the folder and of the file without its extensions, such as ``"bakeoff/magic"``.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def source(self) -> Path:
        """Path of the file."""
        found = data_sets().get(self.name, [])
        if not found:
            raise DataError(f"the task {self.name!r} has no file: {how_to_add()}")
        if len(found) > 1:
            names = ", ".join(path.name for path in found)
            raise DataError(
                f"the task {self.name!r} has several files in {found[0].parent}, keep one: {names}"
            )
        return found[0]

    @cached_property
    def data(self) -> LabeledTable:
        """The rows and their labels."""
        return LabeledTable.from_parsed(cache.load(self.name, self.source, _read))

    def __reduce__(self) -> tuple[Callable[[str], Any], tuple[str]]:
        # A copy in another process opens the file itself; rows are not pickled.
        return type(self), (self.name,)


class BakeoffFolder:
    """The tasks of the bake-off."""

    name = FOLDER

    def names(self) -> list[str]:
        """Return the names of the tasks, sorted."""
        return sorted(data_sets())

    def get(self, name: str) -> BakeoffTask:
        """Return the task called ``name``.

        Without any data set, the error is raised when the data is used, as for other missing files.
        """
        available = data_sets()
        if available and name not in available:
            raise InvalidSettings(
                f"there is no task {name!r}; the data sets in {folder()} are {', '.join(sorted(available))}"
            )
        return BakeoffTask(name)


register_folder(BakeoffFolder())


def folder() -> Path:
    """Return the path of the folder."""
    return data_directory() / FOLDER


def how_to_add() -> str:
    """Say how to add a data set."""
    return (
        f"put data sets with a column {LABEL!r} into {folder()}, as .tsv or .csv files, or set GLCB_DATA_DIR "
        f"to a directory with the folder {FOLDER!r}"
    )


def data_sets() -> dict[str, list[Path]]:
    """Return the files in the folder by the name of their task. A valid task has exactly one file."""
    found: dict[str, list[Path]] = {}
    for path in sorted(folder().iterdir()) if folder().is_dir() else ():
        name, suffix = _split(path.name)
        if name and not name.startswith(".") and suffix in DELIMITERS and path.is_file():
            found.setdefault(f"{FOLDER}/{name}", []).append(path)
    return found


def _split(filename: str) -> tuple[str, str]:
    """Separate the name of the data set from the extension that implies the delimiter.

    >>> _split("my.data.tsv.xz"), _split("notes.txt")
    (('my.data', '.tsv'), ('notes', '.txt'))
    """
    for extension in filter(None, EXTENSIONS):
        filename = filename.removesuffix(extension)
    name, dot, suffix = filename.rpartition(".")
    return name, dot + suffix


def _read(path: Path) -> ParsedData:
    """Parse ``path`` into a form that can be cached."""
    name, suffix = _split(path.name)
    try:
        return _parse(path, DELIMITERS[suffix], ordinal=name in ORDINAL).to_parsed()
    except DataError as error:
        if str(path) in str(error):
            raise
        raise DataError(f"cannot use {path}: {error}") from error


def _parse(path: Path, delimiter: str, *, ordinal: bool) -> LabeledTable:
    names = read_header(path, delimiter)
    if LABEL not in names:
        raise DataError(f"there is no column {LABEL!r} for the class; the columns are {', '.join(names[:8])}")
    integers = count_integers(path, delimiter)
    integers.pop(LABEL, None)
    identifiers = {column for column, (values, distinct) in integers.items() if values == distinct}
    codes = {column for column, (_, distinct) in integers.items() if distinct in CODES and not ordinal}
    options = ColumnOptions(ignore=identifiers, categories=[LABEL, *codes - identifiers], missing="drop")
    table = read_text_file(path, required=[LABEL], delimiter=delimiter, options=options)
    return LabeledTable.split(table, LABEL)
