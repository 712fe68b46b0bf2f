"""Lost responses and interrupted batches."""

import asyncio
import json

import httpx
import pytest

from benchmarks.service.server import Server
from glcb import ServiceUnavailable
from glcb._api.responses import Counts
from glcb.client import AsyncClient, Client, Decision
from tests.client.conftest import ARMS

pytestmark = pytest.mark.live


class LossyTransport(httpx.BaseTransport):
    """Delivers every request, but loses the first response of each kind of request."""

    def __init__(self) -> None:
        self._inner = httpx.HTTPTransport()
        self.lost: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = self._inner.handle_request(request)
        what = f"{request.method} {request.url.path.rpartition('/')[2]}"
        if what not in self.lost:
            self.lost.append(what)
            response.read()
            response.close()
            raise httpx.ReadError("the connection was lost", request=request)
        return response

    def close(self) -> None:
        self._inner.close()


def test_a_request_with_a_lost_response_is_retried_without_a_second_effect(server: Server) -> None:
    transport = LossyTransport()
    with Client(server.url, transport=transport) as client:
        experiment = client.create("losing", ARMS, policy="linucb")
        decision = experiment.decide({"x": 1})
        assert experiment.info().counts.decisions == 1
        assert experiment.reward(decision.id, 1)
        counts = Counts(decisions=1, rewarded=1, timed_out=0, evicted=0, removed=0, pending=0)
        assert experiment.info().counts == counts
        many = [d.id for d in experiment.decide_many([{"x": n} for n in range(5)]) if isinstance(d, Decision)]
        assert experiment.reward_many([(name, 0) for name in many]) == [True] * 5
        counts = Counts(decisions=6, rewarded=6, timed_out=0, evicted=0, removed=0, pending=0)
        assert experiment.info().counts == counts
        with pytest.raises(ServiceUnavailable, match="may have taken effect"):
            experiment.add_arm("late")
        assert "late" in experiment.arms()
    assert {"PUT losing", "POST decisions", "POST reward", "POST batch", "POST rewards"} <= set(
        transport.lost
    )


def test_a_reward_with_a_lost_response_counts_as_accepted(server: Server) -> None:
    with Client(server.url, transport=LossyTransport()) as client:
        experiment = client.create("losing-keys", ARMS, policy="linucb")
        one, two = experiment.decide({"x": 1}), experiment.decide({"x": 2})
        assert experiment.reward(one.id, 1, idempotency_key="click 1")
        assert not experiment.reward(one.id, 1, idempotency_key="click 1")
        assert experiment.reward_many([(two.id, 1, "click 2")]) == [True]
        assert experiment.reward_many([(two.id, 1, "click 2")]) == [False]


def test_an_interrupted_batch_returns_the_results_so_far(server: Server) -> None:
    class FailingTransport(LossyTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.path.endswith("/batch"):
                self.lost.append("batch")
                if len(self.lost) > 1:
                    raise httpx.ConnectError("gone", request=request)
            return self._inner.handle_request(request)

    with Client(server.url, transport=FailingTransport(), retry_for=0) as client:
        experiment = client.create("breaking", ARMS, policy="linucb")
        results = experiment.decide_many([{"x": 1}] * 1500)
        assert [type(one) for one in results] == [Decision] * 1000 + [ServiceUnavailable] * 500
        with pytest.raises(ServiceUnavailable):
            experiment.decide_many([{"x": 1}])


def test_the_asynchronous_client_retries_with_the_same_key() -> None:
    keys: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        keys.append(json.loads(request.content)["idempotency_key"])
        if len(keys) < 3:
            raise httpx.ReadTimeout("too slow", request=request)
        decision = {"id": "1-0", "arm": "a", "propensity": 1, "probabilities": {"a": 1}, "holdout": False}
        return httpx.Response(200, json={**decision, "field of a later version": 1})

    async def decide() -> Decision:
        async with AsyncClient("http://localhost", transport=httpx.MockTransport(answer)) as client:
            return await client.experiment("e").decide({})

    assert asyncio.run(decide()).arm == "a"
    assert len(keys) == 3
    assert len(set(keys)) == 1
