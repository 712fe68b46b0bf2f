"""Formats of logs: which one a file has, and how its decisions are read."""

import csv
import json
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from glcb._errors import InvalidSettings, LogError
from glcb.bandit.logs.format import LogColumns
from glcb.bandit.logs.reader import open_log, suffixes
from glcb.evaluate.formats import dsjson, openbandit, tables, vowpal_wabbit
from glcb.evaluate.rows import MIN_PROPENSITY, LogRow

__all__ = ["FORMATS", "Layout", "detect", "read"]


@dataclass(frozen=True)
class Layout:
    """The layout of a log: table columns, and the reward to assume where the log has none."""

    columns: LogColumns = field(default_factory=LogColumns)
    default_reward: float | None = None


FORMATS: Mapping[str, Callable[[Path, LogColumns, float | None], Iterator[LogRow]]] = {
    "jsonl": tables.read_jsonl,
    "csv": tables.read_csv,
    "parquet": tables.read_parquet,
    "vw": vowpal_wabbit.read,
    "dsjson": dsjson.read,
    "openbandit": openbandit.read,
}
"""Readers by format."""

_JSON = (".jsonl", ".ndjson", ".json", ".log", ".dsjson")
_TABLES = (".csv", ".tsv")


def read(path: Path, form: str | None, layout: Layout) -> Iterator[LogRow]:
    """Yield the decisions of a log, and the rows that cannot be used.

    Raises
    ------
    InvalidSettings
        If the format is unknown.
    LogError
        If the file cannot be read.
    """
    chosen = form or detect(path)
    if chosen not in FORMATS:
        raise InvalidSettings(f"format must be one of {', '.join(FORMATS)}, got {chosen!r}")
    return map(_checked, FORMATS[chosen](path, layout.columns, layout.default_reward))


def _checked(row: LogRow) -> LogRow:
    """Reject a decision whose propensity is too small to divide by."""
    decision = row.decision
    if decision is None or not 0 < decision.propensity < MIN_PROPENSITY:
        return row
    message = f"a propensity must be at least {MIN_PROPENSITY:g}, got {decision.propensity:g}"
    return LogRow(None, row.share, "invalid propensity", message)


def detect(path: Path) -> str:
    """Return the format of a file, from its suffix and its first line.

    Raises
    ------
    LogError
        If the file cannot be read, or its format is not recognized.
    """
    suffix = suffixes(path)[-1]
    if suffix == ".parquet":
        return "parquet"
    try:
        with open_log(path) as (file, _):
            line = next((line for line in file if not line.isspace()), b"").decode("utf-8", "replace")
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise LogError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    if suffix in _TABLES:
        return "openbandit" if openbandit.matches(next(csv.reader([line]), [])) else "csv"
    if line.startswith("{") or suffix in _JSON:
        return "dsjson" if dsjson.matches(_first_object(line)) else "jsonl"
    if vowpal_wabbit.matches(line):
        return "vw"
    raise LogError(
        f"the format of {path} is not recognized: pass format=, or --format on the command line, with one of "
        f"{', '.join(FORMATS)}"
    )


def _first_object(line: str) -> dict[str, object]:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}
