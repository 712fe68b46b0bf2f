"""Talking to the service without sending anything: what to send, what an answer means, when to try again.

A talk is a generator. It yields requests and pauses, is told what came of each, and returns what the caller
wanted to know. Who runs it, with or without ``await``, only has to send and to sleep.
"""

import logging
import random
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import msgspec

from glcb._api.responses import Refused
from glcb._errors import GlcbError, ServiceError, ServiceUnavailable
from glcb.client.files import Target
from glcb.client.refusals import error_of

T = TypeVar("T")
JSON = "application/json"

_LOG = logging.getLogger("glcb.client")
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
_MOST_OBEYED = 30.0
"""If the service asks to come back after more seconds than this, it is asked after this many."""
_LATER = {408, 429, 502, 503, 504}
"""It may go better later …"""
_NOT_BEGUN = {408, 429}
"""… and nothing was done if the status is one of these …"""
_REFUSED_FIRST = {"overloaded", "starting", "stopping"}
"""… or the service said this: all other trouble may have come when it was done."""
_SILENT = 4
"""So many attempts may fail, within a second or so, before somebody who waits is told why."""


@dataclass(frozen=True)
class Request:
    """What to send."""

    method: str
    path: str
    content: bytes | None = None
    kind: str = JSON
    """The media type of the content."""
    into: Target | None = None
    """The file that the answer is written to, if it is not refused."""
    repeatable: bool = True
    """Whether it does no harm if it is sent again although it had arrived."""


@dataclass(frozen=True)
class Pause:
    """How many seconds to wait."""

    seconds: float


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    content: bytes
    retry_after: str | None = None


@dataclass(frozen=True)
class Lost:
    """No answer, and why; ``sent`` if the request may have arrived nevertheless."""

    why: str
    sent: bool


@dataclass(frozen=True)
class Reply:
    """The content of an answer; ``doubtful`` if an earlier attempt may have had its effect already."""

    content: bytes
    doubtful: bool


class _Failure(NamedTuple):
    """What came in place of a good answer."""

    error: GlcbError
    why: str
    later: bool
    """Whether it may go better later."""
    done: bool
    """Whether what was asked for may have been done all the same."""
    retry_after: str | None = None


Talk = Generator[Request | Pause, Answer | Lost | None, T]


@dataclass(frozen=True)
class Retries:
    """For how long to try again, and how soon."""

    seconds: float
    """From the first attempt to the last."""
    rng: random.Random
    """Of the pauses: clients that failed together should not come back together."""
    clock: Callable[[], float] = time.monotonic

    def pause(self, attempt: int, retry_after: str | None, left: float) -> Pause:
        """Return how long to wait after attempt 0, 1, 2, … The last attempt is when no time is left."""
        longest = min(_FIRST_PAUSE * 2 ** min(attempt, 10), _LONGEST_PAUSE)
        seconds = longest * (0.5 + self.rng.random() / 2)
        if retry_after is not None and retry_after.isdecimal():
            seconds += min(float(retry_after), _MOST_OBEYED)
        return Pause(min(seconds, left))


def ask(request: Request, retries: Retries) -> Talk[Reply]:
    """Return the answer; raise what a refusal means, or that there is no answer."""
    attempt, end, doubtful = 0, retries.clock() + retries.seconds, False
    while True:
        outcome = yield request
        if isinstance(outcome, Answer) and 200 <= outcome.status < 300:
            return Reply(outcome.content, doubtful)
        assert outcome is not None
        failure = _refused(outcome) if isinstance(outcome, Answer) else _lost(outcome)
        if failure.done and not request.repeatable:
            raise ServiceUnavailable(f"{failure.why}: look whether it was done before you ask again")
        left = end - retries.clock()
        if not failure.later or left <= 0:
            raise failure.error
        if attempt == _SILENT:
            _LOG.warning("%s: trying for %.0f more seconds", failure.why, left)
        yield retries.pause(attempt, failure.retry_after, left)
        attempt, doubtful = attempt + 1, doubtful or failure.done


def _lost(lost: Lost) -> _Failure:
    error = ServiceUnavailable(f"{lost.why}: check that the service runs there, then ask again")
    return _Failure(error, lost.why, later=True, done=lost.sent)


def _refused(answer: Answer) -> _Failure:
    later = answer.status in _LATER
    begun = later and answer.status not in _NOT_BEGUN
    try:
        refusal = msgspec.json.decode(answer.content, type=Refused).error
    except (msgspec.MsgspecError, UnicodeDecodeError):
        why = f"the answer has the status {answer.status} and is none of a glcb service"
        error: GlcbError = (
            ServiceUnavailable(f"{why}: ask again later")
            if later
            else ServiceError(f"{why}: check the URL, and what stands between here and the service")
        )
        return _Failure(error, why, later, begun, answer.retry_after)
    done = begun and refusal.code not in _REFUSED_FIRST
    return _Failure(error_of(refusal.code, refusal.message), refusal.message, later, done, answer.retry_after)


def read(reply: Reply, kind: type[T]) -> T:
    """Return the content of an answer as what it should be."""
    try:
        return msgspec.json.decode(reply.content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _strange(error) from error


def converted(content: dict[str, object], kind: type[T]) -> T:
    """Return one item of an answer as what it should be, or raise the error that stands in its place."""
    try:
        if "error" in content:
            refusal = msgspec.convert(content, Refused).error
            raise error_of(refusal.code, refusal.message)
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise _strange(error) from error


def _strange(error: Exception) -> ServiceError:
    return ServiceError(f"the answer cannot be read, use a client of the same version: {error}")
