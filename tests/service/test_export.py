"""Exports and restores of large events need little memory."""

import asyncio
import tracemalloc
from pathlib import Path

import pytest

from glcb._api.requests import DecisionRequest, encode
from glcb._api.responses import Decision
from glcb.service.events import Event
from glcb.service.http import export
from glcb.service.storage.database import Database
from tests.support.builders import open_test_database

EVENTS = 60
EVENT_BYTES = 500_000
MAX_PEAK = EVENTS * EVENT_BYTES * 3 // 4


@pytest.fixture
def database(tmp_path: Path) -> Database:
    """A database with 30 MB of events."""
    opened = open_test_database(tmp_path)
    opened.create("home", Event(1, 0.0, "create", b"{}", b"{}"))
    request = encode(DecisionRequest(context={"text": "x" * EVENT_BYTES}))
    outcome = encode(Decision(id="1-a", arm="a", propensity=1.0, probabilities={"a": 1.0}, holdout=False))
    for sequence in range(2, EVENTS + 2):
        opened.append([(1, sequence, 0.0, "decide", request, outcome, b"", None)])
    return opened


def test_events_are_read_in_pages_of_limited_size(database: Database) -> None:
    tracemalloc.start()
    count = sum(1 for _ in database.events(1, 0))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == EVENTS + 1
    assert peak < MAX_PEAK


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_an_export_is_written_in_pieces_of_limited_size(database: Database, form: str) -> None:
    async def run() -> list[int]:
        return [len(chunk) async for chunk in export.stream(database, 1, form, 0)]

    asyncio.run(run())  # imports need memory too
    tracemalloc.start()
    sizes = asyncio.run(run())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.5 * MAX_PEAK  # a page, and the rows or lines made of it
    if form == "jsonl":
        assert sum(sizes) > EVENTS * EVENT_BYTES
        assert max(sizes) < 2 * EVENT_BYTES


def test_a_large_event_is_a_page_of_its_own(tmp_path: Path) -> None:
    database = open_test_database(tmp_path)
    database.create("home", Event(1, 0.0, "create", b"{}", b"{}"))
    database.append(
        [
            (1, 2, 0.0, "replace_model", bytes(20_000_000), b"{}", b"", None),
            (1, 3, 0.0, "settle", b"", b"{}", b"", None),
        ]
    )
    assert [len(event.request) for event in database.events(1, 0)] == [2, 20_000_000, 0]
