"""Export the decisions and rewards of an experiment as JSON lines or as a Parquet file."""

import io
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from itertools import chain
from typing import Any

from glcb._api.requests import encode
from glcb.bandit.logs.format import header_event
from glcb.service.core.export import Row, rows
from glcb.service.errors import ApiError
from glcb.service.storage.database import Database

MEDIA_TYPES = {"jsonl": "application/x-ndjson", "parquet": "application/vnd.apache.parquet"}
_CHUNK_BYTES = 256 << 10
"""Size at which a chunk of lines is sent."""
_ROW_GROUP = 10_000
"""Maximum number of rows per row group of a Parquet file."""
_ROW_GROUP_BYTES = 4 << 20
"""Size of contexts and arms at which a row group is complete."""
_NESTED = ("probabilities", "metrics", "context", "eligible", "slots", "arms", "added", "removed")
"""Columns of a Parquet file with JSON values."""


def parse_query(query: Mapping[str, str]) -> tuple[str, int]:
    """Return the format of an export and the sequence number after which it starts."""
    unknown = sorted(query.keys() - {"format", "after"})
    export_format, after = query.get("format", "jsonl"), query.get("after", "0")
    if (
        unknown
        or export_format not in MEDIA_TYPES
        or not (after.isascii() and after.isdigit() and len(after) < 19)
    ):
        raise ApiError(
            "invalid_request",
            f"the query must be format=jsonl or parquet, and after=SEQUENCE, got {dict(query)!r}",
        )
    return export_format, int(after)


async def stream(database: Database, experiment: int, export_format: str, after: int) -> AsyncIterator[bytes]:
    """Yield the export in chunks. The database is read in a thread, at the pace of the consumer."""
    exported = chain.from_iterable(map(rows, database.events(experiment, after)))
    chunks = _lines(exported) if export_format == "jsonl" else _parquet(exported)
    while (chunk := await database.export_threads.run(next, chunks, None)) is not None:
        yield chunk


def _lines(exported: Iterator[Row]) -> Iterator[bytes]:
    chunk = bytearray(encode(header_event()) + b"\n")
    for row in exported:
        chunk += encode({name: value for name, value in row.items() if value is not None}) + b"\n"
        if len(chunk) >= _CHUNK_BYTES:
            yield bytes(chunk)
            chunk.clear()
    if chunk:
        yield bytes(chunk)


def _parquet(exported: Iterator[Row]) -> Iterator[bytes]:
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
            "slots": pa.string(),
            "arms": pa.string(),
            "added": pa.string(),
            "removed": pa.string(),
            "control": pa.string(),
            "unit": pa.string(),
            "metrics": pa.string(),
        }
    )
    sink = _Sink()
    with pq.ParquetWriter(sink, schema) as writer:
        for group in _row_groups(exported):
            writer.write_table(pa.Table.from_pylist(group, schema))
            yield sink.take()
    yield sink.take()


class _Sink(io.RawIOBase):
    """A file whose content is read and removed as it grows."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the number of bytes written so far."""
        return self._size

    def write(self, content: Any) -> int:
        """Append bytes."""
        self._parts.append(bytes(content))
        self._size += len(self._parts[-1])
        return len(self._parts[-1])

    def take(self) -> bytes:
        """Return the bytes written since the last call."""
        content = b"".join(self._parts)
        self._parts.clear()
        return content


def _row_groups(exported: Iterator[Row]) -> Iterator[list[Row]]:
    group: list[Row] = []
    size = 0
    for row in exported:
        nested = {name: json.dumps(row[name]) for name in _NESTED if row.get(name) is not None}
        group.append({**row, **nested})
        size += sum(map(len, nested.values()))
        if len(group) == _ROW_GROUP or size >= _ROW_GROUP_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group
