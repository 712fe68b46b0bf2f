"""The application in the long run: what requests leave behind, and whom they keep waiting."""

import asyncio
import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest

from glcb._model_file import Snapshot
from glcb.service.core import models
from glcb.service.http.app import Application
from tests.service.asgi import House, in_house, lifespan

E = "/v1/experiments/home"
CREATION = {"arms": ["a", "b", "c"], "policy": "linucb"}
REWARD_TIMEOUT = 10.0
"""Seconds after which whoever would wait for ever gives up, so that the test fails."""


class Scope(dict[str, Any]):
    """A scope of which one can tell whether it is still there."""


def test_refusals_at_the_start_keep_nothing_of_the_requests() -> None:
    async def send(_: object) -> None:
        return None

    async def refused(app: Application) -> weakref.ref[Scope]:
        scope = Scope(type="http", method="GET", path="/v1/experiments", headers=[])
        await app(scope, send, send)  # type: ignore[arg-type]  # of which nothing is read
        return weakref.ref(scope)

    app = Application(lifespan)
    scopes = [asyncio.run(refused(app)) for _ in range(3)]
    gc.collect()
    assert [scope() for scope in scopes] == [None] * 3


def test_metrics_of_a_bandit_that_is_busy_keep_nobody_waiting(tmp_path: Path) -> None:
    async def play(house: House) -> None:
        await house.ask("PUT", E, CREATION)
        bandit = house.engine.loaded["home"].experiment.bandit
        held, enough, others = threading.Event(), threading.Event(), []

        def busy() -> None:
            with bandit._lock:
                held.set()
                others.append(enough.wait(REWARD_TIMEOUT))

        thread = threading.Thread(target=busy)
        thread.start()
        held.wait()
        asking = asyncio.ensure_future(house.ask("GET", "/metrics"))
        await asyncio.sleep(0.1)
        enough.set()
        answer = await asking
        thread.join()
        assert others == [True], "the event loop stood still"
        assert b'glcb_waiting{experiment="home"} 0.0' in answer.content

    in_house(tmp_path, play)


def test_others_decide_while_a_model_is_made_into_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(house: House) -> None:
        await house.ask("PUT", E, CREATION)
        begun, enough, as_file = threading.Event(), threading.Event(), models.as_file

        def slowly(bandit: Snapshot) -> bytes:
            begun.set()
            assert enough.wait(REWARD_TIMEOUT), "nobody could decide meanwhile"
            return as_file(bandit)

        monkeypatch.setattr(models, "as_file", slowly)
        asking = asyncio.ensure_future(house.ask("GET", f"{E}/model"))
        await asyncio.to_thread(begun.wait)
        decided = await house.ask("POST", f"{E}/decisions", {"context": {"age": 31}})
        enough.set()
        answer = await asking
        monkeypatch.undo()
        assert (decided.status, answer.status) == (200, 200)
        assert models.parsed(answer.content).counts["decisions"] == 0, "as it was when it was asked for"

    in_house(tmp_path, play)


def test_an_explanation_cannot_make_a_model_of_any_size(tmp_path: Path) -> None:
    async def play(house: House) -> None:
        await house.ask("PUT", E, CREATION)
        refused = await house.ask("POST", f"{E}/explain", {"context": {"city": "Rome"}})
        assert (refused.status, refused.code) == (422, "too_many")
        assert (await house.ask("POST", f"{E}/explain", {"context": {"a": 1}})).status == 200

    in_house(tmp_path, play, max_cells=3 * 17**2)
