"""The fast path: one decision, and its reward, without routing or request objects.

The headers of a client hardly differ between its requests. Those of a request that was parsed and admitted
are remembered: a later one with the same headers, byte for byte, is not parsed again.
"""

import asyncio
import re
import time
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.json import Decoder

from glcb._api.requests import DecisionRequest, RewardItem, RewardRequest
from glcb._api.responses import PublicDecision
from glcb.service import tracing
from glcb.service.auth import ANONYMOUS, ApiKey
from glcb.service.core.engine import OnDone
from glcb.service.errors import ApiError
from glcb.service.http import access, publish
from glcb.service.http.admission import Admission
from glcb.service.http.backend import Backend
from glcb.service.http.wire import Header, decode

DECISION = "/v1/experiments/{name}/decisions"
REWARD = "/v1/experiments/{name}/decisions/{id}/reward"
PATHS = (DECISION, REWARD)
_DECISION_REQUEST = Decoder(DecisionRequest)
_REWARD_REQUEST = Decoder(RewardRequest)
_PUBLIC_DECISION = Decoder(PublicDecision)
_MAX_LENGTH_DIGITS = 5
"""Bodies below 100 kB are received by the connection itself."""
_MAX_REMEMBERED = 1_024
_MAX_REMEMBERED_BYTES = 1_024
"""Longer headers are not remembered."""
_REQUEST_LINE = re.compile(
    rb"POST /v1/experiments/([A-Za-z0-9_.-]+)/decisions(?:/([A-Za-z0-9_.-]+)/reward)? HTTP/1\.1"
)


class Admitted(NamedTuple):
    """A decision, or a reward, that its API key permits."""

    route: str
    experiment: str
    decision: str
    """The id of the decision if this is a reward, otherwise empty."""
    key: ApiKey
    parent: str = ""
    """The header ``traceparent``, if the service is traced."""


class Recalled(NamedTuple):
    """A decision, or a reward, whose headers were remembered."""

    admitted: Admitted
    start: int
    """Where its body begins."""
    end: int
    """Where its body ends."""


class _Headers(NamedTuple):
    """The headers of an earlier request that was admitted."""

    key: ApiKey
    length: int
    """The length of its body."""


def match(method: str, path: str) -> tuple[str, str, str] | None:
    """Return route, experiment and decision id if a request belongs to the fast path.

    >>> match("POST", "/v1/experiments/home/decisions")
    ('/v1/experiments/{name}/decisions', 'home', '')
    >>> match("POST", "/v1/experiments/home/decisions/17-00ab12cd/reward")
    ('/v1/experiments/{name}/decisions/{id}/reward', 'home', '17-00ab12cd')
    >>> match("GET", "/v1/experiments/home/decisions")
    """
    if method != "POST" or not path.startswith("/v1/experiments/"):
        return None
    parts = path.split("/")
    if len(parts) == 5 and parts[4] == "decisions":
        return DECISION, parts[3], ""
    if len(parts) == 7 and parts[4] == "decisions" and parts[5] and parts[6] == "reward":
        return REWARD, parts[3], parts[5]
    return None


