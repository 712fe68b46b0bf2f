"""All decisions and rewards of an experiment, as a stream of JSON lines or as a Parquet file.

Lines have the form that ``Bandit.log_to`` writes and ``Bandit.learn_from`` reads, but there are no outcomes:
what was learned when the time of a decision was over is not on record, it follows from a replay.
"""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

import msgspec

from glcb._api.requests import DecisionRequest, RewardOf, encode
from glcb._api.responses import Decision
from glcb.service.errors import Problem
from glcb.service.storage.storage import Event, Storage

MEDIA = {"jsonl": "application/x-ndjson", "parquet": "application/vnd.apache.parquet"}
_LINES = 1000
_GROUP = 10_000
"""Rows of a group in a Parquet file."""

Row = dict[str, Any]


def checked(query: Mapping[str, str]) -> tuple[str, int]:
    """Return format and beginning of an export."""
    unknown = sorted(query.keys() - {"format", "after"})
    form, after = query.get("format", "jsonl"), query.get("after", "0")
    if unknown or form not in MEDIA or not (after.isascii() and after.isdigit() and len(after) < 19):
        raise Problem(
            "invalid_request",
            f"an export takes format=jsonl or parquet, and after=the number of an event, got {dict(query)!r}",
        )
    return form, int(after)


async def stream(storage: Storage, number: int, form: str, after: int) -> AsyncIterator[bytes]:
    """Return the export piece by piece; the database is read in a thread, no faster than pieces are taken."""
    rows = _rows(storage.events(number, after))
    pieces = _lines(rows) if form == "jsonl" else _parquet(rows)
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        yield piece


def _rows(events: Iterator[Event]) -> Iterator[Row]:
    for event in events:
        if event.kind == "decide":
            asked = msgspec.json.decode(event.request, type=DecisionRequest)
            made = msgspec.json.decode(event.outcome, type=Decision)
            yield {
                "event": "decision",
                "id": made.id,
                "time": event.at,
                "sequence": event.sequence,
                "arm": made.arm,
                "propensity": made.propensity,
                "probabilities": made.probabilities,
                "holdout": made.holdout,
                "context": asked.context,
                "eligible": asked.eligible,
                "idempotency_key": asked.idempotency_key,
            }
        elif event.kind == "reward":
            given = msgspec.json.decode(event.request, type=RewardOf)
            yield {
                "event": "reward",
                "id": given.id,
                "time": event.at,
                "sequence": event.sequence,
                "reward": float(given.value),
                "idempotency_key": given.idempotency_key,
            }


def _lines(rows: Iterator[Row]) -> Iterator[bytes]:
    lines: list[bytes] = []
    for row in rows:
        lines.append(encode({name: value for name, value in row.items() if value is not None}))
        if len(lines) == _LINES:
            yield b"\n".join(lines) + b"\n"
            lines.clear()
    if lines:
        yield b"\n".join(lines) + b"\n"


def _parquet(rows: Iterator[Row]) -> Iterator[bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(
        {
            "event": pa.string(),
            "id": pa.string(),
            "time": pa.float64(),
            "sequence": pa.int64(),
            "arm": pa.string(),
            "propensity": pa.float64(),
            "probabilities": pa.string(),
            "holdout": pa.bool_(),
            "context": pa.string(),
            "eligible": pa.string(),
            "idempotency_key": pa.string(),
            "reward": pa.float64(),
        }
    )
    sink = _Sink()
    with pq.ParquetWriter(sink, schema) as writer:
        for group in _groups(rows):
            writer.write_table(pa.Table.from_pylist(group, schema))
            yield sink.taken()
    yield sink.taken()


class _Sink(io.RawIOBase):
    """A file that is handed on as it grows."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        """Return that it is."""
        return True

    def tell(self) -> int:
        """Return how much was written."""
        return self._size

    def write(self, content: Any) -> int:
        """Take what comes next."""
        self._parts.append(bytes(content))
        self._size += len(self._parts[-1])
        return len(self._parts[-1])

    def taken(self) -> bytes:
        """Return what was written since the last time."""
        content = b"".join(self._parts)
        self._parts.clear()
        return content


def _groups(rows: Iterator[Row]) -> Iterator[list[Row]]:
    group: list[Row] = []
    for row in rows:
        nested = {
            name: json.dumps(row[name])
            for name in ("probabilities", "context", "eligible")
            if row.get(name) is not None
        }
        group.append({**row, **nested})
        if len(group) == _GROUP:
            yield group
            group = []
    if group:
        yield group
