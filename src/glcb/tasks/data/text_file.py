"""Tables in text files: columns separated by a comma or something else."""

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from operator import methodcaller
from pathlib import Path

from glcb._errors import DataError, InvalidSettings
from glcb.tasks.data.directory import opened_text
from glcb.tasks.data.readers import Reading, read_table, wanted
from glcb.tasks.table import Table

_ROWS_AT_ONCE = 10_000


def read_text_file(
    path: Path,
    *,
    columns: Sequence[str] | None = None,
    needed: Sequence[str] = (),
    delimiter: str = ",",
    comment: str | None = None,
    reading: Reading,
) -> Table:
    """Return the table in ``path``. ``columns`` names the columns of a file without a header.

    Lines that start with ``comment`` are left out.
    """
    _check_delimiter(delimiter)
    names = read_header(path, delimiter) if columns is None else list(columns)
    kept = wanted(names, needed, reading)
    places = [names.index(name) for name in kept]

    def chunks() -> Iterator[Sequence[Sequence[str]]]:
        for rows in _chunks(path, delimiter, comment, len(names), skip=columns is None):
            by_column = list(zip(*rows, strict=True))
            yield [by_column[place] for place in places]

    return read_table(kept, chunks, reading)


def read_header(path: Path, delimiter: str = ",") -> list[str]:
    """Return the names in the first row of ``path``."""
    with _opened_rows(path, delimiter) as rows:
        header = next(rows, None)
    if header is None:
        raise DataError(f"{path} is empty")
    return header


def _chunks(
    path: Path, delimiter: str, comment: str | None, width: int, *, skip: bool
) -> Iterator[list[list[str]]]:
    with _opened_rows(path, delimiter, comment) as rows:
        first = 1
        if skip:
            next(rows)
            first = 2
        while chunk := list(islice(rows, _ROWS_AT_ONCE)):
            if set(map(len, chunk)) != {width}:
                number, row = next(pair for pair in enumerate(chunk, first) if len(pair[1]) != width)
                raise DataError(f"row {number:,} of {path} has {len(row)} columns instead of {width}")
            first += len(chunk)
            yield chunk


def _check_delimiter(given: object) -> None:
    if not isinstance(given, str) or len(given) != 1 or given in '"\r\n':
        raise InvalidSettings(f"the delimiter must be a single character, no quote or newline, got {given!r}")


@contextmanager
def _opened_rows(path: Path, delimiter: str, comment: str | None = None) -> Iterator[Iterator[list[str]]]:
    """Split lines, except empty ones. Blanks before a value and around a line do not count."""
    try:
        with opened_text(path) as text:
            lines = text if comment is None else (line for line in text if not line.startswith(comment))
            stripped = filter(None, map(methodcaller("strip", " \r\n"), lines))
            yield csv.reader(stripped, delimiter=delimiter, skipinitialspace=True)
    except csv.Error as error:
        raise DataError(f"cannot read {path}: {error}; is there a quote that nobody closes?") from error