class FastPath:
    """Admits and makes single decisions and rewards.

    Parameters
    ----------
    engine
        Applies decisions and rewards.
    authenticator
        Finds the API key of a request.
    admission
        Limits the requests at the same time.
    """

    def __init__(self, engine: Backend, authenticator: access.Authenticator, admission: Admission) -> None:
        self._engine = engine
        self._authenticator = authenticator
        self._admission = admission
        self._has_cors = bool(engine.settings.cors_origins)
        self._is_traced = engine.settings.trace_endpoint is not None
        self._remembered: dict[bytes, _Headers] = {}
        self._known_keys: object = None
        """The API keys of the service when the first of these headers were remembered."""

    def admit(self, method: str, path: str, headers: Sequence[Header]) -> Admitted | None:
        """Return a decision or a reward that is certainly permitted and has a small JSON body.

        For all other requests, return None: the application decides what is wrong with them, if anything. It
        also answers publishable API keys.
        """
        matched = match(method, path)
        if matched is None:
            return None
        fields = dict(reversed(headers))  # the first of several headers with the same name counts
        if (
            fields.get(b"content-type") != b"application/json"
            or len(length := fields.get(b"content-length", b"")) > _MAX_LENGTH_DIGITS
            or not length
            or int(length) > self._engine.settings.max_body_bytes
            or b"expect" in fields
            or (self._has_cors and b"origin" in fields)  # the response needs more headers
        ):
            return None
        try:
            key = self._authenticator.recognize(fields)
        except ApiError:
            return None
        if key is None or not key.has_role("decide") or not key.can_access(matched[1]):
            return None
        return Admitted(*matched, key, tracing.parent_of(headers) if self._is_traced else "")

    def remember(self, received: bytes, admitted: Admitted, length: int) -> None:
        """Remember the headers of an admitted request.

        Parameters
        ----------
        received
            The request, from its first byte on.
        admitted
            What it is.
        length
            The length of its body.
        """
        start, end = received.find(b"\r\n"), received.find(b"\r\n\r\n")
        is_short = 0 < start < end <= start + _MAX_REMEMBERED_BYTES
        if self._is_traced or not is_short or not _REQUEST_LINE.fullmatch(received, 0, start):
            return
        keys, key = self._authenticator.keyring.keys, admitted.key
        if key not in keys if keys else key is not ANONYMOUS:
            return  # it has just been removed, or the first key added
        if self._known_keys is not keys or len(self._remembered) >= _MAX_REMEMBERED:
            self._remembered, self._known_keys = {}, keys
        self._remembered[received[start:end]] = _Headers(key, length)

    def recall(self, received: bytes) -> Recalled | None:
        """Return a decision or a reward whose headers are complete and remembered.

        A request that is not recalled may be valid all the same.
        """
        start, end = received.find(b"\r\n"), received.find(b"\r\n\r\n")
        if not 0 < start < end:
            return None
        if self._known_keys is not self._authenticator.keyring.keys:
            self._remembered = {}  # keys may have been removed
        headers = self._remembered.get(received[start:end])
        if headers is None:
            return None
        line = _REQUEST_LINE.fullmatch(received, 0, start)
        if line is None:
            return None
        name, decision = line[1].decode(), (line[2] or b"").decode()
        if not headers.key.can_access(name):
            return None
        admitted = Admitted(REWARD if decision else DECISION, name, decision, headers.key)
        return Recalled(admitted, end + 4, end + 4 + headers.length)

    async def handle(self, admitted: Admitted, content: bytes) -> bytes:
        """Make the decision or report the reward; return the response body once the event is on disk."""
        began = time.perf_counter()
        name, key = admitted.experiment, admitted.key
        self._admission.enter("decisions", key.name, name)
        try:
            kind, request = _parse(admitted, content)
            if isinstance(request, RewardItem):
                return await self._engine.apply(name, kind, request)
            response = await self._engine.apply(name, kind, publish.restricted(key, request))
            self._engine.activity[name].latency.add(time.perf_counter() - began)
            return publish.visible(key, response, _PUBLIC_DECISION)
        finally:
            self._admission.leave("decisions", key.name, name)

    def start(self, admitted: Admitted, content: bytes, done: OnDone) -> None:
        """Do the same without a task; later, call ``done`` with the response body or an error."""
        began = time.perf_counter()
        name, key = admitted.experiment, admitted.key
        admission, engine = self._admission, self._engine

        def finish(result: bytes | BaseException) -> None:
            admission.leave("decisions", key.name, name)
            if kind == "decide" and isinstance(result, bytes):
                engine.activity[name].latency.add(time.perf_counter() - began)
            done(result)

        try:
            kind, request = _parse(admitted, content)
            admission.enter("decisions", key.name, name)
        except ApiError as error:
            asyncio.get_running_loop().call_soon(done, error)
        else:
            if admitted.parent:
                with tracing.within(admitted.parent):
                    engine.apply_soon(name, kind, request, finish)
            else:
                engine.apply_soon(name, kind, request, finish)


def _parse(admitted: Admitted, content: bytes) -> tuple[str, DecisionRequest | RewardItem]:
    """Return the kind of event and the request."""
    if not admitted.decision:
        return "decide", decode(content, _DECISION_REQUEST)
    reward = decode(content, _REWARD_REQUEST)
    item = RewardItem(
        id=admitted.decision,
        value=reward.value,
        slot=reward.slot,
        examined=reward.examined,
        idempotency_key=reward.idempotency_key,
        metrics=reward.metrics,
    )
    return "reward", publish.marked(admitted.key, item)
