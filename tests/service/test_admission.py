"""Decisions come first, and no API key or experiment can take everything."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from glcb.service.access.api_keys import ANONYMOUS, ApiKey
from glcb.service.config import ServiceSettings
from glcb.service.errors import ApiError
from glcb.service.http.admission import Admission, Lane
from tests.support.asgi import E, Service, create_experiment, running_service

SHOP, TEAM = (ApiKey(name, "", "decide", None, 0.0) for name in ("shop", "team"))


def slots(admission: Admission, lane: Lane, key: ApiKey, experiment: str | None) -> int:
    """Take slots until there are no more; return their number."""
    for count in range(100):
        try:
            admission.lease(key, experiment).enter(lane)
        except ApiError:
            return count
    raise AssertionError("there is no limit")


@pytest.fixture
def admission() -> Admission:
    return Admission(
        ServiceSettings(max_concurrent_requests=8, max_other_requests=4, max_buffered_bytes=1000)
    )


def test_a_key_can_use_half_of_the_slots(admission: Admission) -> None:
    assert slots(admission, "decisions", SHOP, "a") == 4
    assert slots(admission, "decisions", SHOP, "b") == 0
    assert slots(admission, "decisions", TEAM, "b") == 4


def test_an_experiment_can_use_half_of_the_slots(admission: Admission) -> None:
    assert slots(admission, "decisions", ANONYMOUS, "a") == 4
    assert slots(admission, "decisions", TEAM, "a") == 0
    assert slots(admission, "decisions", ANONYMOUS, "b") == 4


def test_other_requests_do_not_use_the_slots_of_decisions(admission: Admission) -> None:
    assert slots(admission, "others", ANONYMOUS, None) == 4
    assert slots(admission, "decisions", SHOP, "a") == 4


def test_a_key_can_use_half_of_the_memory(admission: Admission) -> None:
    lease = admission.lease(SHOP, "a")
    lease.take(300)
    lease.take(200)
    for other in (lease, admission.lease(SHOP, "b")):
        with pytest.raises(ApiError, match="this API key has too much data in memory"):
            other.take(1)
    admission.lease(TEAM, "a").take(500)
    with pytest.raises(ApiError, match="the service has too much data in memory"):
        admission.lease(ANONYMOUS, None).take(1)


def test_a_closed_lease_frees_everything(admission: Admission) -> None:
    for _ in range(20):
        lease = admission.lease(SHOP, "a")
        lease.enter("decisions")
        lease.take(500)
        lease.close()


async def test_a_decision_waits_for_at_most_one_explanation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    permitted, begun = threading.Semaphore(0), threading.Event()

    def explanation(*_: Any) -> dict[str, str]:
        begun.set()
        assert permitted.acquire(timeout=60)
        return {}

    monkeypatch.setattr("glcb.service.views.responses.explanation", explanation)

    async with running_service(tmp_path, max_other_requests=8) as service:
        await create_experiment(service)
        context = {"context": {"age": 31}}
        assert (await service.ask("POST", f"{E}/decisions", context)).status == 200
        explaining = [
            asyncio.ensure_future(service.ask("POST", f"{E}/explanations", context)) for _ in range(6)
        ]
        await asyncio.to_thread(begun.wait)
        deciding = asyncio.ensure_future(service.ask("POST", f"{E}/decisions", context))
        await asyncio.sleep(0.2)
        permitted.release()
        done, _ = await asyncio.wait([deciding], timeout=30)
        permitted.release(100)
        assert done, "the decision waited for all explanations"
        answers = await asyncio.gather(deciding, *explaining)
        assert [one.status for one in answers] == [200] + [200] * 4 + [503] * 2


@pytest.mark.settings(max_buffered_bytes=100000)
async def test_a_response_that_does_not_fit_into_memory_is_refused(service: Service) -> None:
    await create_experiment(service)
    context = {"context": {f"f{number}": 0.5 for number in range(100)}}
    assert (await service.ask("POST", f"{E}/decisions", context)).status == 200
    refused = await service.ask("GET", f"{E}/model")
    assert (refused.status, refused.code) == (503, "overloaded")
    assert (await service.ask("POST", f"{E}/decisions", context)).status == 200
    assert service.admission.bytes == 0


@pytest.mark.parametrize("name", ["Forwarded", "X-Forwarded-For", "X-Real-IP", "Via", "CF-Connecting-IP"])
async def test_forwarded_requests_need_a_key(service: Service, name: str) -> None:
    sent = {name.lower(): "203.0.113.7"}
    await create_experiment(service)
    for method, path in (("GET", E), ("POST", f"{E}/decisions")):
        refused = await service.ask(method, path, {"context": {}}, more_headers=sent)
        assert (refused.status, refused.code) == (403, "forbidden")
        assert f"the header {name.lower()} says that a proxy forwards this request" in refused.message
    for path in ("/", "/healthz", "/readyz"):
        assert (await service.ask("GET", path, more_headers=sent)).status == 200
    secret = service.add_key("team", "admin")
    assert (await service.ask("GET", E, key=secret, more_headers=sent)).status == 200


@pytest.mark.settings(require_keys=True)
async def test_keys_can_be_required_on_the_loopback_address(service: Service) -> None:
    assert (await service.ask("GET", "/v1/experiments")).status == 401
    secret = service.add_key("team", "admin")
    assert (await service.ask("GET", "/v1/experiments", key=secret)).status == 200
