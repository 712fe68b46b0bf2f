"""A client that sends requests directly to the owner of their experiment."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from glcb._errors import ServiceUnavailable
from glcb.client import Client
from glcb.service.storage.ownership import partition_of

COMMON, OWNER, OTHER = "https://common", "https://owner:8100", "https://other:8101"
INFO = {
    "host": "h",
    "process": 1,
    "partitions": 1,
    "experiments": 1,
    "loaded": 1,
    "trouble": None,
    "draining": False,
    "restarting": False,
    "state": "ready",
}


class FakeService:
    """Two workers and their common address; the owner of the experiment can change."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.urls: dict[str, str | None] = {"a": OWNER, "b": OTHER}
        self.owner = "a"
        self.is_away: set[str] = set()
        self.forwards = False
        self.status = 200

    def respond(self, request: httpx.Request) -> httpx.Response:
        base = f"{request.url.scheme}://{request.url.netloc.decode()}"
        self.requests.append(f"{base}{request.url.path}")
        if base in self.is_away:
            raise httpx.ConnectError("nobody listens")
        if request.url.path == "/v1/workers":
            workers = [{**INFO, "name": name, "url": url} for name, url in self.urls.items()]
            owners = {str(partition_of("home")): self.owner} if any(self.urls.values()) else None
            body = {"workers": workers, "owners": owners, "pins": {}}
            return httpx.Response(self.status, content=json.dumps(body))
        headers = {"glcb-worker": self.owner} if base not in (COMMON, self.urls[self.owner]) else {}
        return httpx.Response(204, headers=headers)


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.fixture
def decide(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Return a function that sends a request for the experiment, and returns where it went."""
    client = Client(COMMON, direct=True, retry_for=0, transport=httpx.MockTransport(service.respond))
    now = [1000.0]
    assert client._owners is not None
    client._owners._clock = lambda: now[0]
    client._owners._learn_at = 0.0

    def ask(passed: float = 1.0) -> str:
        now[0] += passed
        client.experiment("home").delete()
        return service.requests[-1].partition("/v1")[0]

    return ask


def test_requests_go_to_the_owner_once_it_is_known(service: FakeService, decide: Callable[..., str]) -> None:
    assert [decide() for _ in range(3)] == [OWNER] * 3
    assert service.requests.count(f"{COMMON}/v1/workers") == 1


def test_the_owners_are_learned_again_when_an_answer_says_so(
    service: FakeService, decide: Callable[..., str]
) -> None:
    decide()
    service.owner = "b"
    assert decide() == OWNER  # which sends the request on
    assert decide() == OTHER
    assert service.requests.count(f"{COMMON}/v1/workers") == 2


def test_the_common_address_is_used_if_the_owner_cannot_be_reached(
    service: FakeService, decide: Callable[..., str]
) -> None:
    decide()
    service.is_away = {OWNER}
    assert decide(0.0) == COMMON
    assert decide(0.0) == COMMON
    assert service.requests.count(f"{OWNER}/v1/experiments/home") == 2
    service.is_away = set()
    assert decide() == OWNER


def test_the_common_address_is_used_if_workers_have_no_addresses(
    service: FakeService, decide: Callable[..., str]
) -> None:
    service.urls = {"a": None, "b": None}
    assert [decide() for _ in range(3)] == [COMMON] * 3
    assert service.requests.count(f"{COMMON}/v1/workers") == 1


@pytest.mark.parametrize("status", [403, 404, 503])
def test_the_common_address_is_used_if_workers_are_not_listed(
    service: FakeService, decide: Callable[..., str], status: int
) -> None:
    service.status = status
    assert decide() == COMMON


def test_a_client_never_goes_from_https_to_http(service: FakeService, decide: Callable[..., str]) -> None:
    service.urls = {"a": OWNER.replace("https", "http"), "b": OTHER}
    assert decide() == COMMON


def test_a_request_that_may_have_arrived_is_not_sent_to_another_address_at_once(service: FakeService) -> None:
    def respond(request: httpx.Request) -> Any:
        if request.url.host == "owner":
            raise httpx.ReadError("the connection is broken")
        return service.respond(request)

    with Client(COMMON, direct=True, retry_for=0, transport=httpx.MockTransport(respond)) as client:
        with pytest.raises(ServiceUnavailable, match="may have taken effect"):
            client.experiment("home").delete()
        client.experiment("home").delete()
    assert service.requests == [f"{COMMON}/v1/workers", f"{COMMON}/v1/experiments/home"]
