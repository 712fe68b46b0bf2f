"""Export the decisions and rewards of an experiment as JSON lines or as a Parquet file.

The lines have the format that ``Bandit.log_to`` writes and ``Bandit.learn_from`` reads, without its outcome
lines: default rewards of timed-out decisions are not stored as events; they follow from a replay. Decisions
among arms with features are rankings with one slot. The reward of a ranking becomes one line per
slot. If arms have features, the catalog and its changes are exported as well.
"""

import io
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from itertools import chain
from typing import Any

import msgspec
from msgspec.json import Decoder

from glcb._api.requests import (
    Candidates,
    Catalog,
    CatalogChanges,
    DecisionRequest,
    NewArm,
    RankingRequest,
    encode,
    named_features,
)
from glcb._api.responses import Decision, Ranking
from glcb.bandit.candidates import arms_as_json
from glcb.bandit.logs.format import arms_event, header_event, unexamined_event
from glcb.bandit.slots import slot_id
from glcb.service.core.guard import RecordedReward
from glcb.service.core.rankings import NO_OUTCOME, SlotRewards
from glcb.service.errors import ApiError
from glcb.service.storage.database import Database, Event

MEDIA_TYPES = {"jsonl": "application/x-ndjson", "parquet": "application/vnd.apache.parquet"}
_CATALOG = Decoder(Catalog)
_CATALOG_CHANGES = Decoder(CatalogChanges)
_DECISION = Decoder(Decision)
_DECISION_REQUEST = Decoder(DecisionRequest)
_NEW_ARM = Decoder(NewArm)
_RANKING = Decoder(Ranking)
_RANKING_REQUEST = Decoder(RankingRequest)
_REWARD = Decoder(RecordedReward)
_SLOT_REWARDS = Decoder(SlotRewards)

_CHUNK_BYTES = 256 << 10
"""Size at which a chunk of lines is sent."""
_ROW_GROUP = 10_000
"""Maximum number of rows per row group of a Parquet file."""
_ROW_GROUP_BYTES = 4 << 20
"""Size of contexts and arms at which a row group is complete."""
_NESTED = ("probabilities", "metrics", "context", "eligible", "slots", "arms", "added", "removed")
"""Columns of a Parquet file with JSON values."""

Row = dict[str, Any]


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


def rows(event: Event) -> Iterator[Row]:
    """Yield what is exported of an event: a decision, a ranking, rewards, or changes of the catalog."""
    if event.kind == "decide":
        yield _decision(event)
    elif event.kind == "rank":
        request = _RANKING_REQUEST.decode(event.request)
        ranking = _RANKING.decode(event.outcome)
        slots = list(zip(ranking.arms, ranking.overall_propensities or ranking.propensities, strict=True))
        yield {**_ranking(event, request, ranking.id, slots), "holdout": ranking.holdout}
    elif event.kind == "reward":
        yield from _rewards(event)
    else:
        yield from _changes_of_arms(event)


def _decision(event: Event) -> Row:
    request = _DECISION_REQUEST.decode(event.request)
    decision = _DECISION.decode(event.outcome)
    overall = decision.overall_propensity
    propensity = decision.propensity if overall is None else overall
    if decision.candidates is not None:
        slots = [(decision.arm, propensity)]
        return {**_ranking(event, request, decision.id, slots), "holdout": decision.holdout}
    return {
        "event": "decision",
        "id": decision.id,
        "time": event.at,
        "sequence": event.sequence,
        "arm": decision.arm,
        "propensity": propensity,
        "probabilities": decision.probabilities,
        "holdout": decision.holdout,
        "control": decision.control,
        "unit": request.unit,
        "context": request.context,
        "eligible": request.eligible,
        "idempotency_key": request.idempotency_key,
    }


def _ranking(
    event: Event, request: DecisionRequest | RankingRequest, ranking_id: str, slots: list[tuple[str, float]]
) -> Row:
    return {
        "event": "ranking",
        "id": ranking_id,
        "time": event.at,
        "sequence": event.sequence,
        "slots": [{"arm": arm, "propensity": propensity} for arm, propensity in slots],
        "arms": None if request.arms is None else _arms(request.arms),
        "context": request.context,
        "eligible": request.eligible,
        "idempotency_key": request.idempotency_key,
    }


def _arms(candidates: Candidates) -> list[Row]:
    """Return arms with features as in a log."""
    return arms_as_json({arm: features or {} for arm, features in dict(named_features(candidates)).items()})


def _rewards(event: Event) -> Iterator[Row]:
    request = _REWARD.decode(event.request)
    outcome = SlotRewards([(0, float(request.value))], 1, [])
    if event.outcome != NO_OUTCOME:
        outcome = _SLOT_REWARDS.decode(event.outcome)
    for number, (slot, value) in enumerate(outcome.rewards):
        yield {
            "event": "reward",
            "id": slot_id(request.id, slot),
            "time": event.at,
            "sequence": event.sequence,
            "reward": value,
            "metrics": request.metrics if number < outcome.reported else None,
            "idempotency_key": request.idempotency_key if number < outcome.reported else None,
        }
    for slot in outcome.unexamined:
        yield {**unexamined_event(slot_id(request.id, slot), event.at), "sequence": event.sequence}


def _changes_of_arms(event: Event) -> Iterator[Row]:
    """Yield the arms of a new catalog, or those that were added, changed and removed."""
    all_arms: Candidates | None = None
    added: Candidates = {}
    removed: list[str] = []
    if event.kind == "create":
        arms = msgspec.json.decode(event.request).get("settings", {}).get("arms")
        all_arms = arms if isinstance(arms, dict) else None
    elif event.kind == "set_arms":
        all_arms = _CATALOG.decode(event.request).arms
    elif event.kind == "replace_model":
        all_arms = msgspec.json.decode(event.outcome).get("arms")
    elif event.kind == "change_arms":
        changes = _CATALOG_CHANGES.decode(event.request)
        added, removed = changes.arms, changes.remove
    elif event.kind in ("add_arm", "remove_arm") and event.outcome.startswith(b"{"):  # of a catalog
        arm = _NEW_ARM.decode(event.request)
        added, removed = ({arm.name: arm.features}, []) if event.kind == "add_arm" else ({}, [arm.name])
    if all_arms is not None:
        yield {**arms_event(event.at, _arms(all_arms)), "sequence": event.sequence}
    elif added or removed:
        yield {**arms_event(event.at, added=_arms(added), removed=removed), "sequence": event.sequence}


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
