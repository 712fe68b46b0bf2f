"""The routes that everything waits for: a decision, and its reward."""

import time

from glcb._api.requests import DecisionRequest, RewardOf, RewardRequest
from glcb.service.core.engine import Engine
from glcb.service.http.wire import Receive, Scope, body, check_json, decoded

DECISION = "/v1/experiments/{name}/decisions"
REWARD = "/v1/experiments/{name}/decisions/{id}/reward"
PATHS = (DECISION, REWARD)


def matched(method: str, path: str) -> tuple[str, str, str] | None:
    """Return route, experiment and decision of a request for one of the hot routes.

    >>> matched("POST", "/v1/experiments/home/decisions")
    ('/v1/experiments/{name}/decisions', 'home', '')
    >>> matched("POST", "/v1/experiments/home/decisions/17-00ab12cd/reward")
    ('/v1/experiments/{name}/decisions/{id}/reward', 'home', '17-00ab12cd')
    >>> matched("GET", "/v1/experiments/home/decisions")
    """
    if method != "POST" or not path.startswith("/v1/experiments/"):
        return None
    parts = path.split("/")
    if len(parts) == 5 and parts[4] == "decisions":
        return DECISION, parts[3], ""
    if len(parts) == 7 and parts[4] == "decisions" and parts[5] and parts[6] == "reward":
        return REWARD, parts[3], parts[5]
    return None


async def answered(engine: Engine, name: str, decision: str, scope: Scope, receive: Receive) -> bytes:
    """Return a decision, or what became of the reward of one, when it is on disk."""
    began = time.perf_counter()
    check_json(scope)
    settings = engine.settings
    content = await body(scope, receive, settings.max_body, settings.request_seconds)
    if decision:
        given = decoded(content, RewardRequest)
        return await engine.happens(
            name, "reward", RewardOf(id=decision, value=given.value, idempotency_key=given.idempotency_key)
        )
    answer = await engine.happens(name, "decide", decoded(content, DecisionRequest))
    engine.activity[name].latency.add(time.perf_counter() - began)
    return answer
