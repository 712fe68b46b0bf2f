"""The application does not retain requests and does not block the event loop."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from starlette.responses import Response

from glcb._model_file import Snapshot
from glcb.service.core import models
from glcb.service.http.app import Application
from glcb.service.http.handlers import PartedResponse
from glcb.service.http.wire import Message
from tests.support.asgi import Service, lifespan, running_service

E = "/v1/experiments/home"
CREATION = {"arms": ["a", "b", "c"], "policy": "linucb"}
TIMEOUT = 10.0
"""Seconds after which a blocked thread gives up, so that the test fails."""


class Scope(dict[str, Any]):
    """A scope that supports weak references."""


def test_requests_refused_during_startup_are_not_retained() -> None:
    async def send(_: object) -> None:
        return None

    async def refused(app: Application) -> weakref.ref[Scope]:
        scope = Scope(type="http", method="GET", path="/v1/experiments", headers=[])
        await app(scope, send, send)  # type: ignore[arg-type]  # never called
        return weakref.ref(scope)

    app = Application(lifespan)
    scopes = [asyncio.run(refused(app)) for _ in range(3)]
    gc.collect()
    assert [scope() for scope in scopes] == [None] * 3


async def test_metrics_of_a_busy_bandit_do_not_block_the_event_loop(service: Service) -> None:
    await service.ask("PUT", E, CREATION)
    bandit = service.engine.loaded["home"].experiment.bandit
    held, enough, others = threading.Event(), threading.Event(), []

    def busy() -> None:
        with bandit._lock:
            held.set()
            others.append(enough.wait(TIMEOUT))

    thread = threading.Thread(target=busy)
    thread.start()
    held.wait()
    asking = asyncio.ensure_future(service.ask("GET", "/metrics"))
    await asyncio.sleep(0.1)
    enough.set()
    answer = await asking
    thread.join()
    assert others == [True], "the event loop was blocked"
    assert b'glcb_pending_decisions{experiment="home"} 0.0' in answer.content


async def test_decisions_are_made_while_a_model_is_serialized(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    await service.ask("PUT", E, CREATION)
    begun, enough, parts_of = threading.Event(), threading.Event(), models.model_parts

    def slow_parts_of(bandit: Snapshot) -> Sequence[bytes | memoryview]:
        begun.set()
        assert enough.wait(TIMEOUT), "no decision could be made meanwhile"
        return parts_of(bandit)

    monkeypatch.setattr(models, "model_parts", slow_parts_of)
    asking = asyncio.ensure_future(service.ask("GET", f"{E}/model"))
    await asyncio.to_thread(begun.wait)
    decided = await service.ask("POST", f"{E}/decisions", {"context": {"age": 31}})
    enough.set()
    answer = await asking
    monkeypatch.undo()
    assert (decided.status, answer.status) == (200, 200)
    assert models.parse_model(answer.content).counts["decisions"] == 0, (
        "the model is that of the time of the request"
    )


@pytest.mark.settings(max_buffered_bytes=100000)
async def test_a_refused_download_is_released_at_once(service: Service) -> None:
    await service.ask("PUT", E, CREATION)
    context = {"context": {f"f{number}": 0.5 for number in range(100)}}
    assert (await service.ask("POST", f"{E}/decisions", context)).status == 200
    gc.collect()
    gc.disable()  # nothing may depend on it: a download can have hundreds of megabytes
    try:
        assert (await service.ask("GET", f"{E}/model")).code == "overloaded"
        assert [one for one in gc.get_objects() if issubclass(type(one), Response)] == []
    finally:
        gc.enable()


def test_a_download_is_released_part_by_part() -> None:
    arrays = [np.zeros(1000) for _ in range(3)]
    alive = [weakref.ref(array) for array in arrays]
    response = PartedResponse([array.data.cast("B") for array in arrays], "application/octet-stream")
    del arrays
    lengths = []

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            lengths.append(len(message["body"]))
            assert all(array() is None for array in alive[: len(lengths) - 1])

    async def receive() -> Message:
        raise AssertionError

    asyncio.run(response({"type": "http"}, receive, send))
    assert lengths == [8000] * 3
    assert response.headers["content-length"] == "24000"


async def test_an_explanation_is_subject_to_the_limit_on_model_size(tmp_path: Path) -> None:
    async with running_service(tmp_path, max_cells=3 * 17**2) as service:
        await service.ask("PUT", E, CREATION)
        refused = await service.ask("POST", f"{E}/explanations", {"context": {"city": "Rome"}})
        assert (refused.status, refused.code) == (422, "too_many")
        assert (await service.ask("POST", f"{E}/explanations", {"context": {"a": 1}})).status == 200
