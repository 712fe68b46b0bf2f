"""The server process: an error during shutdown reaches the caller."""

import asyncio
import socket
import sys
from pathlib import Path

import pytest

from glcb.service.auth import Keyring
from glcb.service.config import ServiceSettings
from glcb.service.core.engine import Engine
from glcb.service.server import Service
from glcb.service.storage.database import Database
from tests.service.engine_harness import FailingDatabase


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
        service = Service(ServiceSettings(), database, Keyring(database), listener, stop_immediately)
        with pytest.raises(ValueError, match="unexpected"):
            service.run()
