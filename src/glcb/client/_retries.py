"""When to retry a request, and which exception to raise for a failure. Nothing is sent here.

A request is retried when the service does not respond or is temporarily unavailable, with exponentially
growing pauses, until ``retry_for`` seconds have passed. A request that is not idempotent is retried only if
it certainly had no effect.
"""

import logging
import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import httpx
import msgspec

from glcb._api.errors import exception_of
from glcb._api.responses import ErrorResponse
from glcb._errors import GlcbError, InvalidSettings, ServiceError, ServiceUnavailable
from glcb.client._requests import Request, Response

_LOG = logging.getLogger("glcb.client")
_ERROR = msgspec.json.Decoder(ErrorResponse)
_FIRST_PAUSE = 0.1
_MAX_PAUSE = 5.0
_MAX_RETRY_AFTER = 30.0
"""A larger Retry-After header is treated as this many seconds."""
_RETRY_STATUS = {408, 429, 502, 503, 504}
_NO_EFFECT_STATUS = {408, 429}
"""A request rejected with one of these statuses had no effect."""
_NO_EFFECT_CODES = {"overloaded", "experiment_opening", "starting", "stopping"}
"""A request rejected with one of these error codes had no effect. Other failures may have had an effect."""
_QUIET_ATTEMPTS = 4
"""Number of failed attempts, within about a second, before a warning is logged."""
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)


@dataclass(frozen=True)
class Answer:
    """A response of any status."""

    status: int
    content: bytes
    retry_after: str | None = None

    @classmethod
    def of(cls, response: httpx.Response, content: bytes) -> "Answer":
        """Return the answer in an httpx response."""
        return cls(response.status_code, content, response.headers.get("Retry-After"))


@dataclass(frozen=True)
class NoAnswer:
    """A request without a response; ``sent`` if it may have reached the service."""

    reason: str
    sent: bool

    @classmethod
    def of(cls, error: httpx.RequestError, url: str) -> "NoAnswer":
        """Return the reason for a missing response."""
        detail = f": {error}" if str(error) else ""
        reason = f"no response from {url} ({type(error).__name__}{detail})"
        return cls(reason, not isinstance(error, _NOT_SENT))


class _Failure(NamedTuple):
    error: GlcbError
    reason: str
    retryable: bool
    may_have_taken_effect: bool
    retry_after: str | None = None


@dataclass(frozen=True)
class RetryPolicy:
    """How long to retry."""

    seconds: float
    rng: random.Random
    clock: Callable[[], float] = time.monotonic

    @classmethod
    def checked(cls, retry_for: object) -> "RetryPolicy":
        """Return the policy for the argument ``retry_for`` of a client."""
        if not isinstance(retry_for, int | float) or not 0 <= retry_for < math.inf:
            raise InvalidSettings(
                f"retry_for must be a number of seconds, 0 for a single attempt, got {retry_for!r}"
            )
        return cls(retry_for, random.Random())

    def pause(self, attempt: int, retry_after: str | None, left: float) -> float:
        """Return the pause after attempt 0, 1, 2, … The last attempt is made when no time is left."""
        longest = min(_FIRST_PAUSE * 2.0 ** min(attempt, 10), _MAX_PAUSE)
        seconds = longest * (0.5 + self.rng.random() / 2)
        if retry_after is not None and retry_after.isdecimal():
            seconds += min(float(retry_after), _MAX_RETRY_AFTER)
        return min(seconds, left)


class Attempts:
    """The attempts to send one request."""

    def __init__(self, request: Request, policy: RetryPolicy) -> None:
        self._request = request
        self._policy = policy
        self._end = policy.clock() + policy.seconds
        self._failed = 0
        self._uncertain = False

    def next_pause(self, outcome: Answer | NoAnswer) -> float | None:
        """Return the seconds to wait before the next attempt, or None if the request succeeded.

        Raises
        ------
        GlcbError
            If the request failed and must not be sent again.
        """
        if isinstance(outcome, Answer) and 200 <= outcome.status < 300:
            return None
        failure = _failed(outcome) if isinstance(outcome, Answer) else _unanswered(outcome)
        if failure.may_have_taken_effect and not self._request.idempotent:
            raise ServiceUnavailable(
                f"{failure.reason}; the request may have taken effect: check before you send it again"
            )
        left = self._end - self._policy.clock()
        if not failure.retryable or left <= 0:
            raise failure.error
        if self._failed == _QUIET_ATTEMPTS:
            _LOG.warning("%s: retrying for %.0f more seconds", failure.reason, left)
        pause = self._policy.pause(self._failed, failure.retry_after, left)
        self._failed += 1
        self._uncertain = self._uncertain or failure.may_have_taken_effect
        return pause

    def response(self, answer: Answer) -> Response:
        """Return the response in a successful answer."""
        return Response(answer.content, self._uncertain)


def _unanswered(outcome: NoAnswer) -> _Failure:
    error = ServiceUnavailable(f"{outcome.reason}: check that the service is running at this URL")
    return _Failure(error, outcome.reason, retryable=True, may_have_taken_effect=outcome.sent)


def _failed(answer: Answer) -> _Failure:
    retryable = answer.status in _RETRY_STATUS
    may_have_begun = retryable and answer.status not in _NO_EFFECT_STATUS
    try:
        detail = _ERROR.decode(answer.content).error
    except (msgspec.MsgspecError, UnicodeDecodeError):
        reason = f"the response has status {answer.status} and does not come from a glcb service"
        error: GlcbError = (
            ServiceUnavailable(f"{reason}: retry later")
            if retryable
            else ServiceError(f"{reason}: check the URL and any proxy in between")
        )
        return _Failure(error, reason, retryable, may_have_begun, answer.retry_after)
    error = exception_of(detail.code, detail.message, detail.field)
    may_have_taken_effect = may_have_begun and detail.code not in _NO_EFFECT_CODES
    return _Failure(error, detail.message, retryable, may_have_taken_effect, answer.retry_after)
