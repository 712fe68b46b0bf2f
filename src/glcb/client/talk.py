"""Talking to the service without sending anything: what to send, what an answer means, when to try again.

A talk is a generator. It yields requests and pauses, is told what came of each, and returns what the caller
wanted to know. Who runs it, with or without ``await``, only has to send and to sleep.
"""

import logging
import random
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from glcb._answers import Refused
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
_NOT_NOW = {408, 429, 503}
"""Nothing was done; later it may be."""
_NOBODY_KNOWS = {502, 504}
"""A proxy got no answer: as good as a lost one."""
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


def ask(request: Request, retries: Retries) -> Talk[bytes]:
    """Return the content of the answer; raise what a refusal means, or that there is no answer."""
    attempt, end = 0, retries.clock() + retries.seconds
    while True:
        outcome = yield request
        if isinstance(outcome, Answer):
            if 200 <= outcome.status < 300:
                return outcome.content
            error = _error(outcome)
            again = outcome.status in _NOT_NOW or (outcome.status in _NOBODY_KNOWS and request.repeatable)
            retry_after = outcome.retry_after
        else:
            assert isinstance(outcome, Lost)
            error = ServiceUnavailable(_told(outcome, request.repeatable))
            again, retry_after = request.repeatable or not outcome.sent, None
        left = end - retries.clock()
        if not again or left <= 0:
            raise error
        if attempt == _SILENT:
            why = outcome.why if isinstance(outcome, Lost) else error
            _LOG.warning("%s: trying for %.0f more seconds", why, left)
        yield retries.pause(attempt, retry_after, left)
        attempt += 1


def _told(lost: Lost, repeatable: bool) -> str:
    if lost.sent and not repeatable:
        return f"{lost.why}: the answer was lost, so look whether it was done before you ask again"
    return f"{lost.why}: check that the service runs there, then ask again"


def _error(answer: Answer) -> GlcbError:
    try:
        refusal = msgspec.json.decode(answer.content, type=Refused).error
    except (msgspec.MsgspecError, UnicodeDecodeError):
        said = f"the answer has the status {answer.status} and is none of a glcb service"
        if answer.status in _NOT_NOW | _NOBODY_KNOWS:
            return ServiceUnavailable(f"{said}: ask again later")
        return ServiceError(f"{said}: check the URL, and what stands between here and the service")
    return error_of(refusal.code, refusal.message)


def read(content: bytes, kind: type[T]) -> T:
    """Return the content of an answer as what it should be."""
    try:
        return msgspec.json.decode(content, type=kind)
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
