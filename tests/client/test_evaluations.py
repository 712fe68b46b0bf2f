"""Evaluations with both clients."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx
import msgspec
import pytest

from glcb import InvalidInput, InvalidSettings, ServiceError
from glcb.client import AsyncClient, Client, EvaluationInfo, Experiment

REQUEST = {"policies": ["uniform"]}
QUEUED = {"id": 7, "state": "queued", "created_at": "2026-01-01T00:00:00Z", "request": REQUEST}
RESULT = {
    "conclusion": "No policy is shown to be better than logged.",
    "level": "ok",
    "rows": 5,
    "first_at": "2026-01-01T00:00:00Z",
    "last_at": "2026-01-01T00:00:09Z",
    "reference": "logged",
    **{name: {} for name in ("arms", "refused", "examples")},
    **{name: [] for name in ("policies", "replays", "diagnostics", "notes")},
}
RUNNING = {**QUEUED, "state": "running", "progress": {"stage": "reading", "done": 1, "total": 5}}
FINISHED = {**QUEUED, "state": "finished", "result": RESULT}
LISTED = {"evaluations": [QUEUED], "next": None}


class Recorder:
    """A service that answers with prepared evaluations, one after the other."""

    def __init__(self, *answers: Any) -> None:
        self.requests: list[tuple[str, str, Any]] = []
        self._answers = list(answers)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        body = msgspec.json.decode(request.content) if request.content else None
        self.requests.append((request.method, request.url.raw_path.decode(), body))
        answer = self._answers.pop(0)
        return httpx.Response(204) if answer is None else httpx.Response(200, json=answer)

    @property
    def experiment(self) -> Experiment:
        return Client("http://service", transport=httpx.MockTransport(self)).experiment("home")


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glcb.client._requests._POLL_SECONDS", (0.0, 0.0))


def test_evaluate_waits_for_the_result() -> None:
    service = Recorder(QUEUED, RUNNING, FINISHED)
    seen: list[EvaluationInfo] = []
    result = service.experiment.evaluate(
        {"less": {"exploration": 0.02}, "best": "best-fixed-arm"},
        after=datetime(2026, 1, 1, tzinfo=UTC),
        before=900,
        progress=seen.append,
    )
    assert (result.rows, result.level) == (5, "ok")
    assert [info.state for info in seen] == ["queued", "running"]
    assert seen[1].progress is not None
    assert seen[1].progress.done == 1
    start, *polls = service.requests
    assert start[:2] == ("POST", "/v1/experiments/home/evaluations")
    assert start[2] == {
        "policies": {"less": {"exploration": 0.02}, "best": "best-fixed-arm"},
        "after": "2026-01-01T00:00:00Z",
        "before": 900,
        "estimators": ["dr", "snips", "ips", "dm"],
        "reference": "logged",
        "replay": True,
        "constant_values": False,
        "seed": 0,
    }
    assert polls == [("GET", "/v1/experiments/home/evaluations/7", None)] * 2


@pytest.mark.parametrize("state", ["failed", "canceled"])
def test_evaluate_raises_if_there_will_be_no_result(state: str) -> None:
    service = Recorder(QUEUED, {**QUEUED, "state": state, "reason": "event 5 was altered"})
    with pytest.raises(ServiceError, match=f"{state}.*event 5 was altered"):
        service.experiment.evaluate(["uniform"])


def test_a_string_is_not_a_list_of_policies() -> None:
    with pytest.raises(InvalidInput, match=r"pass \['uniform'\]"):
        Recorder().experiment.start_evaluation("uniform")


@pytest.mark.parametrize(
    ("call", "answer", "request_line"),
    [
        (lambda own: own.evaluation(7).state, FINISHED, ("GET", "/7")),
        (
            lambda own: own.evaluations()[0].id,
            {"evaluations": [QUEUED], "next": 7},
            ("GET", "?limit=20&before=0"),
        ),
        (
            lambda own: own.evaluations(limit=3, before=9),
            {"evaluations": [], "next": None},
            ("GET", "?limit=3&before=9"),
        ),
        (lambda own: own.cancel_evaluation(7), None, ("DELETE", "/7")),
    ],
)
def test_requests_about_evaluations(
    call: Callable[[Experiment], Any], answer: Any, request_line: tuple[str, str]
) -> None:
    service = Recorder(answer)
    call(service.experiment)
    method, rest = request_line
    assert service.requests == [(method, f"/v1/experiments/home/evaluations{rest}", None)]


def test_the_asynchronous_client_evaluates_too() -> None:
    service = Recorder(QUEUED, RUNNING, FINISHED, None)

    async def calls() -> None:
        async with AsyncClient("http://service", transport=httpx.MockTransport(service)) as client:
            experiment = client.experiment("home")
            assert (await experiment.evaluate(["uniform"])).rows == 5
            await experiment.cancel_evaluation(7)

    asyncio.run(calls())
    assert [method for method, *_ in service.requests] == ["POST", "GET", "GET", "DELETE"]


@pytest.mark.live
def test_an_evaluation_by_a_real_service(experiment: Experiment) -> None:
    with pytest.raises(InvalidSettings, match="no policy 'nope'"):
        experiment.evaluate(["nope"])
    with pytest.raises(ServiceError, match="no decisions with a reward"):
        experiment.evaluate(["uniform"], estimators=["ips"])
    assert [info.state for info in experiment.evaluations()] == ["failed"]
