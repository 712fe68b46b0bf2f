"""The process around the application: what goes wrong at its end is told to whoever started it."""

import asyncio
import socket
import sys
from pathlib import Path

import pytest

from glcb.service.auth import Keyring
from glcb.service.config import ServiceSettings
from glcb.service.core.engine import Engine
from glcb.service.server import Service
from glcb.service.storage.storage import Storage
from tests.service.engines import Fragile


def test_a_stop_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(_: Engine) -> None:
        raise ValueError("nobody thought of this")

    async def stopped_at_once(_: Storage) -> None:
        service._server.should_exit = True
        await asyncio.Event().wait()

    monkeypatch.setattr(Engine, "stop", fails)
    monkeypatch.setattr(sys, "setswitchinterval", lambda seconds: None)
    storage = Fragile(tmp_path)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        service = Service(ServiceSettings(), storage, Keyring(storage), listener, stopped_at_once)
        with pytest.raises(ValueError, match="nobody thought of this"):
            service.run()
