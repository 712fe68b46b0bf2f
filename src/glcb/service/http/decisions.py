"""Single decisions and their rewards, the requests that matter most: they are answered without a router."""

import time
from typing import NamedTuple

from msgspec.json import Decoder

from glcb._api.requests import DecisionRequest, RewardItem, RewardRequest
from glcb._api.responses import PublicDecision
from glcb.service.http import publish, wire
from glcb.service.http.admission import Admission
from glcb.service.http.authentication import Authenticator, authorize
from glcb.service.http.backend import Backend
from glcb.service.http.wire import Receive, Scope

DECISION = "/v1/experiments/{name}/decisions"
REWARD = "/v1/experiments/{name}/decisions/{id}/reward"
PATHS = (DECISION, REWARD)
_DECISION_REQUEST = Decoder(DecisionRequest)
_REWARD_REQUEST = Decoder(RewardRequest)
_PUBLIC_DECISION = Decoder(PublicDecision)


class Match(NamedTuple):
    """A path of a decision or a reward."""

    route: str
    experiment: str
    decision: str
    """The id of the decision if this is a reward, otherwise empty."""


def match(method: str, path: str) -> Match | None:
    """Return what a request asks for if it is a decision or a reward.

    >>> match("POST", "/v1/experiments/home/decisions")
    Match(route='/v1/experiments/{name}/decisions', experiment='home', decision='')
    >>> match("POST", "/v1/experiments/home/decisions/17-00ab12cd/reward").decision
    '17-00ab12cd'
    >>> match("GET", "/v1/experiments/home/decisions")
    """
    if method != "POST" or not path.startswith("/v1/experiments/"):
        return None
    parts = path.split("/")
    if len(parts) == 5 and parts[4] == "decisions":
        return Match(DECISION, parts[3], "")
    if len(parts) == 7 and parts[4] == "decisions" and parts[5] and parts[6] == "reward":
        return Match(REWARD, parts[3], parts[5])
    return None


class Decisions:
    """Makes single decisions and reports their rewards.

    Parameters
    ----------
    backend
        Applies decisions and rewards.
    authenticator
        Finds the API key of a request.
    admission
        Limits the requests at the same time and the memory of their bodies.
    """

    def __init__(self, backend: Backend, authenticator: Authenticator, admission: Admission) -> None:
        self._backend = backend
        self._authenticator = authenticator
        self._admission = admission

    async def answer(self, asked: Match, scope: Scope, receive: Receive) -> bytes:
        """Make the decision or report the reward; return the response body once the event is on disk."""
        scope["glcb.route"], name = asked.route, asked.experiment
        key = scope["glcb.key"] = await self._authenticator.authenticate(scope)
        authorize(key, "publish", name)
        scope["glcb.experiment"] = name
        lease = scope["glcb.lease"] = self._admission.lease(key, name)
        wire.check_json(scope)
        settings = self._backend.settings
        content = await wire.read_body(
            scope, receive, settings.max_body_bytes, settings.request_seconds, lease.take
        )
        began = time.perf_counter()
        lease.enter("decisions")
        if asked.decision:
            reward = _item(asked.decision, wire.decode(content, _REWARD_REQUEST))
            return await self._backend.apply(name, "reward", publish.marked(key, reward))
        request = publish.restricted(key, wire.decode(content, _DECISION_REQUEST))
        response = await self._backend.apply(name, "decide", request)
        self._backend.activity[name].latency.add(time.perf_counter() - began)
        return publish.visible(key, response, _PUBLIC_DECISION)


def _item(decision: str, reward: RewardRequest) -> RewardItem:
    """Return a reward with the id of its decision."""
    return RewardItem(
        id=decision,
        value=reward.value,
        slot=reward.slot,
        examined=reward.examined,
        idempotency_key=reward.idempotency_key,
        metrics=reward.metrics,
    )
