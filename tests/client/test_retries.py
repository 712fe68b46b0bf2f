"""When a request is retried, and which exception a failure becomes. Nothing is sent."""

import random
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glcb import GlcbError, InvalidContext, ServiceError, ServiceUnavailable, UnknownDecision
from glcb._api.errors import ERROR_CODES, code_of, exception_of
from glcb._api.responses import Decision
from glcb.client._requests import Request, Response, parse
from glcb.client._retries import Answer, Attempts, NoAnswer, RetryPolicy

GOOD = Answer(200, b"{}")
BUSY = Answer(503, b'{"error": {"code": "overloaded", "message": "try again"}}', "1")
STUCK = Answer(503, b'{"error": {"code": "storage_unavailable", "message": "the disk is full"}}', "1")
STARTING = Answer(503, b'{"error": {"code": "starting", "message": "try again"}}')
LOST = NoAnswer("no response", sent=True)
NOT_SENT = NoAnswer("no response", sent=False)
REQUEST = Request("POST", "v1/experiments/e/decisions", b"{}")
ONCE = replace(REQUEST, idempotent=False)


class Clock:
    """A clock that advances with pauses and with the time that responses take."""

    def __init__(self, response_seconds: float = 0.0) -> None:
        self.now = 0.0
        self.response_seconds = response_seconds

    def __call__(self) -> float:
        return self.now


def send(
    request: Request, outcomes: Iterator[Answer | NoAnswer], seconds: float = 30, clock: Clock | None = None
) -> tuple[bytes | GlcbError, list[float]]:
    """Return the body or the exception that these outcomes lead to, and the pauses between attempts."""
    clock = clock or Clock()
    attempts = Attempts(request, RetryPolicy(seconds, random.Random(0), clock))
    pauses: list[float] = []
    while True:
        clock.now += clock.response_seconds
        outcome = next(outcomes)
        try:
            pause = attempts.next_pause(outcome)
        except GlcbError as error:
            return error, pauses
        if pause is None:
            assert isinstance(outcome, Answer)
            return outcome.content, pauses
        pauses.append(pause)
        clock.now += pause


def forever(outcome: Answer | NoAnswer) -> Iterator[Answer | NoAnswer]:
    while True:
        yield outcome


def test_a_success_is_returned_at_once() -> None:
    assert send(REQUEST, iter([GOOD])) == (b"{}", [])


def test_lost_and_temporary_failures_are_retried() -> None:
    content, pauses = send(REQUEST, iter([LOST, BUSY, NOT_SENT, Answer(502, b"?"), STARTING, GOOD]))
    assert content == b"{}"
    assert len(pauses) == 5
    assert pauses[1] > 1  # Retry-After and the regular pause


@pytest.mark.parametrize("outcome", [NOT_SENT, STARTING], ids=["unreachable", "starting"])
def test_retries_outlast_a_restart_of_several_seconds(outcome: Answer | NoAnswer) -> None:
    clock = Clock()

    def service() -> Iterator[Answer | NoAnswer]:
        while clock() < 25:
            yield outcome
        yield GOOD

    assert send(REQUEST, service(), clock=clock)[0] == b"{}"


def test_the_error_after_the_last_attempt_says_why() -> None:
    error, pauses = send(REQUEST, forever(LOST))
    assert isinstance(error, ServiceUnavailable)
    assert "no response" in str(error)
    assert sum(pauses) == pytest.approx(30)  # the last attempt is made when the time is over
    assert 9 <= len(pauses) <= 15
    assert send(REQUEST, forever(LOST), seconds=0)[1] == []


def test_the_time_that_responses_take_counts() -> None:
    _, pauses = send(REQUEST, forever(LOST), clock=Clock(response_seconds=10))
    assert len(pauses) == 2
    _, pauses = send(REQUEST, forever(LOST), clock=Clock(response_seconds=31))
    assert pauses == []


