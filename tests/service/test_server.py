"""The server process: an error during shutdown reaches the caller, and nothing is left behind."""

import asyncio
import gc
import socket
import sys
import warnings
from pathlib import Path

import pytest

from glcb.service import server
from glcb.service.access.api_keys import Keyring
from glcb.service.config import ServiceSettings
from glcb.service.engine.engine import Engine
from glcb.service.server import Service
from glcb.service.storage.database import Database
from tests.support.engine_harness import FailingDatabase


def test_an_error_during_shutdown_is_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(_: Engine) -> None:
        raise ValueError("unexpected")

    async def stop_immediately(_: Database) -> None:
        service._server.should_exit = True
        await asyncio.Event().wait()

    monkeypatch.setattr(Engine, "stop", fails)
    monkeypatch.setattr(sys, "setswitchinterval", lambda seconds: None)
    database = FailingDatabase(tmp_path)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        service = Service(ServiceSettings(), database, Keyring(database), [listener], stop_immediately)
        with pytest.raises(ValueError, match="unexpected"):
            service.run()


def test_a_shutdown_during_periodic_work_leaves_no_coroutine_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stop_meanwhile(_: Engine) -> None:
        service._server.should_exit = True
        await asyncio.Event().wait()

    async def nothing() -> None:
        return

    monkeypatch.setattr(Engine, "tick", stop_meanwhile)
    monkeypatch.setattr(server, "_TICK_SECONDS", 0.0)
    monkeypatch.setattr(server, "warm_up", nothing)
    monkeypatch.setattr(server, "warm_up_rest", nothing)
    monkeypatch.setattr(sys, "setswitchinterval", lambda seconds: None)
    for name in ("freeze", "set_threshold"):
        monkeypatch.setattr(gc, name, lambda *_: None)
    database = FailingDatabase(tmp_path)
    with socket.socket() as listener, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        listener.bind(("127.0.0.1", 0))
        service = Service(ServiceSettings(), database, Keyring(database), [listener])
        service.run()
        gc.collect()
    assert [str(one.message) for one in caught if "never awaited" in str(one.message)] == []
