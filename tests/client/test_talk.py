"""When to ask again, and what answers mean: nothing is sent and nobody sleeps."""

import random
import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glcb import GlcbError, InvalidContext, ServiceError, ServiceUnavailable, UnknownDecision
from glcb.client.refusals import ERRORS, error_of
from glcb.client.talk import Answer, Lost, Pause, Reply, Request, Retries, ask
from glcb.service import errors as problems

GOOD = Answer(200, b"{}")
BUSY = Answer(503, b'{"error": {"code": "overloaded", "message": "try again"}}', "1")
STUCK = Answer(503, b'{"error": {"code": "storage_unavailable", "message": "the disk is full"}}', "1")
STARTING = Answer(503, b'{"error": {"code": "starting", "message": "try again"}}')
LOST = Lost("no answer", sent=True)
NOT_SENT = Lost("no answer", sent=False)
REQUEST = Request("POST", "v1/experiments/e/decisions", b"{}")
ONCE = replace(REQUEST, repeatable=False)


class Clock:
    """A time that goes on when somebody pauses, or waits for an answer."""

    def __init__(self, answer_takes: float = 0.0) -> None:
        self.now = 0.0
        self.answer_takes = answer_takes

    def __call__(self) -> float:
        return self.now


def play(
    request: Request, outcomes: Iterator[Answer | Lost], seconds: float = 30, clock: Clock | None = None
) -> tuple[bytes | GlcbError, list[float]]:
    """Return what asking came to if these are the answers, and the pauses that were made."""
    clock = clock or Clock()
    talk = ask(request, Retries(seconds, random.Random(0), clock))
    pauses: list[float] = []
    outcome: Answer | Lost | None = None
    while True:
        try:
            step = talk.send(outcome)
        except StopIteration as end:
            return end.value.content, pauses
        except GlcbError as error:
            return error, pauses
        if isinstance(step, Pause):
            pauses.append(step.seconds)
            clock.now += step.seconds
            outcome = None
        else:
            clock.now += clock.answer_takes
            outcome = next(outcomes)


def forever(outcome: Answer | Lost) -> Iterator[Answer | Lost]:
    while True:
        yield outcome


def test_a_good_answer_is_taken_at_once() -> None:
    assert play(REQUEST, iter([GOOD])) == (b"{}", [])


def test_lost_answers_and_not_now_are_asked_for_again() -> None:
    content, pauses = play(REQUEST, iter([LOST, BUSY, NOT_SENT, Answer(502, b"?"), STARTING, GOOD]))
    assert content == b"{}"
    assert len(pauses) == 5
    assert pauses[1] > 1  # as long as the service said, and some more


@pytest.mark.parametrize("outcome", [NOT_SENT, STARTING], ids=["unreachable", "starting"])
def test_a_restart_of_some_seconds_is_outlasted(outcome: Answer | Lost) -> None:
    clock = Clock()

    def service() -> Iterator[Answer | Lost]:
        while clock() < 25:
            yield outcome
        yield GOOD

    assert play(REQUEST, service(), clock=clock)[0] == b"{}"


def test_when_the_time_is_over_the_error_says_why() -> None:
    error, pauses = play(REQUEST, forever(LOST))
    assert isinstance(error, ServiceUnavailable)
    assert "no answer" in str(error)
    assert sum(pauses) == pytest.approx(30)  # the last attempt is made at the very end
    assert 9 <= len(pauses) <= 15
    assert play(REQUEST, forever(LOST), seconds=0)[1] == []


def test_the_time_that_answers_take_counts() -> None:
    _, pauses = play(REQUEST, forever(LOST), clock=Clock(answer_takes=10))
    assert len(pauses) == 2
    _, pauses = play(REQUEST, forever(LOST), clock=Clock(answer_takes=31))
    assert pauses == []