def test_pauses_grow_up_to_a_limit() -> None:
    _, pauses = send(REQUEST, forever(LOST))
    assert all(0.05 * 2**n <= pause <= 0.1 * 2**n for n, pause in enumerate(pauses[:6]))
    assert max(pauses) <= 5
    assert max(send(REQUEST, forever(LOST), seconds=86_400)[1]) <= 5
    slow = replace(BUSY, retry_after="86400")
    assert send(REQUEST, forever(slow), seconds=100)[1][0] <= 31
    assert send(REQUEST, forever(slow), seconds=3)[1] == [3]


def test_a_long_wait_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    send(REQUEST, iter([LOST, LOST, LOST, GOOD]))
    assert caplog.messages == []
    send(REQUEST, forever(LOST))
    (message,) = caplog.messages
    assert re.fullmatch(r"no response: retrying for 2\d more seconds", message)


def test_a_request_that_is_not_idempotent_is_not_retried_if_it_may_have_taken_effect() -> None:
    error, pauses = send(ONCE, iter([LOST]))
    assert isinstance(error, ServiceUnavailable)
    assert "may have taken effect" in str(error)
    assert pauses == []
    for unknown in (Answer(504, b"?"), Answer(503, b"?"), STUCK):
        error, pauses = send(ONCE, iter([unknown]))
        assert isinstance(error, ServiceUnavailable)
        assert "may have taken effect" in str(error)
        assert pauses == []
    stopping = replace(STARTING, content=STARTING.content.replace(b"starting", b"stopping"))
    without_effect: list[Answer | NoAnswer] = [
        NOT_SENT,
        BUSY,
        STARTING,
        stopping,
        Answer(408, b"?"),
        Answer(429, b"?"),
    ]
    assert send(ONCE, iter([*without_effect, GOOD]))[0] == b"{}"


@pytest.mark.parametrize(
    ("outcome", "uncertain"), [(LOST, True), (STUCK, True), (NOT_SENT, False), (BUSY, False)]
)
def test_a_response_records_whether_an_earlier_attempt_may_have_taken_effect(
    outcome: Answer | NoAnswer, uncertain: bool
) -> None:
    attempts = Attempts(REQUEST, RetryPolicy(30, random.Random(0), Clock()))
    assert attempts.next_pause(outcome) is not None
    assert attempts.next_pause(GOOD) is None
    assert attempts.response(GOOD) == Response(b"{}", uncertain)


def test_refusals_raise_library_exceptions_and_are_not_retried() -> None:
    refused = Answer(422, b'{"error": {"code": "invalid_context", "message": "not like this"}}')
    error, pauses = send(REQUEST, iter([refused]))
    assert type(error) is InvalidContext
    assert str(error) == "not like this"
    assert pauses == []


@given(
    st.integers(300, 599) | st.integers(100, 199),
    st.binary(max_size=60) | st.sampled_from([b"{}", b"<html>", b'{"error": 1}']),
)
def test_every_unsuccessful_response_raises_a_service_error(status: int, content: bytes) -> None:
    error, _ = send(REQUEST, iter([Answer(status, content)]), seconds=0)
    assert isinstance(error, ServiceError)


def test_every_error_code_has_an_exception() -> None:
    assert type(exception_of("unknown_decision", "")) is UnknownDecision
    assert "not_found" in str(exception_of("not_found", "there is no such route"))
    assert type(exception_of("code_of_a_newer_service", "")) is ServiceError
    assert "api_key=…" in str(exception_of("unauthorized", "an API key is required"))


def test_library_exceptions_survive_the_way_through_the_service() -> None:
    for code, entry in ERROR_CODES.items():
        for kind in entry.reports:
            assert code_of(kind("message")) == code
            if kind.__name__ not in ("StorageError", "MissingExtra"):
                assert type(exception_of(code, "message")) is kind


@pytest.mark.parametrize("content", [b"", b"[]", b'{"id": 1}', b"\xff"])
def test_an_unreadable_response_raises_a_service_error(content: bytes) -> None:
    with pytest.raises(ServiceError, match="cannot read the response"):
        parse(Response(content), Decision)
