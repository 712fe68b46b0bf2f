"""The fast path: one decision, and its reward, without routing or request objects."""

import time

from glcb._api.requests import DecisionRequest, RewardItem, RewardRequest
from glcb.service.core.engine import Engine
from glcb.service.http.wire import Receive, Scope, check_json, decode, read_body

DECISION = "/v1/experiments/{name}/decisions"
REWARD = "/v1/experiments/{name}/decisions/{id}/reward"
PATHS = (DECISION, REWARD)


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


async def handle(engine: Engine, name: str, decision: str, scope: Scope, receive: Receive) -> bytes:
    """Make a decision, or report the reward of one; return the response body once the event is on disk."""
    began = time.perf_counter()
    check_json(scope)
    settings = engine.settings
    content = await read_body(scope, receive, settings.max_body_bytes, settings.request_seconds)
    if decision:
        reward = decode(content, RewardRequest)
        item = RewardItem(id=decision, value=reward.value, idempotency_key=reward.idempotency_key)
        return await engine.apply(name, "reward", item)
    response = await engine.apply(name, "decide", decode(content, DecisionRequest))
    engine.activity[name].latency.add(time.perf_counter() - began)
    return response