def test_pauses_grow_and_stay_bounded() -> None:
    _, pauses = play(REQUEST, forever(LOST))
    assert all(0.05 * 2**n <= pause <= 0.1 * 2**n for n, pause in enumerate(pauses[:6]))
    assert max(pauses) <= 5
    assert max(play(REQUEST, forever(LOST), seconds=86_400)[1]) <= 5
    patient = replace(BUSY, retry_after="86400")
    assert play(REQUEST, forever(patient), seconds=100)[1][0] <= 31
    assert play(REQUEST, forever(patient), seconds=3)[1] == [3]


def test_who_waits_is_told_why_once(caplog: pytest.LogCaptureFixture) -> None:
    play(REQUEST, iter([LOST, LOST, LOST, GOOD]))
    assert caplog.messages == []
    play(REQUEST, forever(LOST))
    (message,) = caplog.messages
    assert re.fullmatch(r"no answer: trying for 2\d more seconds", message)


def test_what_must_not_happen_twice_is_not_sent_again_if_it_may_have_arrived() -> None:
    error, pauses = play(ONCE, iter([LOST]))
    assert isinstance(error, ServiceUnavailable)
    assert "look whether it was done" in str(error)
    assert pauses == []
    for unknown in (Answer(504, b"?"), Answer(503, b"?"), STUCK):
        error, pauses = play(ONCE, iter([unknown]))
        assert isinstance(error, ServiceUnavailable)
        assert "look whether it was done" in str(error)
        assert pauses == []
    stopping = replace(STARTING, content=STARTING.content.replace(b"starting", b"stopping"))
    surely_not: list[Answer | Lost] = [
        NOT_SENT,
        BUSY,
        STARTING,
        stopping,
        Answer(408, b"?"),
        Answer(429, b"?"),
    ]
    assert play(ONCE, iter([*surely_not, GOOD]))[0] == b"{}"


@pytest.mark.parametrize(
    ("outcome", "doubtful"), [(LOST, True), (STUCK, True), (NOT_SENT, False), (BUSY, False)]
)
def test_a_reply_tells_whether_an_earlier_attempt_may_have_arrived(
    outcome: Answer | Lost, doubtful: bool
) -> None:
    talk = ask(REQUEST, Retries(30, random.Random(0), Clock()))
    next(talk)
    assert isinstance(talk.send(outcome), Pause)
    assert talk.send(None) == REQUEST
    with pytest.raises(StopIteration) as end:
        talk.send(GOOD)
    assert end.value.value == Reply(b"{}", doubtful)


def test_refusals_are_the_errors_of_the_library_and_are_final() -> None:
    refused = Answer(422, b'{"error": {"code": "invalid_context", "message": "not like this"}}')
    error, pauses = play(REQUEST, iter([refused]))
    assert type(error) is InvalidContext
    assert str(error) == "not like this"
    assert pauses == []


@given(
    st.integers(300, 599) | st.integers(100, 199),
    st.binary(max_size=60) | st.sampled_from([b"{}", b"<html>", b'{"error": 1}']),
)
def test_whatever_comes_back_the_error_is_one_of_ours(status: int, content: bytes) -> None:
    error, _ = play(REQUEST, iter([Answer(status, content)]), seconds=0)
    assert isinstance(error, ServiceError)


def test_every_refusal_of_the_service_has_its_error() -> None:
    about_the_client = {"not_found", "method_not_allowed", "unsupported_media_type", "internal_error"}
    assert set(problems.STATUS) == ERRORS.keys() | about_the_client
    assert type(error_of("unknown_decision", "")) is UnknownDecision
    assert "not_found" in str(error_of("not_found", "there is nothing here"))


def test_library_errors_keep_their_kind_on_the_way_there_and_back() -> None:
    for kind, code in problems._CODES.items():
        if code != "storage_unavailable" and kind.__name__ != "MissingExtra":
            assert ERRORS[code] is kind


@pytest.mark.parametrize("content", [b"", b"[]", b'{"id": 1}', b"\xff"])
def test_a_strange_answer_is_told_as_such(content: bytes) -> None:
    from glcb._api.responses import Decision
    from glcb.client.talk import read

    with pytest.raises(ServiceError, match="cannot be read"):
        read(Reply(content, False), Decision)
